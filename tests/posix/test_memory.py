"""Tensors over POSIX shared memory: what a C program sees of ours, and we of its.

Not covered: whose a name is, and when it goes (test_owners.py).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import service_programs
import waiting

import shmtensor as torch
from shmtensor import posix
from shmtensor.service import Service


def _n_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.check
def test_c_program_reads_memory_that_was_made_here(
    name: str, service: Service, stranger: Any
) -> None:
    t = posix.create(name, (4, 25), torch.float64, service=service)
    assert t.sum().item() == 0
    t.copy_(torch.arange(100, dtype=torch.float64).view(4, 25))
    assert stranger("sum", name).finish() == "4950"


@pytest.mark.check
def test_memory_of_a_c_program_is_read_and_written(name: str, stranger: Any) -> None:
    maker = stranger("make", name, 100)
    assert maker.line() == "ready"
    seen = posix.open(name, (4, 25), torch.float64)
    assert seen.sum().item() == 4950
    with pytest.raises(RuntimeError, match="read-only"):
        seen.fill_(0)
    written = posix.open(name, dtype=torch.float64, mode="rw")
    assert written.shape == (100,)
    written += 1
    assert seen[0, 0].item() == 1
    assert maker.finish() == "5050"
    assert seen.sum().item() == 5050  # it keeps the memory, which has neither a name nor its maker


def test_memory_is_opened_from_an_offset(name: str, service: Service) -> None:
    whole = posix.create(name, 8, torch.int32, service=service)
    whole.copy_(torch.arange(8))
    assert posix.open(name, (2, 2), torch.int32, offset=8).tolist() == [[2, 3], [4, 5]]
    assert posix.open(name, dtype=torch.int32, offset=24).tolist() == [6, 7]
    assert posix.open(name, dtype=np.int32, offset=28, as_="numpy").tolist() == [7]
    with pytest.raises(ValueError, match=r"a multiple of 4, .* got 6"):
        posix.open(name, dtype=torch.int32, offset=6)
    with pytest.raises(ValueError, match="got -4"):
        posix.open(name, dtype=torch.int32, offset=-4)
    with pytest.raises(ValueError, match="has 32 bytes, which are no whole elements of 4 bytes"):
        posix.open(name, dtype=torch.int32, offset=32)


def test_copy_on_write_stays_in_the_process(name: str, service: Service) -> None:
    t = posix.create(name, 3, service=service)
    own = posix.open(name, mode="cow")
    own.fill_(7)
    assert t.tolist() == [0, 0, 0]
    assert own.tolist() == [7, 7, 7]


def test_arrays_are_over_the_same_memory(name: str, service: Service) -> None:
    record = np.dtype([("x", "<f8"), ("n", "<i2")])
    made = posix.create(name, (3,), record, service=service, as_="numpy")
    assert made.dtype == record
    made["x"][1] = 2.5
    seen = posix.open(name, dtype=record, as_="numpy")
    assert seen["x"].tolist() == [0, 2.5, 0]
    with pytest.raises(ValueError, match="read-only"):
        seen["x"][0] = 1
    behind = posix.open(name, 2, record, offset=record.itemsize, mode="rw", as_="numpy")
    behind["n"] = 9
    assert made["n"].tolist() == [0, 9, 9]


def test_torch_tensors_are_over_the_same_memory(name: str, service: Service) -> None:
    theirs = pytest.importorskip("torch")
    made = posix.create(name, (2, 3), theirs.float16, service=service, as_="torch")
    assert made.dtype == theirs.float16
    made.fill_(3)
    assert posix.open(name, dtype=torch.float16).tolist() == [3] * 6
    assert posix.open(name, (3, 2), theirs.float16, mode="rw", as_="torch").sum().item() == 18


def test_tensor_travels_through_a_queue_without_a_copy(name: str, service: Service) -> None:
    t = posix.create(name, 4, torch.int64, service=service)
    opened = posix.open(name, dtype=torch.int64, mode="rw")
    queue = torch.multiprocessing.Queue()
    for sent in (t, opened):
        queue.put(sent)
        child = torch.multiprocessing.get_context("fork").Process(target=_add, args=(queue,))
        child.start()
        child.join()
        assert child.exitcode == 0
    assert t.tolist() == [2] * 4
    queue.close()
    queue.join_thread()


def _add(queue: Any) -> None:
    t = queue.get()
    t += 1


def test_names_that_are_none_are_refused_with_their_values() -> None:
    for wrong in ("/a/b", "", "/", "grid", "/a\0b", "/.", "/..", "//"):
        for call in (posix.create, posix.open):
            with pytest.raises(ValueError, match="a POSIX name"):
                call(wrong, 1)
        for call in (posix.unlink, posix.exists, posix.Semaphore, posix.MessageQueue):
            with pytest.raises(ValueError, match="a POSIX name"):
                call(wrong)
    with pytest.raises(ValueError, match="1 to 254 bytes behind its slash, got 255"):
        posix.open("/" + "x" * 255)
    with pytest.raises(ValueError, match="1 to 250 bytes behind its slash, got 251"):
        posix.Semaphore("/" + "x" * 251)
    with pytest.raises(TypeError, match="must be a str, got int"):
        posix.open(3)  # type: ignore[call-overload]


def test_long_names_stay_and_have_no_owners(service: Service) -> None:
    name = f"/{os.getpid()}-".ljust(255, "x")
    with pytest.raises(ValueError, match="at most 175 bytes, got 255"):
        posix.create(name, 1, service=service)
    assert not posix.exists(name)
    posix.create(name, 1, linger=True)
    posix.unlink(name)
    kept = posix.create(name[:175], 1, service=service)
    assert posix.exists(name[:175])
    del kept


def test_memory_that_is_too_small_is_refused_with_both_sizes(
    name: str, service: Service, stranger: Any
) -> None:
    posix.create(name, 3, torch.float32, linger=True)
    with pytest.raises(
        ValueError, match=r"has 12 bytes, and shape \(4,\) with elements of 4 bytes needs 16"
    ):
        posix.open(name, 4, torch.float32)
    with pytest.raises(ValueError, match="needs 16 with offset 4"):
        posix.open(name, 3, torch.float32, offset=4)
    with pytest.raises(ValueError, match="no whole elements of 8 bytes behind offset 0"):
        posix.open(name, dtype=torch.float64)
    with pytest.raises(ValueError, match="needs 36"):
        posix.create(name, (3, 3), torch.float32, if_exists="open", service=service)
    os.truncate("/dev/shm" + name, 8)
    with pytest.raises(ValueError, match="has 8 bytes"):
        posix.open(name, 3, torch.float32)
    os.truncate("/dev/shm" + name, 40)
    assert posix.open(name, dtype=torch.float32).shape == (10,)
    posix.unlink(name)
    maker = stranger("begin", name)
    assert maker.line() == "ready"
    with pytest.raises(ValueError, match="0 bytes: its maker has not given it a size yet"):
        posix.open(name, 1)
    maker.finish()


def test_memory_made_smaller_under_a_tensor_ends_who_reads_it(
    name: str, run: type[service_programs.Program]
) -> None:
    posix.create(name, 10_000, linger=True)
    reader = run(
        f"from shmtensor import posix; t = posix.open({name!r})\n"
        "print('ready', flush=True); input(); print(t.sum())"
    )
    assert reader.line() == "ready"
    os.truncate("/dev/shm" + name, 0)
    reader.say()
    _, text = reader.process.communicate(timeout=60)
    # A sanitizer handles the signal; what it was stands in its report.
    is_sanitized = "AddressSanitizer:DEADLYSIGNAL" in text
    assert reader.process.returncode == (1 if is_sanitized else -signal.SIGBUS)


def test_what_is_no_memory_is_refused(name: str) -> None:
    path = "/dev/shm" + name
    os.mkdir(path)
    try:
        assert not posix.exists(name)
        with pytest.raises(ValueError, match=r"is no shared memory: .* is drwx"):
            posix.open(name, 1)
        with pytest.raises(ValueError, match="it is a folder"):
            posix.unlink(name)
        with pytest.raises(FileExistsError):
            posix.create(name, 1, linger=True)
        with pytest.raises(ValueError, match=r"is no shared memory: .* is drwx"):
            posix.create(name, 1, linger=True, if_exists="open")
        with pytest.raises(ValueError, match="it is a folder"):
            posix.create(name, 1, linger=True, if_exists="replace")
    finally:
        os.rmdir(path)
    os.mkfifo(path)
    with pytest.raises(ValueError, match=r"is no shared memory: .* is prw"):
        posix.open(name, 1)  # it waits for no other end
    with pytest.raises(ValueError, match=r"is no shared memory: .* is prw"):
        posix.create(name, 1, linger=True, if_exists="open")
    os.unlink(path)
    for target in ("/etc/passwd", "/nothing/there"):
        os.symlink(target, path)
        with pytest.raises(ValueError, match=r"is no shared memory: .* is lrw"):
            posix.open(name, 1)
        with pytest.raises(ValueError, match=r"is no shared memory: .* is lrw"):
            posix.create(name, 1, linger=True, if_exists="open")
        os.unlink(path)


def test_what_is_not_there_is_said_by_its_name(name: str) -> None:
    for call in (posix.open, posix.unlink):
        with pytest.raises(FileNotFoundError) as caught:
            call(name)
        assert caught.value.filename == name
    posix.unlink(name, missing_ok=True)
    assert not posix.exists(name)


def test_arguments_that_do_not_go_together(name: str, service: Service) -> None:
    for wrong, text in (
        ({"mode": "w"}, "mode must be one of"),
        ({"owner": True}, "an owner opens with mode='rw'"),
        ({"service": service}, "with owner=True only"),
        ({"as_": "jax"}, "as_ must be one of"),
        ({"shape": (-1,)}, "cannot be negative"),
    ):
        with pytest.raises(ValueError, match=text):
            posix.open(name, **wrong)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="if_exists must be one of"):
        posix.create(name, 1, if_exists="append")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="so it needs no service"):
        posix.create(name, 1, linger=True, service=service)
    with pytest.raises(TypeError, match="must be a Service, got str"):
        posix.create(name, 1, service="default")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="at least one byte"):
        posix.create(name, (0, 3), linger=True)
    with pytest.raises(TypeError, match="objects cannot be"):
        posix.create(name, 1, object, linger=True, as_="numpy")
    with pytest.raises(MemoryError, match="tried to allocate"):
        posix.create(name, 1 << 62, linger=True)
    assert not posix.exists(name)


def test_memory_beyond_the_room_is_refused_at_once(name: str) -> None:
    with pytest.raises(MemoryError, match=r"tried \d+ bytes in /dev/shm, which has \d+ left"):
        posix.create(name, 1 << 45, torch.uint8, linger=True)
    assert not posix.exists(name)


def test_a_shape_that_no_tensor_has_leaves_the_names_as_they_were(
    name: str, service: Service
) -> None:
    shape = [1] * 65
    with pytest.raises(RuntimeError, match="too many"):
        posix.create(name, shape, linger=True)
    assert not posix.exists(name)
    kept = posix.create(name, 1, torch.int32, linger=True)
    kept[0] = 5
    for owns in ({"owner": True, "service": service}, {}):
        with pytest.raises(RuntimeError, match="too many"):
            posix.open(name, shape, torch.int32, mode="rw", **owns)  # type: ignore[call-overload]
    with pytest.raises(RuntimeError, match="too many"):
        posix.create(name, shape, torch.int32, linger=True, if_exists="replace")
    posix.create(name + "-after", 1, service=service)  # once this one has gone, all have
    waiting.until(lambda: not posix.exists(name + "-after"))
    assert posix.open(name, 1, torch.int32).tolist() == [5]


def test_name_that_exists(name: str, service: Service) -> None:
    old = posix.create(name, 2, torch.int32, service=service)
    old.fill_(1)
    with pytest.raises(FileExistsError) as caught:
        posix.create(name, 2, torch.int32, service=service)
    assert caught.value.filename == name
    same = posix.create(name, 2, torch.int32, if_exists="open", service=service)
    same[0] = 5
    assert old.tolist() == [5, 1]
    new = posix.create(name, 3, torch.int32, if_exists="replace", service=service)
    assert new.tolist() == [0, 0, 0]
    assert old.tolist() == [5, 1]
    assert posix.open(name, dtype=torch.int32).shape == (3,)


def test_list_and_permissions(name: str) -> None:
    umask = os.umask(0o027)
    try:
        posix.create(name, 5, torch.int16, mode=0o666, linger=True)
    finally:
        os.umask(umask)
    posix.Semaphore(name, 1, linger=True)
    [entry] = [e for e in posix.list() if e.name.endswith(name[1:])]
    assert entry == (name, 10, 0o640, os.geteuid())
    posix.unlink(name)
    assert name not in [e.name for e in posix.list()]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_memory_of_another_user(name: str, run: type[service_programs.Program]) -> None:
    posix.create(name, 5, torch.int16, mode=0o644, linger=True).fill_(3)
    program = f"""
import os, numpy
from shmtensor import posix
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(posix.open({name!r}, dtype="int16", as_="numpy").sum())
for call in (
    lambda: posix.open({name!r}, mode="rw"),
    lambda: posix.unlink({name!r}),
    lambda: posix.create({name!r}, 1, if_exists="replace", linger=True),
):
    try:
        call()
    except PermissionError as error:
        print(error.filename)
"""
    assert run(program).finish().split() == ["15", name, name, name]


def test_no_descriptor_stays_open(name: str, service: Service) -> None:
    def use() -> None:
        t = posix.create(name, 4, service=service)
        posix.open(name)
        posix.open(name, mode="rw", owner=True, service=service)
        with pytest.raises(FileExistsError):
            posix.create(name, 4, service=service)
        with pytest.raises(ValueError):
            posix.open(name, 400)
        with posix.Semaphore(name, 1, service=service) as s:
            posix.Semaphore(name)
        s.unlink()
        posix.MessageQueue(name, 1, 10).unlink()
        posix.unlink(name)
        del t

    use()
    before = _n_descriptors()
    for _ in range(20):
        use()
    assert _n_descriptors() == before


def test_without_posix_ipc_the_error_says_what_to_install() -> None:
    program = """
import sys
sys.modules["posix_ipc"] = None
try:
    import shmtensor.posix
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert 'pip install "shmtensor[posix]"' in done.stdout
