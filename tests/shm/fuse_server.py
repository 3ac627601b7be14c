"""A file system of FUSE with one file, whose server answers until it is told to fall silent.

For Linux, and for root: it mounts itself. What it does not answer stays unanswered until `end`,
which comes by itself after a while: a process that waits for an answer cannot be killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
import tempfile
import threading
from collections import Counter

_LOOKUP, _FORGET, _GETATTR, _OPEN, _INIT, _BATCH_FORGET = 1, 2, 3, 14, 26, 42
FLUSH = 25
_FILE = 2  # its node; 1 is the root
_NOSUID_NODEV, _FORCE, _DETACH = 2 | 4, 1, 2
_END_S = 110


def _attributes(node: int) -> bytes:
    mode = stat.S_IFREG | 0o600 if node == _FILE else stat.S_IFDIR | 0o700
    times = (0,) * 3 + (0,) * 3
    return struct.pack("<QQQQQQIIIIIIIIII", node, 4096, 8, *times, mode, 1, 0, 0, 0, 4096, 0)


class FileSystem:
    """Mounted at `folder`; `path` is its file.

    Raises:
        OSError: It cannot be mounted here.
    """

    def __init__(self) -> None:
        self.silent: set[int] = set()  # kinds of requests that get no answer
        self.seen: Counter[int] = Counter()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._device = os.open("/dev/fuse", os.O_RDWR)
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, "file")
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0".encode()
        mount = self._libc.mount
        if mount(b"test", self.folder.encode(), b"fuse", _NOSUID_NODEV, options) != 0:
            error = ctypes.get_errno()
            self._clean()
            raise OSError(error, os.strerror(error))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._timer = threading.Timer(_END_S, self._abort)
        self._timer.daemon = True
        self._timer.start()

    def fall_silent(self) -> None:
        """Answer nothing from now on that a look at the file, or its close, asks."""
        self.silent = {_GETATTR, FLUSH}

    def end(self) -> None:
        """End the connection, which gives an error to whoever waits for an answer."""
        self._timer.cancel()
        self._abort()
        self._thread.join()
        self._clean()

    def _abort(self) -> None:
        self._libc.umount2(self.folder.encode(), _FORCE)
        self._libc.umount2(self.folder.encode(), _DETACH)

    def _clean(self) -> None:
        os.close(self._device)
        os.rmdir(self.folder)

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, 1 << 20)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                continue
            _, kind, unique, node = struct.unpack_from("<IIQQ", request)
            self.seen[kind] += 1
            if kind in self.silent or kind in (_FORGET, _BATCH_FORGET):
                continue
            code, data = self._answer(kind, node, request[40:])
            with contextlib.suppress(OSError):  # who asked has ended meanwhile
                os.write(self._device, struct.pack("<IiQ", 16 + len(data), -code, unique) + data)

    def _answer(self, kind: int, node: int, body: bytes) -> tuple[int, bytes]:
        if kind == _INIT:
            return 0, struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 4, 4, 4096, 1, 0, 0, 0)
        if kind == _LOOKUP:
            if body != b"file\0":
                return errno.ENOENT, b""
            return 0, struct.pack("<QQQQII", _FILE, 0, 0, 0, 0, 0) + _attributes(_FILE)
        if kind == _GETATTR:
            return 0, struct.pack("<QII", 0, 0, 0) + _attributes(node)
        if kind == _OPEN:
            return 0, struct.pack("<QII", 1, 0, 0)
        return (0 if kind == FLUSH else errno.ENOSYS), b""
