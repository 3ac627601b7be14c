"""Events that strangers open by name. Waiting for several things is in test_wait_any.py."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import threading
import time

import pytest
import service_programs as programs
import waiting

from shmtensor._boundary.storage import data_ptr
from shmtensor.errors import HandleError, WaitTimeoutError
from shmtensor.service import Service

_OPEN = "import sys, os, signal, time\nfrom shmtensor.service import Service\n"
_OPEN += "event = Service(sys.argv[1]).Event('go')\nprint('open', flush=True)\n"
_WAITER = _OPEN + "print(event.wait(), event.is_set(), flush=True)\n"
_PULSES = _OPEN + "for _ in range(int(sys.argv[2])): print(event.wait_pulse(), flush=True)\n"

_FUTEX = {"x86_64": 202, "aarch64": 98}[os.uname().machine]


def _names(service: Service) -> dict[str, str]:
    return {name: entry.kind for name, entry in service.list().items()}


def _sleeps(program: programs.Program) -> bool:
    """Whether its main thread waits for a futex."""
    with open(f"/proc/{program.process.pid}/syscall") as file:
        return file.read().split()[0] == str(_FUTEX)


def _asleep(*several: programs.Program) -> None:
    """Wait until the programs wait."""
    for program in several:
        assert program.line() == "open"
        waiting.until(lambda program=program: _sleeps(program))


@pytest.mark.check
def test_strangers_wait_until_it_is_set(service: Service, run: type[programs.Program]) -> None:
    with service.Event("go") as go:
        several = [run(_WAITER, service._name) for _ in range(3)]
        _asleep(*several)
        assert not go.is_set() and not go.wait(0) and not go.wait(0.01)
        go.set()
        go.set()
        for program in several:
            assert program.line() == "True True"
            program.finish()
        assert go.is_set() and go.wait() and go.wait(0)
        go.clear()
        go.clear()
        assert not go.is_set() and not go.wait(0)
        assert _names(service) == {"go": "event"}


def test_who_waits_sees_that_it_was_set(service: Service, run: type[programs.Program]) -> None:
    go = service.Event("go")
    waiter = run(_WAITER, service._name)
    _asleep(waiter)
    os.kill(waiter.process.pid, signal.SIGSTOP)
    go.set()
    go.clear()
    os.kill(waiter.process.pid, signal.SIGCONT)
    assert waiter.line() == "True False"


def test_pulse_wakes_all_who_wait_and_sets_nothing(
    service: Service, run: type[programs.Program]
) -> None:
    go = service.Event("go")
    go.pulse(1)  # nobody waits
    several = [run(_PULSES, service._name, "2") for _ in range(3)] + [run(_WAITER, service._name)]
    _asleep(*several)
    go.pulse(2**64 - 1)
    for program in several[:3]:
        assert program.line() == str(2**64 - 1)
    assert several[3].line() == "True False"
    for program in several[:3]:
        waiting.until(lambda program=program: _sleeps(program))
    go.pulse()
    for program in several[:3]:
        assert program.line() == "0"
        program.finish()
    assert not go.is_set() and go.n_pulses == 3


def test_pulses_that_come_while_a_waiter_is_stopped_count_as_one(
    service: Service, run: type[programs.Program]
) -> None:
    go = service.Event("go")
    waiter = run(_PULSES, service._name, "2")
    _asleep(waiter)
    os.kill(waiter.process.pid, signal.SIGSTOP)
    for i in range(5):
        go.pulse(i)  # nobody waits for a stopped process
    os.kill(waiter.process.pid, signal.SIGCONT)
    assert waiter.line() == "4"
    waiting.until(lambda: _sleeps(waiter))
    go.pulse(7)
    assert waiter.line() == "7"


def test_ids_are_those_of_the_pulses(service: Service) -> None:
    """Pulses as fast as possible: each waiter gets ids that were sent, and in order."""
    go = service.Event("go")
    seen: list[list[int]] = [[], []]
    done = threading.Event()

    def take(ids: list[int]) -> None:
        own = service.Event("go")
        while not done.is_set():
            n = own.n_pulses
            try:
                ids.append(own.wait_pulse(0.05))
            except WaitTimeoutError:
                continue
            assert own.n_pulses > n

    takers = [threading.Thread(target=take, args=(ids,)) for ids in seen]
    for taker in takers:
        taker.start()
    while not all(seen):  # the takers have begun
        go.pulse(0)
        time.sleep(0.001)
    first = go.n_pulses
    for i in range(20_000):
        go.pulse(i + 1)
    done.set()
    for taker in takers:
        taker.join()
    for ids in seen:
        assert ids == sorted(ids) and ids and ids[-1] <= 20_000
    assert go.n_pulses == first + 20_000


def test_timeouts_and_bad_values(service: Service) -> None:
    go = service.Event("go")
    with pytest.raises(WaitTimeoutError, match="no pulse of <Event 'go'"):
        go.wait_pulse(0.01)
    with pytest.raises(WaitTimeoutError):
        go.wait_pulse(0)
    for bad in (-1, 2**64):
        with pytest.raises(ValueError, match="id must be a number from 0"):
            go.pulse(bad)
    with pytest.raises(TypeError):
        go.pulse(1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nan"):
        go.wait(float("nan"))
    with pytest.raises(ValueError, match="1 to 127 bytes"):
        service.Event("")
    with pytest.raises(TypeError, match="opened by its name"):
        go.__reduce_ex__(2)
    assert repr(go) == f"<Event 'go' of {service!r}, not set>"
    go.close()
    assert "closed" in repr(go)
    for method in (go.set, go.clear, go.is_set, go.wait, go.pulse, go.wait_pulse, go.fileno):
        with pytest.raises(ValueError, match="used after close"):
            method()


def test_names_are_of_one_kind(service: Service) -> None:
    go, jobs = service.Event("go"), service.Queue("jobs")
    with pytest.raises(ValueError, match="'jobs' is a queue, not an event"):
        service.Event("jobs")
    with pytest.raises(ValueError, match="'go' is an event, not a queue"):
        service.Queue("go")
    with pytest.raises(ValueError, match=r"'go' is an event; open it with Event\('go'\)"):
        service.attach("go")
    with pytest.raises(ValueError, match='the name "go" is that of an event'):
        service.publish("go", service.empty(1))
    del go, jobs


def test_it_lives_while_anybody_has_it_open(service: Service, run: type[programs.Program]) -> None:
    setter = run(
        _OPEN + "event.set(); print('set', flush=True); sys.stdin.readline()", service._name
    )
    assert setter.line() == "open" and setter.line() == "set"
    go = service.Event("go")
    setter.kill()
    assert go.is_set()
    del go
    gc.collect()
    waiting.until(lambda: _names(service) == {})
    assert not service.Event("go").is_set()
    run(
        "import sys\nfrom shmtensor.service import Service\n"
        "Service(sys.argv[1]).Event('stays', persist=True).set()",
        service._name,
    ).finish()
    assert service.info("stays").persists and service.Event("stays").is_set()
    service.unpublish("stays")


def test_killed_setters_and_waiters_leave_it_usable(
    service: Service, run: type[programs.Program]
) -> None:
    go = service.Event("go")
    busy = "\nwhile True: event.set(); event.clear(); event.pulse(5); event.wait(1e-4)"
    for _ in range(4):
        several = [run(_OPEN + busy, service._name), run(_WAITER, service._name)]
        for program in several:
            assert program.line() == "open"
        time.sleep(0.02)
        for program in several:
            program.kill()
        go.pulse(1)
        go.clear()
        assert not go.is_set()
        waiter = run(_PULSES, service._name, "1")
        _asleep(waiter)
        go.pulse(2)
        assert waiter.line() == "2"
        go.set()
        assert go.is_set() and go.wait()


def test_descriptor_is_readable_while_it_is_set(
    service: Service, run: type[programs.Program]
) -> None:
    go = service.Event("go")
    fd = go.fileno()
    assert not waiting.is_readable(fd)
    go.set()
    assert waiting.is_readable(fd)
    go.clear()
    assert not waiting.is_readable(fd)
    setter = run(_OPEN + "sys.stdin.readline(); event.set()", service._name)
    assert setter.line() == "open"
    setter.say()
    assert select.select([fd], [], [], programs.WAIT_S)[0]


def test_asyncio_waits_for_it(service: Service, run: type[programs.Program]) -> None:
    go = service.Event("go")
    setter = run(
        _OPEN + "sys.stdin.readline(); event.pulse(3)\nsys.stdin.readline(); event.set()",
        service._name,
    )
    assert setter.line() == "open"

    async def wait() -> None:
        assert not await go.await_set(0.01)
        with pytest.raises(WaitTimeoutError):
            await go.await_pulse(0.01)
        both = asyncio.gather(go.await_pulse(), go.await_set())
        await asyncio.sleep(0.05)
        setter.say()
        assert list(await both) == [3, True]
        later = asyncio.create_task(go.await_set())
        await asyncio.sleep(0.05)
        assert not later.done()
        setter.say()
        assert await later
        cancelled = asyncio.create_task(go.await_pulse())
        await asyncio.sleep(0.01)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert await go.await_set()

    asyncio.run(wait())


def test_signal_ends_a_wait(service: Service, run: type[programs.Program]) -> None:
    text = _OPEN + (
        "signal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True))\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n    event.wait()\nexcept KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
        "print(event.wait(0.0), flush=True)\n"
    )
    go = service.Event("go")
    waiter = run(text, service._name)
    _asleep(waiter)
    waiter.process.send_signal(signal.SIGUSR1)
    assert waiter.line() == "handled"
    waiting.until(lambda: _sleeps(waiter))
    waiter.process.send_signal(signal.SIGINT)
    assert waiter.line() == "interrupted"
    assert waiter.line() == "False"
    del go


def test_a_child_uses_its_parents_event(service: Service) -> None:
    go, answer = service.Event("go"), service.Event("answer")
    assert waiting.is_readable(go.fileno()) is False
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if go.wait(programs.WAIT_S) and waiting.is_readable(go.fileno()):
                answer.set()
                code = 0
        finally:
            os._exit(code)
    go.set()
    assert answer.wait(programs.WAIT_S)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_threads_wait_together(service: Service) -> None:
    go = service.Event("go")
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda: woken.append(go.wait())) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.02)
    go.set()
    for thread in threads:
        thread.join()
    assert woken == [True] * 8


def test_damage_is_bounded(service: Service) -> None:
    """A member writes over the event: nothing hangs or crashes, and clear() makes it clear."""
    import ctypes

    go = service.Event("go")
    storage = service._handle.snapshot("go", "rw").storages[0]
    header = (ctypes.c_uint64 * 40).from_address(data_ptr(storage))
    for word in (17, 25, 36, 37, 38, 39):  # tail, head, pulses, ids, sets
        for value in (0, 2**64 - 1, 0x1234567812345678, 1 << 32):
            header[word] = value
            go.clear()
            assert not go.is_set()
            go.set()
            assert go.is_set() and go.wait(0.01)
            n = go.n_pulses
            go.pulse(9)
            assert go._event.pulse_since(n) == 9
            assert go.fileno() >= 0
    header[0] = 1
    with pytest.raises(HandleError):
        service.Event("go")


_MEMBER = """
import os, sys, shmtensor.service
from shmtensor.service import Service
os.setgroups([54321]); os.setgid(65534); os.setuid(65534)
event = Service(sys.argv[1], owner=0).Event("go")
print("open", flush=True)
print(event.wait_pulse(), flush=True)
event.set()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_members_of_a_group_use_it(run: type[programs.Program]) -> None:
    with programs.serving("--group", "54321") as (name, _):
        owner = run(_OPEN + "sys.stdin.readline(); event.pulse(4); print(event.wait())", name)
        member = run(_MEMBER, name)
        assert owner.line() == "open"
        _asleep(member)
        owner.say()
        assert member.line() == "4"
        assert owner.line() == "True"
        owner.finish()
        member.finish()


def test_memory_is_free_again(service: Service) -> None:
    before = service.status().granted_bytes
    for i in range(300):
        with service.Event(f"event {i}") as event:
            event.set()
            event.pulse(i)
    del event
    gc.collect()
    waiting.until(lambda: service.list() == {})
    assert service.status().granted_bytes <= before + (4 << 20)
