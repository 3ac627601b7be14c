"""One family whose members are killed at random: ``kill_loop.py <method> <seed> <kills>``.

Workers take numbered tensors from a queue and pass them on, or answer with fresh ones; others do
the same over a pipe, and others put messages that nobody counts. Workers and the manager
are killed at random instants. A message is lost only in the hands of a worker that was killed; a
tensor holds its number, whole. Prints kills, messages, messages lost and the session's name.
"""

from __future__ import annotations

import gc
import os
import queue
import random
import signal
import sys
import time
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing

OUTSTANDING = 12
HANG_S = 120.0
SIZES = (3, 1000, 20_000, 300_000)


def check(tensor: Any, number: int) -> None:
    """The tensor is the one of this number, and nobody else's bytes are in it."""
    assert bool((tensor == number % 1000).all()), "a tensor holds another one's bytes"


def fresh(number: int, rng: random.Random) -> Any:
    """A tensor that tells its number."""
    return st.full((rng.choice(SIZES),), float(number % 1000))


def serve(jobs: Any, results: Any) -> None:
    """Forward or answer; keep some of what came."""
    rng = random.Random(os.getpid())
    kept: list[tuple[Any, int]] = []
    while (job := jobs.get()) is not None:
        number, tensor = job
        check(tensor, number)
        kept.append((tensor, number))
        if len(kept) > 4:
            check(*kept.pop(0))
        results.put((number, tensor if number % 2 else fresh(number, rng)))


def serve_pipe(pipe: Any) -> None:
    """The same over a pipe."""
    rng = random.Random(os.getpid())
    while True:
        number, tensor = pipe.recv()
        check(tensor, number)
        pipe.send((number, tensor if number % 2 else fresh(number, rng)))


def make_noise(jobs: Any) -> None:
    """Create and put what nobody counts."""
    rng = random.Random(os.getpid())
    while True:
        jobs.put((-1000, fresh(0, rng)))
        time.sleep(0.01)


class Family:
    """The controller and its workers."""

    def __init__(self, method: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.context = mp.get_context(method)
        self.jobs, self.results = self.context.Queue(64), self.context.Queue()
        self.sent, self.kills, self.n_messages = 0, 0, 0
        self.missing: set[int] = set()
        self.heard = time.monotonic()
        self.workers = [self._start(serve, self.jobs, self.results) for _ in range(3)]
        self.noise = [self._start(make_noise, self.jobs)]
        self.pipes = [self._start_pipe() for _ in range(2)]

    def _start(self, target: Any, *arguments: Any) -> Any:
        child = self.context.Process(target=target, args=arguments, daemon=True)
        child.start()
        return child

    def _start_pipe(self) -> tuple[Any, Any]:
        ours, theirs = self.context.Pipe()
        child = self._start(serve_pipe, theirs)
        theirs.close()
        return child, ours

    def _kill(self, child: Any) -> None:
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        self.kills += 1

    def strike(self) -> None:
        """Kill somebody, and put another in the place."""
        what = self.rng.random()
        if what < 0.05:
            os.kill(sharing.status()["manager_pid"], signal.SIGKILL)
            self.kills += 1
        elif what < 0.65:
            self._kill(self.workers.pop(self.rng.randrange(len(self.workers))))
            self.workers.append(self._start(serve, self.jobs, self.results))
        elif what < 0.8:
            self._kill(self.noise.pop())
            self.noise.append(self._start(make_noise, self.jobs))
        else:
            child, pipe = self.pipes.pop(self.rng.randrange(len(self.pipes)))
            self._talk(pipe, answer=False)
            self._kill(child)
            pipe.close()
            self.pipes.append(self._start_pipe())

    def _talk(self, pipe: Any, *, answer: bool) -> None:
        number = self.rng.randrange(10_000)
        pipe.send((number, fresh(number, self.rng)))
        if answer:
            assert pipe.poll(HANG_S), "a living worker does not answer"
            got, tensor = pipe.recv()
            assert got == number
            check(tensor, number)
            self.n_messages += 1

    def turn(self) -> None:
        """Send what there is room for, and take an answer."""
        # Each kill may have taken one message along; never wait for those.
        while len(self.missing) < OUTSTANDING + self.kills:
            self.sent += 1
            self.missing.add(self.sent)
            self.jobs.put((self.sent, fresh(self.sent, self.rng)), timeout=HANG_S)
            if self.sent % 3 == 0:
                break
        if self.rng.random() < 0.3:
            self._talk(self.rng.choice(self.pipes)[1], answer=True)
        self.take(0.05)

    def take(self, timeout: float) -> bool:
        """One answer, if there is one in time."""
        try:
            number, tensor = self.results.get(timeout=timeout)
        except queue.Empty:
            assert time.monotonic() - self.heard < HANG_S, "nothing arrives any more"
            return False
        self.heard = time.monotonic()
        check(tensor, number)
        if number > 0:
            assert number in self.missing, "a message arrived twice"
            self.missing.remove(number)
            self.n_messages += 1
        return True

    def end(self) -> None:
        """Let the living finish; everything that was not in a dead hand must have arrived."""
        self._kill(self.noise.pop())
        for _ in self.workers:
            self.jobs.put(None, timeout=HANG_S)
        deadline = time.monotonic() + HANG_S
        while any(worker.is_alive() for worker in self.workers) or self.take(0.2):
            self.take(0.05)
            assert time.monotonic() < deadline, "workers do not end"
        for child, pipe in self.pipes:
            self._kill(child)
            pipe.close()
        for end in (self.jobs, self.results):
            end.close()
            end.join_thread()
        assert len(self.missing) <= self.kills, (len(self.missing), self.kills)


def main(arguments: list[str]) -> None:
    """Run; prints what happened."""
    method, seed, kills = arguments[0], int(arguments[1]), int(arguments[2])
    family = Family(method, seed)
    while family.kills < kills:
        family.turn()
        if family.rng.random() < 0.3:
            family.strike()
    family.end()
    counts = family.kills, family.n_messages, len(family.missing)
    del family
    gc.collect()
    deadline = time.monotonic() + HANG_S
    while True:
        sharing.collect()
        status = sharing.status()
        # The fork server, where there is one, is a member too.
        if sharing.trim() == 0 and status["n_leases"] == 0 and status["n_clients"] <= 2:
            break
        assert time.monotonic() < deadline, status
        time.sleep(0.1)
    print(*counts, os.environ["SHMTENSOR_MANAGER"])


if __name__ == "__main__":
    main(sys.argv[1:])
