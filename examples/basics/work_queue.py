"""Jobs that get lost with no worker: a job whose worker is killed goes to another one.

    python examples/basics/work_queue.py work        # in one terminal, or in several
    python examples/basics/work_queue.py put 1000    # in another one: put jobs, and wait for them

Kill a worker with `kill -9` while it computes: another one does its job, and none is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from typing import Any

import numpy as np

from shmtensor import service


def put(jobs: Any, n: int) -> None:
    """Put *n* jobs, and wait until each is done."""
    for number in range(n):
        jobs.put({"number": number, "image": np.full((240, 320), number % 256, np.uint8)})
    jobs.join()
    print(f"{n} jobs are done, {jobs.n_dead_letters} were given up")


def work(jobs: Any, seconds: float) -> None:
    """Do jobs until this process is stopped."""
    while True:
        # The block's end acknowledges the job. An exception, or a kill, puts it back.
        with jobs.get(ack=True) as job:
            time.sleep(seconds)  # stands for work that takes long
            mean, again = job.value["image"].mean(), " again" if job.deliveries > 1 else ""
            print(f"{os.getpid()}: job {job.value['number']}{again}, mean {mean:.1f}", flush=True)


def main() -> None:
    """Put jobs, or do them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["put", "work"])
    parser.add_argument("count", type=int, nargs="?", default=100, help="jobs to put (100)")
    parser.add_argument("--seconds", type=float, default=0.02, help="a job takes so long (0.02)")
    options = parser.parse_args()
    # A job that has cost three workers their lives gets no fourth.
    jobs = service.Queue("jobs", max_deliveries=3, as_="numpy")
    if options.what == "put":
        put(jobs, options.count)
    else:
        work(jobs, options.seconds)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
