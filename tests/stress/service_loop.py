"""A service whose users and managers are killed: ``service_loop.py <name> <seed> <kills>``.

Publishers put values that tell their version, readers in all modes check that a value is whole and
stays what it is while they have it, others take turns with a lock. All of them and the manager are
killed at random instants; sometimes a supervisor starts the manager again, else a user does. Nobody
may fail, hang or see half a value. Prints kills, publications, values read, turns with the lock.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import waiting

import shmtensor as st
from shmtensor.service import Service

HANG_S = 120.0
NAMES = ("a", "b", "c")
WORDS = 3  # of a place: values published, values read, turns
KEPT = 3


class Tally:
    """What each place has done, in memory that all see: its writer may be killed anywhere."""

    def __init__(self, n_places: int) -> None:
        self.n_places = n_places
        self.memory = mmap.mmap(-1, n_places * WORDS * 8)

    def add(self, place: int, word: int) -> None:
        """Count one."""
        at = (place * WORDS + word) * 8
        (n,) = struct.unpack_from("q", self.memory, at)
        struct.pack_into("q", self.memory, at, n + 1)

    def read(self) -> list[list[int]]:
        """All counts, by place."""
        flat = struct.unpack(f"{self.n_places * WORDS}q", self.memory)
        return [list(flat[i : i + WORDS]) for i in range(0, len(flat), WORDS)]


def value_of(number: int, rng: random.Random) -> dict[str, Any]:
    """Three storages, all of one number."""
    sizes = rng.choice(((1, 7, 100), (3000, 20_000, 5), (300_000, 10, 1000)))
    return {"n": number, "parts": [st.full((size,), float(number)) for size in sizes]}


def check(value: dict[str, Any]) -> None:
    """The value is of one version."""
    for part in value["parts"]:
        assert bool((part == float(value["n"])).all()), "a value is torn"


def publish(service: Service, place: int, tally: Tally, rng: random.Random) -> None:
    """Publish under one name after the other."""
    last: dict[str, int] = {}
    while True:
        name = rng.choice(NAMES)
        persist = name == "a"
        version = service.publish(name, value_of(rng.randrange(1000), rng), persist=persist)
        assert version > last.get(name, 0), "a version came again"
        last[name] = version
        if rng.random() < 0.02:
            with contextlib.suppress(KeyError):  # another was first
                service.unpublish(name)
        tally.add(place, 0)


def read(service: Service, place: int, tally: Tally, rng: random.Random) -> None:
    """Attach, keep, look again."""
    last: dict[str, int] = {}
    kept: list[dict[str, Any]] = []
    while True:
        name = rng.choice(NAMES)
        mode = rng.choice(("ro", "rw", "cow"))
        try:
            if rng.random() < 0.3:
                found = service.wait_newer(name, last.get(name, 0), timeout=0.5, mode=mode)
                assert found.version > last.get(name, 0)
            else:
                found = service.latest(name, mode)
                assert found.version >= last.get(name, 0), "versions go back"
        except (KeyError, TimeoutError):  # its publisher was killed
            tally.add(place, 1)
            continue
        last[name] = found.version
        check(found.value)
        kept.append(found.value)
        if len(kept) > KEPT:
            check(kept.pop(rng.randrange(KEPT)))
        tally.add(place, 1)


def take_turns(service: Service, place: int, tally: Tally, rng: random.Random) -> None:
    """Be alone while the lock is ours."""
    lock = service.Lock("turn")
    while True:
        assert lock.acquire(timeout=HANG_S), "the lock of a killed process is kept"
        service.publish("turn", st.tensor([os.getpid()]), persist=True)
        time.sleep(rng.random() * 0.002)
        assert service.attach("turn", "ro")[0] == os.getpid(), "two have the lock"
        lock.release()
        tally.add(place, 2)


Work = Callable[[Service, int, Tally, random.Random], None]
WORK: tuple[Work, ...] = (
    *(publish,) * 3,
    *(read,) * 4,
    *(take_turns,) * 2,
)


class Processes:
    """The processes at work, each forked from this one, which uses no service."""

    def __init__(self, name: str, seed: int, work: tuple[Work, ...]) -> None:
        self.name, self.rng, self.kills, self.work = name, random.Random(seed), 0, work
        self.tally = Tally(len(work))
        self.supervised = self.supervise()
        self.users = [self.start(place) for place in range(len(work))]
        self.moved = [(time.monotonic(), [0] * WORDS)] * len(work)

    def fork(self, work: Callable[[], None]) -> int:
        """Run *work* in a process of its own."""
        pid = os.fork()
        if pid:
            return pid
        try:
            work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def supervise(self) -> int:
        """Start a manager that stays; it takes over from one that a user started."""

        def serve() -> None:
            os.dup2(2, 1)  # its word that it is ready is not ours to print
            Service(self.name)._handle.serve(0, 0, -1)

        return self.fork(serve)

    def start(self, place: int) -> int:
        """Put somebody to work."""
        seed = self.rng.randrange(1 << 30)

        def work() -> None:
            deadline = time.monotonic() + HANG_S
            while True:
                service = Service(self.name)
                try:
                    service.list()
                    break
                except RuntimeError:  # at the very beginning there is none
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            self.work[place](service, place, self.tally, random.Random(seed))

        return self.fork(work)

    def kill(self, pid: int) -> None:
        """Kill a child of ours."""
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status), f"somebody failed: {status:x}"
        self.kills += 1

    def strike(self) -> None:
        """Kill somebody."""
        if self.rng.random() < 0.1:
            manager = int(self.ask("print(service.status().manager_pid)"))
            if manager == self.supervised:
                self.kill(manager)
                self.supervised = 0
            else:
                os.kill(manager, signal.SIGKILL)
                self.kills += 1
            if self.rng.random() < 0.5:
                self.supervised = self.supervise()
            return
        place = self.rng.randrange(len(self.work))
        self.kill(self.users[place])
        self.users[place] = self.start(place)

    def ask(self, text: str) -> str:
        """What a newcomer prints."""
        reader, writer = os.pipe()

        def work() -> None:
            os.dup2(writer, 1)
            exec(text, {"service": Service(self.name)})
            sys.stdout.flush()
            os._exit(0)

        pid = self.fork(work)
        os.close(writer)
        with os.fdopen(reader) as file:
            out = file.read()
        assert os.waitpid(pid, 0)[1] == 0, "a newcomer failed"
        return out

    def look(self) -> None:
        """Everybody lives, and does something."""
        now = time.monotonic()
        for place, counts in enumerate(self.tally.read()):
            assert os.waitpid(self.users[place], os.WNOHANG)[0] == 0, "somebody failed"
            if counts != self.moved[place][1]:
                self.moved[place] = now, counts
            assert now - self.moved[place][0] < HANG_S, f"{self.work[place].__name__} hangs"

    def abandon(self) -> None:
        """Kill all, so that who waits for the end of their output learns what has failed."""
        for pid in (*self.users, self.supervised):
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        """Nothing stays once all are gone."""
        for pid in self.users:
            self.kill(pid)
        self.ask(
            "import waiting\n"
            "for name in service.list(): service.unpublish(name)\n"
            "def is_alone():\n"
            "    status = service.status()\n"
            "    return status.n_clients == 1 and status.granted_bytes == 0\n"
            "waiting.until(is_alone, service.status)"
        )
        manager = int(self.ask("print(service.status().manager_pid)"))
        if self.supervised:
            os.kill(self.supervised, signal.SIGTERM)
            assert os.waitpid(self.supervised, 0)[1] == 0
        # One that a user started ends by itself.
        waiting.until(lambda: not waiting.runs(manager), lambda: "the manager does not end")


def main(arguments: list[str], work: tuple[Work, ...] = WORK) -> None:
    """Run; prints what happened."""
    processes = Processes(arguments[0], int(arguments[1]), work)
    kills = int(arguments[2])
    try:
        while processes.kills < kills:
            time.sleep(processes.rng.random() * 0.1)
            processes.look()
            processes.strike()
        processes.end()
    except BaseException:
        processes.abandon()
        raise
    print(processes.kills, *(sum(counts) for counts in zip(*processes.tally.read(), strict=True)))


if __name__ == "__main__":
    main(sys.argv[1:])
