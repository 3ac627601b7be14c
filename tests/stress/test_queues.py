"""Queues whose senders, receivers and manager are killed at random instants.

Every program runs in a session of its own; seeds are in the parameters. Not covered: the single
steps of put and get, which tests/shm/test_crash.py takes one by one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shmtensor

pytestmark = [pytest.mark.stress, pytest.mark.timeout(600)]

_KILLS = """
import os, queue, random, signal, sys, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing

seed, kills, kill_manager, maxsize = map(int, sys.argv[1:])
rng = random.Random(seed)
context = mp.get_context("fork")


def whole(tensor, value):
    assert bool((tensor == value).all()), "a tensor holds another one's bytes"


def middleman(inbox, outbox):
    while True:
        number, tensor, rest = inbox.get()
        whole(tensor, number % 1000)
        outbox.put((number, tensor, rest))


def noise(inbox):
    # Puts messages without a number, which nobody counts, and is killed doing so.
    while True:
        inbox.put((-1, st.full((rng.choice((3, 5000)),), 999.0), b"x" * rng.randrange(40_000)))


def start(target, *arguments):
    child = context.Process(target=target, args=arguments, daemon=True)
    child.start()
    return child


inbox, outbox = context.Queue(maxsize), context.Queue(maxsize)
workers = [start(middleman, inbox, outbox) for _ in range(3)]
makers = [start(noise, inbox) for _ in range(1)]
sent, seen, killed = 0, set(), 0


def take(timeout):
    try:
        number, tensor, rest = outbox.get(timeout=timeout)
    except queue.Empty:
        return False
    whole(tensor, number % 1000)
    if number >= 0:
        assert number not in seen, "a message came twice"
        seen.add(number)
    return True


next_kill = time.monotonic()
while killed < kills:
    size = rng.choice((1, 100, 20_000))
    try:
        rest = b"r" * rng.choice((0, 3000))
        inbox.put((sent, st.full((size,), float(sent % 1000)), rest), True, 0.05)
        sent += 1
    except queue.Full:
        pass
    while take(0.0):
        pass
    if time.monotonic() < next_kill:
        continue
    next_kill = time.monotonic() + rng.random() * 0.03
    group, make = rng.choice(((workers, (middleman, inbox, outbox)), (makers, (noise, inbox))))
    victim = group.pop(rng.randrange(len(group)))
    os.kill(victim.pid, signal.SIGKILL)
    if kill_manager and rng.random() < 0.1:
        os.kill(sharing.status()["manager_pid"], signal.SIGKILL)
    victim.join()
    killed += group is workers
    group.append(start(*make))

for maker in makers:
    maker.kill()
    maker.join()
deadline = time.monotonic() + 200
quiet = 0
while len(seen) < sent and quiet < 20:
    assert time.monotonic() < deadline, "messages no longer move"
    idle = not take(0.25) and inbox.qsize() == 0 and outbox.qsize() == 0
    quiet = quiet + 1 if idle else 0
lost = sent - len(seen)
# A message was in the hands of a worker when it was killed, or waited there for room.
assert lost <= killed * (2 if maxsize else 60), (lost, killed, sent)
for worker in workers:
    worker.kill()
    worker.join()
del inbox, outbox, workers, worker, makers, maker, group, make, victim
import gc
gc.collect()
deadline = time.monotonic() + 200
while True:
    status, resident = sharing.status(), sharing.trim()
    if status["n_leases"] == 0 and status["n_clients"] == 1 and resident <= 65536:
        break
    assert time.monotonic() < deadline, (status, resident)
    time.sleep(0.1)
print(killed, sent, lost)
"""


def _run(text: str, *arguments: object) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    env["PYTHONPATH"] = str(Path(shmtensor.__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        env=env,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


@pytest.mark.parametrize(("seed", "kill_manager", "maxsize"), [(1, 0, 0), (2, 1, 20), (3, 1, 0)])
def test_random_kills_stop_and_lose_nothing(seed: int, kill_manager: int, maxsize: int) -> None:
    killed, sent, _ = _run(_KILLS, seed, 200, kill_manager, maxsize).split()
    assert int(killed) == 200
    assert int(sent) > 0
