"""Programs for test_ring: each case is one function, run in a process and a session of its own.

``ring_cases.py <directory> <session> <case>``
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import native
import native_ring
import waiting
from native_ring import (
    ALONE,
    BEHIND,
    DONE,
    EMPTY,
    FULL,
    INLINE,
    KEEP,
    NO_GET,
    NO_PUT,
    NO_ROOM,
    PENDING,
    Ring,
    check_message,
    message,
)

RING_BYTES = 276 << 10
DATA = 24 << 10  # where the messages begin
CAPACITY = RING_BYTES - DATA
HEAD_BYTES = 16  # of a message
HANG_S = 100


def ring_can_be_filled_to_the_last_byte_and_emptied_again(owner: native.Native) -> None:
    ring = Ring(owner)
    sizes = [INLINE] * (CAPACITY // (INLINE + HEAD_BYTES))
    sizes.append(CAPACITY - sum(sizes) - HEAD_BYTES * (len(sizes) + 1))
    for turn in range(3):
        for i, size in enumerate(sizes):
            assert ring.put(message(turn * 100 + i, size - 8)) == DONE
        assert ring.put(b"") == NO_ROOM
        for i, size in enumerate(sizes):
            result, data, _ = ring.get()
            assert (result, len(data)) == (DONE, size)
            assert check_message(data) == turn * 100 + i
        assert ring.get(wait=False)[0] == EMPTY
        assert ring.put(message(0, turn * 1000)) == DONE  # the next turn begins elsewhere
        assert ring.get()[0] == DONE


def message_may_go_round_the_end_at_every_place(owner: native.Native) -> None:
    ring = Ring(owner)
    for step in range(0, 400, 8):
        for size in (INLINE - 8, 30_000 + step, step):
            assert ring.put(message(step, size)) == DONE
            assert check_message(ring.get()[1]) == step


def bound_counts_messages_in_the_ring_and_those_that_wait(owner: native.Native) -> None:
    ring = Ring(owner, max_messages=3)
    assert ring.put(b"0") == DONE
    assert ring.put(b"1", flags=KEEP | BEHIND) == NO_ROOM
    assert ring.put(b"2") == DONE
    assert ring.size() == 3
    assert ring.put(b"3") == FULL
    assert ring.put(b"1", flags=PENDING) == DONE
    assert [ring.get()[1] for _ in range(3)] == [b"0", b"2", b"1"]
    assert ring.put(b"4", flags=KEEP | BEHIND) == NO_ROOM
    owner.lib.shmt__ring_forget_pending(ring.pointer, 1)
    assert ring.size() == 0
    ring.close()


def blocks_live_as_long_as_their_message(owner: native.Native) -> None:
    ring = Ring(owner)
    for value in range(20):
        assert ring.put(b"", (owner.new(5000).fill(value), owner.new(70).fill(value + 100))) == DONE
    mine = [owner.new(5000).fill(255) for _ in range(20)]
    for value in range(20):
        _, _, (first, second) = ring.get()
        assert (first.value(), second.value()) == (value, value + 100)
    assert {block.value() for block in mine} == {255}
    assert owner.status()["n_leases"] == 0


def ends_that_everybody_closed_are_noticed(owner: native.Native) -> None:
    ring = Ring(owner)
    other = Ring(ring.native, handle=ring.handle())
    ring.put(b"last")
    ring.end(NO_PUT)
    assert other.get()[1] == b"last"
    assert other.get()[0] == ALONE
    other.close()
    ring.end(NO_GET)
    while (result := ring.put(b"x" * 30_000)) == DONE:
        pass
    assert result == NO_ROOM
    assert ring.put(b"x" * 30_000, wait=True) == ALONE


def threads_keep_the_order_of_each_producer_and_lose_nothing(owner: native.Native) -> None:
    ring = Ring(owner)
    n_threads, n = 3, 300
    received: list[list[int]] = [[] for _ in range(n_threads)]
    problems: list[BaseException] = []

    def guard(work: object, *arguments: object) -> None:
        try:
            work(*arguments)  # type: ignore[operator]
        except BaseException as problem:
            problems.append(problem)

    def produce(number: int) -> None:
        for i in range(n):
            blocks = (owner.new(300).fill(i % 200),) if i % 5 == 0 else ()
            data = message(number * n + i, i * 97 % 9000)
            assert ring.put(data, blocks, wait=True) == DONE

    def consume(into: list[int]) -> None:
        while True:
            result, data, blocks = ring.get()
            assert result == DONE
            if not data:
                return
            number = check_message(data)
            assert [block.value() for block in blocks] == [number % n % 200] * (number % 5 == 0)
            into.append(number)

    consumers = [threading.Thread(target=guard, args=(consume, into)) for into in received]
    producers = [threading.Thread(target=guard, args=(produce, i)) for i in range(n_threads)]
    for thread in consumers + producers:
        thread.start()
    for thread in producers:
        thread.join(HANG_S)
    for _ in consumers:
        ring.put(b"", wait=True)
    for thread in consumers:
        thread.join(HANG_S)
    assert not problems
    assert sorted(i for numbers in received for i in numbers) == list(range(n_threads * n))
    for numbers in received:
        for producer in range(n_threads):
            mine = [i for i in numbers if i // n == producer]
            assert mine == sorted(mine)


def block_is_received_while_its_sender_lets_go_of_it(owner: native.Native) -> None:
    ring = Ring(owner)
    n = 30_000
    received = 0

    def produce() -> None:
        for i in range(n):
            assert ring.put(b"", (owner.new(64).fill(i % 200),), wait=True) == DONE

    producer = threading.Thread(target=produce)
    producer.start()
    while received < n:
        _, _, (block,) = ring.get()
        assert block.value() == received % 200
        received += 1
    producer.join(HANG_S)
    assert owner.status()["n_leases"] == 0


def _bytes_of(ring: Ring) -> ctypes.Array[ctypes.c_ubyte]:
    """The ring's memory: the second word of its struct is the session, the third the header."""
    header = ctypes.cast(ring.pointer, ctypes.POINTER(ctypes.c_void_p))[2]
    assert header is not None
    return (ctypes.c_ubyte * RING_BYTES).from_address(header)


def damaged_message_is_an_error_and_the_ring_goes_on(owner: native.Native) -> None:
    ring = Ring(owner)
    for offset, value in ((0, 0xFF), (4, 0xFF), (8, 0xFF), (9, 0x10)):
        start = int.from_bytes(bytes(_bytes_of(ring)[200:204]), "little")  # the head's offset
        ring.put(message(1, 100))
        _bytes_of(ring)[DATA + (start + offset) % CAPACITY] = value
        result, _, _ = ring.get(wait=False)
        assert result == native_ring.FAILED
        assert ring.get(wait=False)[0] == EMPTY
    ring.put(message(2, 100))
    assert check_message(ring.get()[1]) == 2


def blocks_of_messages_that_a_damaged_ring_drops_are_freed(owner: native.Native) -> None:
    ring = Ring(owner)
    resident = owner.status()["resident_bytes"]
    start = int.from_bytes(bytes(_bytes_of(ring)[200:204]), "little")
    for _ in range(10):
        assert ring.put(b"", (owner.new(1 << 20).fill(1),)) == DONE
    waiting.let_the_manager_look()
    assert owner.status()["n_leases"] == 10
    _bytes_of(ring)[DATA + start + 3] = 0xFF  # of the first message's size
    assert ring.get(wait=False)[0] == native_ring.FAILED
    assert ring.get(wait=False)[0] == EMPTY
    waiting.until(lambda: owner.status()["n_leases"] == 0, owner.status)
    waiting.until(lambda: owner.status()["resident_bytes"] <= resident + (1 << 20), owner.status)


def manager_survives_whatever_is_written_into_a_ring(owner: native.Native) -> None:
    ring = Ring(owner)
    seed = os.getpid()
    print(seed)
    rng = random.Random(seed)
    other = Ring(owner)
    kept = owner.new(1000).fill(7)
    other.put(b"kept", (kept,))
    for number in range(5):
        ring.put(message(number, 3000), (owner.new(100).fill(1),))
    memory = _bytes_of(ring)
    manager = owner.status()["manager_pid"]
    for _ in range(6):
        for _ in range(rng.choice((1, 40, 4000))):
            memory[rng.choice((rng.randrange(128, DATA), rng.randrange(DATA, 60_000)))] = (
                rng.choice((0, 1, 0xFF, rng.randrange(256)))
            )
        # Nobody but the dead hold these, or the audit would wait for them.
        for at in (128, 192):
            memory[at : at + 4] = [0] * 4
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        time.sleep(0.1)
        assert owner.status()["manager_pid"] == manager
    _, data, blocks = other.get()
    assert data == b"kept"
    assert blocks[0].value() == 7
    other.close()


def _fork_until(point: str, token: Path, work: Callable[[], None], *, stops: bool = False) -> int:
    """Fork a child for *work* that is killed, or stopped, at the point; returns when it is."""
    token.touch()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.environ["SHMTENSOR_FAILPOINT"] = f"{point}:{token}"
            if stops:
                os.environ["SHMTENSOR_FAILPOINT_STOPS"] = "1"
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(pid, os.WUNTRACED)[1]
    assert os.WIFSTOPPED(status) if stops else os.WIFSIGNALED(status), status
    return pid


def _put_anything(ring: Ring) -> None:
    assert ring.put(b"", (ring.native.new(200_000),)) == DONE


def _audit_beside_a_stopped_member(owner: native.Native, point: str) -> None:
    """One is stopped within a ring's lock; leases that another leaves when killed still end."""
    stopped_ring, ring = Ring(owner), Ring(owner)
    gets = "_get_" in point
    if gets:
        stopped_ring.put(b"first", (owner.new(100).fill(3),))

    def put_or_get() -> None:
        if gets:
            _, data, (block,) = stopped_ring.get()
            assert (data, block.value()) == (b"first", 3)
        else:
            assert stopped_ring.put(b"first", (owner.new(100).fill(3),)) == DONE

    ring.put(b"kept", (owner.new(1000).fill(7),))
    with tempfile.TemporaryDirectory() as directory:
        token = Path(directory) / "token"
        stopped = _fork_until(point, token, put_or_get, stops=True)
        resident = owner.trim()
        try:
            for _ in range(3):
                _fork_until("ring_put_leased", token, lambda: _put_anything(ring))
            # The stopped one's and that of the message; at two points it has ended its own.
            n_leases = 1 + (point not in ("ring_put_locked", "ring_get_leases_ended"))
            waiting.until(
                lambda: owner.status()["n_leases"] == n_leases and owner.trim() <= resident,
                owner.status,
            )
            waiting.let_the_manager_look()  # it finds nothing more to take away
            assert owner.status()["n_leases"] == n_leases
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert os.waitpid(stopped, 0)[1] == 0
    if not gets:
        _, data, (block,) = stopped_ring.get()
        assert (data, block.value()) == (b"first", 3)
    _, data, (block,) = ring.get()
    assert (data, block.value()) == (b"kept", 7)
    assert owner.status()["n_leases"] == 0


def stopped_inside_put_keeps_no_audit(owner: native.Native) -> None:
    for point in ("ring_put_locked", "ring_put_leased", "ring_put_written", "ring_put_published"):
        _audit_beside_a_stopped_member(owner, point)


def stopped_inside_get_keeps_no_audit(owner: native.Native) -> None:
    for point in ("ring_get_locked", "ring_get_held", "ring_get_claimed", "ring_get_leases_ended"):
        _audit_beside_a_stopped_member(owner, point)


def number_of_a_dead_member_stays_taken_while_a_ring_with_its_lock_cannot_be_mapped(
    owner: native.Native,
) -> None:
    ring = Ring(owner)
    manager = owner.status()["manager_pid"]
    with tempfile.TemporaryDirectory() as directory:
        token = Path(directory) / "token"
        stopped = _fork_until("ring_put_leased", token, lambda: _put_anything(ring), stops=True)
        n_clients = owner.status()["n_clients"]
        limits = resource.prlimit(manager, resource.RLIMIT_AS)
        resource.prlimit(manager, resource.RLIMIT_AS, (1 << 20, limits[1]))
        try:
            os.kill(stopped, signal.SIGKILL)
            os.waitpid(stopped, 0)
            waiting.let_the_manager_look()
            assert owner.status()["n_clients"] == n_clients
        finally:
            resource.prlimit(manager, resource.RLIMIT_AS, limits)
        waiting.until(lambda: owner.status()["n_clients"] == n_clients - 1, owner.status)
    assert ring.put(b"x", wait=True) == DONE
    waiting.until(lambda: owner.status()["n_leases"] == 0, owner.status)


def _bare_ring(owner: native.Native) -> Ring:
    storage, ring = ctypes.c_void_p(), Ring.__new__(Ring)
    ring.native, ring.pointer = owner, ctypes.c_void_p()
    lib = owner.lib
    owner.check(
        lib.shmt__storage_create_shared(ctypes.c_uint64(320 + 1024), 0, ctypes.byref(storage))
    )
    owner.check(lib.shmt__ring_create_over(storage, 0, 320, ctypes.byref(ring.pointer)))
    return ring


def audit_looks_at_more_rings_than_stay_mapped(owner: native.Native) -> None:
    rings = [_bare_ring(owner) for _ in range(4500)]  # MOST_MAPPED in ipc/manager/ring_audit.c
    for i in (0, -1):
        assert rings[i].put(b"kept", (owner.new(1000).fill(7),)) == DONE
    with tempfile.TemporaryDirectory() as directory:
        token = Path(directory) / "token"
        _fork_until("ring_put_leased", token, lambda: _put_anything(rings[1]))
        _fork_until("ring_put_leased", token, lambda: _put_anything(rings[-2]))
    waiting.until(lambda: owner.status()["n_leases"] == 2, owner.status)
    for i in (0, -1):
        _, data, (block,) = rings[i].get()
        assert (data, block.value()) == (b"kept", 7)
    for ring in rings:
        assert ring.put(b"x") == DONE


CASES = {
    case.__name__: case
    for case in (
        ring_can_be_filled_to_the_last_byte_and_emptied_again,
        message_may_go_round_the_end_at_every_place,
        bound_counts_messages_in_the_ring_and_those_that_wait,
        blocks_live_as_long_as_their_message,
        ends_that_everybody_closed_are_noticed,
        threads_keep_the_order_of_each_producer_and_lose_nothing,
        block_is_received_while_its_sender_lets_go_of_it,
        damaged_message_is_an_error_and_the_ring_goes_on,
        blocks_of_messages_that_a_damaged_ring_drops_are_freed,
        manager_survives_whatever_is_written_into_a_ring,
        number_of_a_dead_member_stays_taken_while_a_ring_with_its_lock_cannot_be_mapped,
        audit_looks_at_more_rings_than_stay_mapped,
        stopped_inside_put_keeps_no_audit,
        stopped_inside_get_keeps_no_audit,
    )
}

if __name__ == "__main__":
    CASES[sys.argv[3]](native.Native(Path(sys.argv[1]), int(sys.argv[2])))
