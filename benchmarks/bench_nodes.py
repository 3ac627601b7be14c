"""What does an exchange between nodes cost, and how stale do parameters get? MPI on one machine.

    python benchmarks/bench_nodes.py                    # 2, 3 and 4 ranks
    python benchmarks/bench_nodes.py --ranks 2 --seconds 5 --csv nodes.csv

For each number of ranks and each size of the parameters, all ranks exchange with all others as the
leaders of `shmtensor.hogwild` do: one accumulate-and-fetch for each shard; beside it, the sum over
all ranks by which they average. The time is the median of the slowest rank. Then the ranks train a
small model for a while, and count the exchanges of others between two of their own. More
ranks than cores wait for each other's turn: such rows measure the machine more than the method.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

SIZES = (16 << 10, 256 << 10, 1 << 20, 16 << 20)  # bytes of parameters
EVERY_MS = (5.0, 20.0, 100.0)
NAMES = (
    *("kind", "ranks", "bytes", "every_ms", "ms", "mb_per_s", "rounds_per_s", "staleness"),
    "max_staleness",
)


def exchanges(nbytes: int, seconds: float) -> list[dict[str, float]]:
    """Time exchanges and sums of one size; run by every rank."""
    from mpi4py import MPI

    from shmtensor.hogwild import MpiStore

    store = MpiStore()
    values = np.zeros(nbytes // 4, np.float32)
    store.open(values, 0)
    delta = np.ones_like(values)

    def exchange() -> None:
        for k in range(store.n_nodes):
            where = store.bounds((store.node + k) % store.n_nodes)
            store.exchange(delta[where], (store.node + k) % store.n_nodes, values[where])

    found = []
    for kind, call in (("exchange", exchange), ("sum", lambda: store.sum(values.copy()))):
        times = []
        ends_at = time.monotonic() + seconds
        is_over = np.zeros(1)
        while not is_over[0]:
            store.barrier()
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
            is_over[0] = time.monotonic() > ends_at
            store.sum(is_over)
        slowest = MPI.COMM_WORLD.allreduce(median(times), op=MPI.MAX)
        # What a node sends for its own exchange, and gets back.
        moved = 2 * nbytes * (store.n_nodes - 1) / store.n_nodes
        found.append(
            {
                "kind": kind,
                "ranks": store.n_nodes,
                "bytes": nbytes,
                "ms": 1e3 * slowest,
                "mb_per_s": moved / slowest / 1e6,
            }
        )
    is_first = store.node == 0
    store.close()
    return found if is_first else []


def squared_error(worker: Any, batch: Any) -> Any:
    """The loss of the model that is trained."""
    x, y = batch
    return ((worker.model(x).squeeze(1) - y) ** 2).mean()


def make_model() -> Any:
    """A small network."""
    from shmtensor import manual_seed, nn

    manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 1))


def training(every_ms: float, seconds: float) -> list[dict[str, float]]:
    """Train and count; run by every rank."""
    import shmtensor as st
    from shmtensor import hogwild

    x = st.randn(4096, 64, generator=st.Generator().manual_seed(0))
    with hogwild.Nodes(every=every_ms / 1e3) as nodes:
        result = hogwild.run(
            make_model,
            squared_error,
            (x, x[:, 0]),
            workers=1,
            seconds=seconds,
            nodes=nodes,
            view="none",
        )
    found = result.exchanges
    assert found is not None
    if found.node != 0 or not found.rounds:
        return []
    return [
        {
            "kind": "training",
            "ranks": found.n_nodes,
            "bytes": sum(4 * p.numel() for p in result.model.parameters()),
            "every_ms": every_ms,
            "ms": 1e3 * found.seconds / found.rounds,
            "mb_per_s": found.nbytes / found.seconds / 1e6,
            "rounds_per_s": found.rounds / result.seconds,
            "staleness": found.staleness,
            "max_staleness": found.max_staleness,
        }
    ]


def as_rank(arguments: argparse.Namespace) -> None:
    """Do one case as one of the ranks; the first one prints the rows."""
    kind, value = arguments.case.split("=")
    if kind == "exchange":
        rows = exchanges(int(value), arguments.seconds / 4)
    else:
        rows = training(float(value), arguments.seconds)
    for row in rows:
        print("row", *(f"{name}={value}" for name, value in row.items()), flush=True)


def run_case(ranks: int, case: str, seconds: float) -> list[dict[str, str]]:
    """Start the ranks of one case; returns its rows."""
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    if mpiexec is None:
        raise SystemExit("bench_nodes: mpiexec is not installed: pip install 'shmtensor[mpi]'")
    done = subprocess.run(
        [
            *(mpiexec, "-n", str(ranks), sys.executable, __file__),
            *("--case", case, "--seconds", str(seconds)),
        ],
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("row ")]
    return [dict(field.split("=", 1) for field in line) for line in lines]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--seconds", type=float, default=4.0, help="for each case (4)")
    parser.add_argument("--csv", type=Path, help="write the rows here too")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        as_rank(arguments)
        return
    cases = [f"exchange={n}" for n in SIZES] + [f"training={every}" for every in EVERY_MS]
    print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}")
    print(" ".join(f"{name:>13}" for name in NAMES))
    rows = []
    for ranks in arguments.ranks:
        for case in cases:
            for row in run_case(ranks, case, arguments.seconds):
                rows.append(row)
                cells = [row.get(name, "") for name in NAMES]
                shown = [f"{float(c):.4g}" if c[:1].isdigit() else c for c in cells]
                print(" ".join(f"{cell:>13}" for cell in shown), flush=True)
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            table = csv.DictWriter(file, NAMES, restval="")
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    main()
