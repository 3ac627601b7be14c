"""A family with servers that answer calls, through ctypes.

Run as a program it is the family of a crash test: ``native_call.py <directory> <session>``.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
import traceback
from pathlib import Path

import native
from native_ring import (
    ALONE,
    BUSY,
    DONE,
    EMPTY,
    FOREVER,
    INTERRUPTED,
    Ring,
    _OutgoingMessage,
    _ReceivedMessage,
)

N_CALLS, _SERVERS = 60, 2
_SERIAL_SHIFT = 8


def _message(data: bytes, blocks: tuple[native.Block, ...]) -> _OutgoingMessage:
    storages = (ctypes.c_void_p * len(blocks))(*(b.pointer.value for b in blocks))
    return _OutgoingMessage(storages, len(blocks), 0, (data, None), (len(data), 0))


def _serve(ring: Ring, family: int) -> None:
    """Answer with what was asked, until the family is gone."""
    owner = ring.native
    owner.lib.shmt__call_serve(ring.pointer)
    while os.getppid() == family:
        request, n = _ReceivedMessage(), ctypes.c_uint32()
        result = ring._call("get", ctypes.byref(request), 1, ctypes.byref(n), wait=False)
        if result in (EMPTY, BUSY):  # busy: the other server was killed with the lock
            time.sleep(1e-4)
            continue
        assert result == DONE, result
        call = (ctypes.c_ubyte * 1024)()
        owner.lib.shmt__call_open.restype = ctypes.c_bool
        assert owner.lib.shmt__call_open(ctypes.byref(request), call)
        data = ctypes.string_at(request.data, request.nbytes)
        block = owner.new(3000).fill(data[0])
        reply = _message(data, (block,))
        answered = owner.lib.shmt__call_reply(call, ctypes.byref(reply), 0, True)
        assert answered in (DONE, ALONE), answered
        owner.lib.shmt__received_message_fini(ctypes.byref(request))
        owner.lib.shmt__call_close(call)


def _ask(ring: Ring, line: Ring, serial: int) -> int:
    owner = ring.native
    value = serial % 251
    block = owner.new(2000).fill(value)
    request = _message(bytes([value]) * 5, (block,))
    forever = ctypes.c_uint64(FOREVER)
    begin, result = owner.lib.shmt__call_begin, INTERRUPTED
    while result == INTERRUPTED:
        result = begin(ring.pointer, line.pointer, serial, ctypes.byref(request), forever)
    assert result == DONE, result
    reply, result = _ReceivedMessage(), INTERRUPTED
    while result == INTERRUPTED:
        result = owner.lib.shmt__call_wait(line.pointer, serial, forever, ctypes.byref(reply))
    if result == DONE:
        assert reply.flags >> _SERIAL_SHIFT == serial
        assert ctypes.string_at(reply.data, reply.nbytes) == bytes([value]) * 5
        assert reply.n_storages == 1
        owner.lib.shmt__received_message_fini(ctypes.byref(reply))
    owner.lib.shmt__call_give_up(line.pointer, serial)
    return int(result)


def _fork_server(ring: Ring) -> int:
    family = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        _serve(ring, family)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def work(owner: native.Native) -> None:
    """Call two servers; a call is lost only with the server that has it."""
    ring = Ring(owner)
    line = Ring.__new__(Ring)
    line.native, line.pointer = owner, ctypes.c_void_p()
    owner.check(owner.lib.shmt__call_make_line(ring.pointer, 4, ctypes.byref(line.pointer)))
    servers = [_fork_server(ring) for _ in range(_SERVERS)]
    results = [_ask(ring, line, serial) for serial in range(1, N_CALLS + 1)]
    assert set(results) <= {DONE, ALONE}, results
    ended = [pid for pid in servers if os.waitpid(pid, os.WNOHANG)[0]]
    assert results.count(ALONE) <= 1 and len(ended) <= 1, (results, ended)
    for pid in set(servers) - set(ended):
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    line.close()
    ring.close()


if __name__ == "__main__":
    work(native.Native(Path(sys.argv[1]), int(sys.argv[2])))
