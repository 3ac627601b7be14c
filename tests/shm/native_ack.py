"""A family whose children acknowledge what they get.

Run as a program it is the family of a crash test: ``native_ack.py <directory> <session>``.
"""

from __future__ import annotations

import ctypes
import os
import sys
import traceback
from pathlib import Path

import native
from native_ring import (
    ALONE,
    DONE,
    NO_GET,
    NO_PUT,
    Ring,
    _ReceivedMessage,
    check_message,
    message,
)

N_MESSAGES = 60


class _Delivery(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("deliveries", ctypes.c_uint32)]


class AckRing(Ring):
    """A ring from which messages are taken with an acknowledgement."""

    def deliver(self) -> tuple[int, bytes, list[native.Block], int, int]:
        """Wait for a message: the result, its data, its blocks, its id and deliveries."""
        received, delivery, n = _ReceivedMessage(), _Delivery(), ctypes.c_uint32()
        result = self._call(
            "deliver",
            ctypes.byref(received),
            ctypes.byref(delivery),
            1,
            ctypes.byref(n),
            wait=True,
        )
        if result != DONE:
            return result, b"", [], 0, 0
        data = ctypes.string_at(received.data, received.nbytes)
        blocks = []
        for i in range(received.n_storages):
            pointer = received.storages[i]
            assert pointer is not None
            blocks.append(native.Block(self.native, pointer))
        received.n_storages = 0  # the references are the blocks' now
        self.native.lib.shmt__received_message_fini(ctypes.byref(received))
        return result, data, blocks, delivery.id, delivery.deliveries

    def acknowledge(self, number: int) -> None:
        """The work is done."""
        assert self._call("acknowledge", ctypes.c_uint64(number), wait=True) == DONE

    def let_go(self, number: int) -> None:
        """The message goes back."""
        result = self._call("let_go", ctypes.c_uint64(number), ctypes.c_bool(True), wait=True)
        assert result == DONE

    def join(self) -> None:
        """Wait until all that was put is acknowledged."""
        assert self._call("join", wait=True) == DONE

    def n_left(self) -> int:
        """Messages in the ring, as a consumer sees it."""
        return int(self.native.lib.shmt__ring_n_messages(self.pointer))


def _consume(ring: AckRing, report: int) -> None:
    ring.end(NO_PUT)
    first, n = 0, 0
    while True:
        result, data, blocks, number, deliveries = ring.deliver()
        if result == ALONE:
            return
        assert result == DONE, result
        seq = check_message(data)
        assert [block.value() for block in blocks] == [seq % 251] * (seq % 3)
        if seq % 7 == 3 and deliveries == 1:
            ring.let_go(number)
            continue
        os.write(report, data[:8])
        n += 1
        if n == 1:  # a long job, behind which others are acknowledged
            first = number
        else:
            ring.acknowledge(number)
        if first and n > 1 and (n == 25 or ring.n_left() == 0):
            ring.acknowledge(first)
            first = 0
        del blocks


def _fork_consumer(ring: AckRing, report: tuple[int, int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.close(report[0])
        _consume(ring, report[1])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def work(owner: native.Native) -> None:
    """Send to two children: each message is acknowledged once, whoever was killed."""
    ring = AckRing(owner)
    report = os.pipe()
    for seq in range(2):
        ring.put(message(seq, 10), tuple(owner.new(1000).fill(seq) for _ in range(seq % 3)))
    children = [_fork_consumer(ring, report) for _ in range(2)]
    os.close(report[1])
    ring.end(NO_GET)
    for seq in range(2, N_MESSAGES):
        blocks = tuple(owner.new(1000 + seq).fill(seq % 251) for _ in range(seq % 3))
        assert ring.put(message(seq, 5000), blocks, wait=True) == DONE
        del blocks
    for seq in range(N_MESSAGES, N_MESSAGES + 4):  # whoever has a long job gets another one
        assert (
            ring.put(
                message(seq, 10), tuple(owner.new(9).fill(seq) for _ in range(seq % 3)), wait=True
            )
            == DONE
        )
    ring.join()
    assert ring.size() == 0
    ring.end(NO_PUT)
    received: list[bytes] = []
    while chunk := os.read(report[0], 8):
        received.append(chunk)
    codes = [os.waitpid(child, 0)[1] for child in children]
    killed = sum(os.WIFSIGNALED(code) for code in codes)
    assert killed <= 1, codes
    assert all(os.WIFSIGNALED(code) or os.WEXITSTATUS(code) == 0 for code in codes), codes
    numbers = [int.from_bytes(chunk, "little") for chunk in received]
    assert set(numbers) == set(range(N_MESSAGES + 4))
    assert len(numbers) <= N_MESSAGES + 4 + 2 * killed, sorted(numbers)
    ring.close()


if __name__ == "__main__":
    work(native.Native(Path(sys.argv[1]), int(sys.argv[2])))
