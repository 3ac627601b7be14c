"""A family with a topic, through ctypes.

Run as a program it is the family of a crash test: ``native_topic.py <directory> <session>``.
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
import native_ring
from native_ring import DONE, EMPTY, INTERRUPTED, Ring

N_MESSAGES = 80
DEPTH, _HISTORY, _SUBSCRIBERS = 4, 3, 2
_LAST = 2**32


class _Wish(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("depth", "history", "overflow")]


class Topic:
    """A topic of this family, which children inherit."""

    def __init__(self, owner: native.Native, history: int = _HISTORY) -> None:
        self.native, self.pointer = owner, ctypes.c_void_p()
        lib, session = owner.lib, ctypes.c_void_p()
        lib.shmt__sessions_lock()
        owner.check(lib.shmt__session_open_default(ctypes.byref(session)))
        lib.shmt__sessions_unlock()
        log, table, wish = ctypes.c_void_p(), ctypes.c_void_p(), _Wish(DEPTH, history, 0)
        make = lib.shmt__topic_make_storages
        owner.check(make(session, ctypes.byref(wish), ctypes.byref(log), ctypes.byref(table)))
        owner.check(lib.shmt__topic_over(log, table, ctypes.byref(self.pointer)))
        assert lib.shmt__topic_say(self.pointer, ctypes.byref(wish), ctypes.byref(_Wish()))

    def publish(self, data: bytes, blocks: tuple[native.Block, ...] = ()) -> None:
        """Publish a message."""
        storages = (ctypes.c_void_p * len(blocks))(*(b.pointer.value for b in blocks))
        m = native_ring._OutgoingMessage(storages, len(blocks), 0, (data, None), (len(data), 0))
        self._call("publish", ctypes.byref(m), ctypes.c_uint64(native_ring.FOREVER))

    def subscribe(self) -> Ring:
        """Begin to receive."""
        ring = Ring.__new__(Ring)
        ring.native, ring.pointer = self.native, ctypes.c_void_p()
        forever = ctypes.c_uint64(native_ring.FOREVER)
        self._call("subscribe", ctypes.c_bool(False), forever, ctypes.byref(ring.pointer))
        return ring

    def _call(self, name: str, *arguments: object) -> None:
        result = INTERRUPTED
        while result == INTERRUPTED:
            result = int(getattr(self.native.lib, f"shmt__topic_{name}")(self.pointer, *arguments))
        assert result == DONE, (name, result)


def _number(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _receive(topic: Topic, report: int, family: int) -> None:
    """Check all that comes; messages that were lost are left out, none comes twice."""
    ring = topic.subscribe()
    os.write(report, b"s")
    last: dict[int, int] = {}
    while os.getppid() == family:
        time.sleep(1e-4)
        result, data, blocks = ring.get(wait=False)
        if result == EMPTY:
            continue
        assert result == DONE, result
        sender, seq = divmod(_number(data), _LAST)
        if seq == N_MESSAGES:
            break
        assert seq > last.get(sender, -1), (sender, seq, last)
        last[sender] = seq
        assert [block.value() for block in blocks] == [seq % 251] * (seq % 3)
    topic.native.lib.shmt__topic_unsubscribe(topic.pointer, ring.pointer)
    ring.close()


def _send(topic: Topic, sender: int) -> None:
    for seq in range(N_MESSAGES):
        blocks = tuple(topic.native.new(1000 + seq).fill(seq % 251) for _ in range(seq % 3))
        number = sender * _LAST + seq
        topic.publish(number.to_bytes(8, "little") + b"x" * (seq % 7 * 100), blocks)


def _fork(work: object, *arguments: object) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work(*arguments)  # type: ignore[operator]
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def work(owner: native.Native) -> None:
    """Two publishers and two subscribers, any of which may be killed."""
    topic = Topic(owner)
    reader, report = os.pipe()
    children = [_fork(_receive, topic, report, os.getpid()) for _ in range(_SUBSCRIBERS)]
    os.close(report)
    with contextlib.suppress(BrokenPipeError):
        os.read(reader, 1)
    own = topic.subscribe()
    sender = _fork(_send, topic, 1)
    _send(topic, 2)
    os.waitpid(sender, 0)
    # Whoever was killed, a message that is published now reaches everybody who is left.
    end = (3 * _LAST + N_MESSAGES).to_bytes(8, "little")
    topic.publish(end)
    result, data, _ = own.get(wait=False)
    while _number(data) != 3 * _LAST + N_MESSAGES:
        result, data, _ = own.get(wait=False)
        assert result == DONE, result
    assert own.get(wait=False)[0] == EMPTY
    late = topic.subscribe()
    seen = [late.get(wait=False)[1] for _ in range(_HISTORY)]
    assert seen[-1] == end
    codes = [os.waitpid(child, 0)[1] for child in children]
    assert all(os.WIFSIGNALED(code) or os.WEXITSTATUS(code) == 0 for code in codes), codes
    for ring in (own, late):
        ring.close()
    owner.lib.shmt__topic_close(topic.pointer)


if __name__ == "__main__":
    work(native.Native(Path(sys.argv[1]), int(sys.argv[2])))
