"""Rings alone, through ctypes, and a family that sends through one.

Run as a program it is the family of a crash test: ``native_ring.py <directory> <session>``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
import traceback
from pathlib import Path

import native
import waiting

DONE, EMPTY, FULL, NO_ROOM, BUSY, INTERRUPTED, ALONE, FAILED = range(8)
NO_GET, NO_PUT = 1, 2
KEEP, PENDING, BEHIND = 1, 2, 4
FOREVER = 2**64 - 1
INLINE = 32 << 10
N_MESSAGES = 60
_OF_THE_MANAGER = ("ring_owner_marked_dead", "ring_audit_locked", "ring_audit_corrected")


class _OutgoingMessage(ctypes.Structure):
    _fields_ = [
        ("storages", ctypes.POINTER(ctypes.c_void_p)),
        ("n_storages", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("parts", ctypes.c_char_p * 2),
        ("part_bytes", ctypes.c_uint32 * 2),
    ]


class _ReceivedMessage(ctypes.Structure):
    _fields_ = [
        ("storages", ctypes.POINTER(ctypes.c_void_p)),
        ("n_storages", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("data", ctypes.c_void_p),
        ("nbytes", ctypes.c_uint32),
    ]


class Ring:
    """A ring of this process."""

    def __init__(self, owner: native.Native, max_messages: int = 0, handle: bytes = b"") -> None:
        self.native = owner
        self.pointer = ctypes.c_void_p()
        out = ctypes.byref(self.pointer)
        if handle:
            raw = (ctypes.c_ubyte * native.HANDLE_BYTES).from_buffer_copy(handle)
            owner.check(owner.lib.shmt__ring_open(raw, out))
        else:
            owner.check(owner.lib.shmt__ring_create(max_messages, out))

    def close(self) -> None:
        """Stop using the ring."""
        self.native.lib.shmt__ring_close(self.pointer)
        self.pointer = ctypes.c_void_p()

    def handle(self) -> bytes:
        """What another process opens."""
        out = (ctypes.c_ubyte * native.HANDLE_BYTES)()
        self.native.check(self.native.lib.shmt__ring_export(self.pointer, out))
        return bytes(out)

    def put(
        self,
        data: bytes,
        blocks: tuple[native.Block, ...] = (),
        flags: int = 0,
        *,
        wait: bool = False,
    ) -> int:
        """Put a message; the result says what came of it."""
        storages = (ctypes.c_void_p * len(blocks))(*(b.pointer.value for b in blocks))
        message = _OutgoingMessage(storages, len(blocks), 0, (data, None), (len(data), 0))
        return self._call("put", ctypes.byref(message), flags, wait=wait)

    def get(self, *, wait: bool = True) -> tuple[int, bytes, list[native.Block]]:
        """Take a message: the result, its data, its blocks."""
        received = _ReceivedMessage()
        n = ctypes.c_uint32()
        result = self._call("get", ctypes.byref(received), 1, ctypes.byref(n), wait=wait)
        if result != DONE:
            return result, b"", []
        data = ctypes.string_at(received.data, received.nbytes)
        blocks = []
        for i in range(received.n_storages):
            pointer = received.storages[i]
            assert pointer is not None
            blocks.append(native.Block(self.native, pointer))
        received.n_storages = 0  # the references are the blocks' now
        self.native.lib.shmt__received_message_fini(ctypes.byref(received))
        return result, data, blocks

    def _call(self, name: str, *arguments: object, wait: bool) -> int:
        call = getattr(self.native.lib, f"shmt__ring_{name}")
        while True:
            result = int(call(self.pointer, *arguments, ctypes.c_uint64(FOREVER if wait else 0)))
            if result != INTERRUPTED:
                return result

    def end(self, ends: int) -> None:
        """No longer get, or put."""
        self.native.lib.shmt__ring_end(self.pointer, ends)

    def size(self) -> int:
        """Messages in the ring and pending."""
        return int(self.native.lib.shmt__ring_size(self.pointer))


def message(seq: int, nbytes: int) -> bytes:
    """Bytes that say what they are."""
    return seq.to_bytes(8, "little") + bytes([seq % 256]) * nbytes


def check_message(data: bytes) -> int:
    """Check such bytes; returns their number."""
    seq = int.from_bytes(data[:8], "little")
    assert data == message(seq, len(data) - 8)
    return seq


def _n_blocks(seq: int) -> int:
    """The first message has more than a ring names: those are on a list."""
    return 2100 if seq == 0 else seq % 3


def _consume(ring: Ring, go: int, report: int) -> None:
    ring.end(NO_PUT)
    os.read(go, 1)
    last = -1
    while True:
        result, data, blocks = ring.get()
        if result == ALONE:
            return
        assert result == DONE, result
        seq = check_message(data)
        assert seq > last, (seq, last)
        last = seq
        assert [block.value() for block in blocks] == [seq % 251] * _n_blocks(seq)
        os.write(report, data[:8])


def _produce(ring: Ring, go: int) -> None:
    waited = False
    for seq in range(N_MESSAGES):
        blocks = tuple(ring.native.new(1000 + seq).fill(seq % 251) for _ in range(_n_blocks(seq)))
        data = message(seq, 30_000 if seq < 20 else 10)
        result = ring.put(data, blocks, KEEP)
        if result in (NO_ROOM, BUSY):  # busy: a manager was killed with the lock
            if not waited:
                with contextlib.suppress(BrokenPipeError):
                    os.write(go, b"gg")
            waited = True
            result = ring.put(data, blocks, PENDING, wait=True)
        if result == ALONE:
            return  # both children were killed
        assert result == DONE, result
        if seq % 10 == 9:
            time.sleep(0.002)  # the consumers fall asleep
    assert waited


def _fork_consumer(ring: Ring, go: tuple[int, int], report: tuple[int, int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.close(go[1])
        os.close(report[0])
        _consume(ring, go[0], report[1])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def work(owner: native.Native) -> None:
    """Send to two children: a message that is missing was in the hands of one that was killed."""
    ring = Ring(owner)
    go, report = os.pipe(), os.pipe()
    children = [_fork_consumer(ring, go, report) for _ in range(2)]
    os.close(go[0])
    os.close(report[1])
    ring.end(NO_GET)
    _produce(ring, go[1])
    ring.end(NO_PUT)
    os.close(go[1])
    received: list[bytes] = []
    while chunk := os.read(report[0], 8):
        received.append(chunk)
    codes = [os.waitpid(child, 0)[1] for child in children]
    killed = sum(os.WIFSIGNALED(code) for code in codes)
    assert all(os.WIFSIGNALED(code) or os.WEXITSTATUS(code) == 0 for code in codes), codes
    numbers = [int.from_bytes(chunk, "little") for chunk in received]
    assert len(set(numbers)) == len(numbers)
    assert killed == 2 or len(numbers) >= N_MESSAGES - killed, sorted(numbers)
    _wait_for_the_manager()
    ring.close()


def _wait_for_the_manager() -> None:
    """Its part in rings is done while there is one: when it hears of a death, and at its looks."""
    point, _, token = os.environ.get("SHMTENSOR_FAILPOINT", "").partition(":")
    if point in _OF_THE_MANAGER:
        waiting.until(lambda: not Path(token).exists())


if __name__ == "__main__":
    work(native.Native(Path(sys.argv[1]), int(sys.argv[2])))
