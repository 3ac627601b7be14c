"""How fast does the manager start and come back after a kill? What do calls to a service cost?

Run ``python benchmarks/bench_manager.py``. The goals are a start under 10 ms, less than 3 MB
resident with 100 clients, and a restart within 1 s after ``kill -9`` with every live tensor usable.
Nothing here is compared with torch, whose manager cannot be restarted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shmtensor
from shmtensor.service import Service

_SERVICE = f"bench-{os.getpid()}"


def _resident_kb(pid: int) -> dict[str, int]:
    text = Path(f"/proc/{pid}/status").read_text()
    rows = (line.split() for line in text.splitlines() if line.startswith(("VmRSS", "Rss")))
    return {name.rstrip(":"): int(value) for name, value, _ in rows}


def _first_join_ms() -> float:
    """In a fresh process: from the first call that needs the manager to its answer."""
    code = (
        "import time, shmtensor\n"
        "from shmtensor._boundary import sharing\n"
        "begin = time.perf_counter(); sharing.join()\n"
        "print((time.perf_counter() - begin) * 1e3)\n"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    out = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return float(out.stdout)


def _restart_ms(service: Service) -> float:
    kept = service.attach("kept", "rw")
    manager = service.status().manager_pid
    os.kill(manager, signal.SIGKILL)
    begin = time.perf_counter()
    fresh = service.status().manager_pid
    elapsed = (time.perf_counter() - begin) * 1e3
    assert fresh != manager, "the manager was not killed"
    kept += 1
    assert shmtensor.equal(service.attach("kept", "rw"), kept), "a live tensor was lost"
    return elapsed


def _member(ready: Any, leave: Any) -> None:
    Service(_SERVICE).attach("kept", "ro")
    ready.release()
    leave.wait()


def _with_clients(n: int, service: Service) -> dict[str, int]:
    """Memory of the manager while n processes are its clients."""
    context = multiprocessing.get_context("fork")
    ready, leave = context.Semaphore(0), context.Event()
    members = [context.Process(target=_member, args=(ready, leave)) for _ in range(n)]
    for member in members:
        member.start()
    for _ in members:
        ready.acquire()
    status = service.status()
    found = _resident_kb(status.manager_pid)
    found["clients"] = status.n_clients
    leave.set()
    for member in members:
        member.join()
    return found


def _call_us(call: Callable[[], Any], seconds: float) -> float:
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each call")
    arguments = parser.parse_args()

    starts = [_first_join_ms() for _ in range(9)]
    print(
        f"start to first answer     {statistics.median(starts):8.2f} ms  goal 10    "
        f"least {min(starts):.2f}"
    )
    server = subprocess.Popen(
        [sys.executable, "-m", "shmtensor", "serve", "--name", _SERVICE],
        stdout=subprocess.DEVNULL,
    )
    try:
        service = Service(_SERVICE)
        while True:
            try:
                service.publish("kept", shmtensor.zeros(1000), persist=True)
                break
            except RuntimeError:  # it is not ready yet
                assert server.poll() is None, "the service did not start"
                time.sleep(0.02)
        memory = _with_clients(arguments.clients, service)
        n, resident, own = memory["clients"], memory["VmRSS"] / 1024, memory["RssAnon"] / 1024
        print(f"resident, {n:3} clients     {resident:8.2f} MB  goal 3     of its own {own:.2f}")
        restarts = [_restart_ms(service) for _ in range(9)]
        print(
            f"restart after kill -9     {statistics.median(restarts):8.2f} ms  goal 1000  "
            f"most {max(restarts):.2f}"
        )
        small = shmtensor.zeros(1024)
        live = service.empty(1024)
        calls: dict[str, Callable[[], Any]] = {
            "publish 4 KB": lambda: service.publish("small", small),
            "publish 4 KB in place": lambda: service.publish("live", live),
            "attach 4 KB": lambda: service.attach("small", "ro"),
            "version": lambda: service.version("small"),
        }
        lock = service.Lock("lock")

        def take() -> None:
            lock.acquire()
            lock.release()

        calls["lock and unlock"] = take
        for name, call in calls.items():
            print(f"{name:25} {_call_us(call, arguments.seconds):8.1f} µs")
        service.unpublish("kept")
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
