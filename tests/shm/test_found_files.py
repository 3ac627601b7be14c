"""Files that are opened anew through /proc, while their numbers change hands."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path

import pytest


@pytest.mark.check
@pytest.mark.parametrize("only_found", [False, True])
def test_what_is_opened_is_the_file_that_was_asked_for(
    only_found: bool, native_directory: Path, tmp_path: Path
) -> None:
    lib = ctypes.CDLL(str(native_directory / "libshm.so"))
    lib.shmt__os_open_from_process.argtypes = [
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.c_bool,
    ]
    (tmp_path / "wanted").write_bytes(b"wanted")
    (tmp_path / "other").write_bytes(b"other")
    os.mkfifo(tmp_path / "pipe")
    number = os.open(tmp_path / "wanted", os.O_RDWR)  # the lowest: it is looked at first
    wanted = os.dup(number)
    others = [os.open(tmp_path / name, os.O_RDWR) for name in ("other", "pipe")]
    status = os.fstat(wanted)
    identity = (ctypes.c_uint64 * 2)(status.st_dev, status.st_ino)
    done = threading.Event()

    def exchange() -> None:
        while not done.is_set():
            for fd in (*others, wanted):
                os.dup2(fd, number)

    thread = threading.Thread(target=exchange)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # or each call here would wait 5 ms for the other thread
    thread.start()
    n_found = 0
    try:
        for _ in range(2000):
            fd = lib.shmt__os_open_from_process(os.getpid(), identity, only_found)
            if fd < 0:
                continue
            n_found += 1
            found = os.fstat(fd)
            os.close(fd)
            assert (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino)
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)
        for fd in (wanted, number, *others):
            os.close(fd)
    assert n_found > 0


def test_pipes_and_directories_are_never_found(native_directory: Path, tmp_path: Path) -> None:
    lib = ctypes.CDLL(str(native_directory / "libshm.so"))
    os.mkfifo(tmp_path / "pipe")
    for path, flags in ((tmp_path / "pipe", os.O_RDWR), (tmp_path, os.O_RDONLY)):
        fd = os.open(path, flags)
        status = os.fstat(fd)
        identity = (ctypes.c_uint64 * 2)(status.st_dev, status.st_ino)
        assert lib.shmt__os_open_from_process(os.getpid(), identity, False) == -1
        os.close(fd)
