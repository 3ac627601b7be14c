"""Simulate many nodes that train one model: what exchanges cost, and what is gained.

    python tools/simulate_nodes.py                         # writes docs/images/scaling.png
    python tools/simulate_nodes.py --measured nodes.csv    # draws measured rows beside it
    python tools/simulate_nodes.py --link-gb 3.1 --latency-us 5 --parameters-mb 400

Two things are computed, for 1 to 1 000 nodes. The cost of an exchange follows from a formula
(`exchange_seconds`). What training gains is simulated event by event: every node makes steps of
stochastic gradient descent on a quadratic function with a spectrum of curvatures and with noise,
reads its parameters, adds its differences to the shared ones when the transfer is over, and goes on
meanwhile. Nodes differ in speed. The step size is chosen for each number of nodes, as one would.
All draws come from one seed.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NODES = (1, 2, 4, 10, 30, 100, 300, 1000)
CURVATURES = np.geomspace(1.0, 0.02, 12)
NOISE = 1.0  # standard deviation of a gradient's error, per element
GOAL = 0.02  # the loss that is to be reached; the first loss is 1
RATES = (0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5)
N_SEEDS = 3
SPREAD = 0.2  # of the nodes' speeds, as the standard deviation of their logarithm
N_STEPS = 20_000  # of a node, at most
ROW_BYTES, BEATS_PER_S = 8, 5.0


@dataclass(frozen=True)
class Machine:
    """What nodes and their network can do.

    Attributes:
        link: Bytes a second that a node can send, and receive at the same time.
        latency: Seconds of one transfer that moves nothing.
        step: Seconds of one step of a node.
        every: Seconds between exchanges.
        nbytes: Of the parameters.
    """

    link: float
    latency: float
    step: float
    every: float
    nbytes: float


def exchange_seconds(machine: Machine, n_nodes: int) -> float:
    """How long an exchange lasts: a transfer for each shard, and the bytes through one's link.

    A node sends its differences to the homes of all shards and gets the values back; while it does
    that, it is the home of one shard for the others, which exchange as often. So 2 (n - 1) / n
    times the parameters go through its link in each direction. Heartbeats take their part of it.
    """
    if n_nodes == 1:
        return 0.0
    moved = 2 * machine.nbytes * (n_nodes - 1) / n_nodes
    left = machine.link - heartbeat_bytes(n_nodes)
    return machine.latency * (n_nodes - 1) + moved / max(left, machine.link / 100)


def heartbeat_bytes(n_nodes: int) -> float:
    """Bytes a second that a node sends to show all others that it lives."""
    return (n_nodes - 1) * (5 + 2 * n_nodes) * ROW_BYTES * BEATS_PER_S


@dataclass
class Outcome:
    """Of one simulated run: seconds to the goal (None: not reached), and others' exchanges."""

    seconds: float | None
    staleness: float
    max_staleness: int


def simulate(machine: Machine, n_nodes: int, rate: float, gain: float, seed: int) -> Outcome:
    """Train with *n_nodes* until the goal is reached, or each has made its steps."""
    random = np.random.default_rng(seed)
    speeds = np.exp(random.normal(0.0, SPREAD, n_nodes))
    lasts = exchange_seconds(machine, n_nodes)
    keep = 1.0 - rate * CURVATURES  # of a parameter, after one step
    start = np.sqrt(2.0 / len(CURVATURES) / CURVATURES)  # all directions begin with an equal loss
    shared = start.copy()
    local: NDArray[Any] = np.tile(start, (n_nodes, 1))
    read = local.copy()
    seen = local.copy()
    n_done = np.zeros(n_nodes)

    def steps_between(node: int, seconds: float) -> None:
        """Let a node make the steps of so many seconds, in closed form."""
        n = round(seconds * speeds[node] / machine.step)
        if n <= 0:
            return
        kept = keep**n
        variance = (rate * NOISE) ** 2 * (1 - kept**2) / (1 - keep**2)
        noise = random.standard_normal(len(kept)) * np.sqrt(variance)
        local[node] = kept * local[node] + noise
        n_done[node] += n

    # (time, node, whether an exchange ends then)
    first = machine.every * random.uniform(0.5, 1.5, n_nodes)
    events = [(float(first[node]), node, False) for node in range(n_nodes)]
    heapq.heapify(events)
    n_exchanges = 0
    at_last = np.zeros(n_nodes, np.int64)  # exchanges of all at a node's last one
    staleness: list[int] = []
    last = np.zeros(n_nodes)
    average = start.copy()
    while events and n_done.min() < N_STEPS:
        now, node, ends = heapq.heappop(events)
        steps_between(node, now - last[node])
        last[node] = now
        if not ends:
            read[node] = local[node]
            heapq.heappush(events, (now + lasts, node, True))
            continue
        shared = shared + gain * (read[node] - seen[node])
        local[node] += shared - read[node]
        seen[node] = shared
        staleness.append(n_exchanges - int(at_last[node]))
        n_exchanges += 1
        at_last[node] = n_exchanges
        heapq.heappush(events, (now + machine.every, node, False))
        # The loss of an average over some exchanges: noise of a moment is no progress.
        average += (shared - average) / min(n_exchanges, 20 * n_nodes)
        loss = 0.5 * float((CURVATURES * shared**2).sum())
        if not np.isfinite(loss) or loss > 100.0:
            break
        if 0.5 * float((CURVATURES * average**2).sum()) < GOAL and loss < 2 * GOAL:
            return Outcome(now, float(np.mean(staleness)), max(staleness))
    found = staleness or [0]
    return Outcome(None, float(np.mean(found)), max(found))


def best(machine: Machine, n_nodes: int, adds_up: bool, seed: int) -> Outcome:
    """The outcome with the best step size: the median of several seeds, all of which reach it."""
    gain = 1.0 if adds_up else 1.0 / n_nodes
    found: list[Outcome] = []
    for rate in RATES:
        runs = [simulate(machine, n_nodes, rate, gain, seed + k) for k in range(N_SEEDS)]
        times = [run.seconds for run in runs if run.seconds is not None]
        seconds = sorted(times)[N_SEEDS // 2] if len(times) == N_SEEDS else None
        found.append(Outcome(seconds, runs[0].staleness, max(r.max_staleness for r in runs)))
    reached = [run for run in found if run.seconds is not None]
    return min(reached, key=lambda run: run.seconds or 0.0) if reached else found[0]


def measured_rows(path: Path | None) -> list[dict[str, str]]:
    """What `benchmarks/bench_nodes.py` has written."""
    if path is None:
        return []
    with open(path) as file:
        return list(csv.DictReader(file))


def draw(
    path: Path,
    machine: Machine,
    runs: dict[str, list[Outcome]],
    nodes: list[int],
    rows: list[dict[str, str]],
) -> None:
    """Draw costs, staleness and gain over the number of nodes."""
    from matplotlib.figure import Figure  # optional, and slow to import

    figure = Figure(figsize=(13, 3.8))
    costs, stale, gains = figure.subplots(1, 3)
    many = np.unique(np.geomspace(2, max(nodes), 60).astype(int))
    for megabytes in (1, 16, 400):
        other = Machine(
            machine.link, machine.latency, machine.step, machine.every, megabytes * 2.0**20
        )
        times = [1e3 * exchange_seconds(other, int(n)) for n in many]
        costs.plot(many, times, label=f"{megabytes} MB, formula")
    for nbytes in (1 << 20, 16 << 20):
        seen = [r for r in rows if r["kind"] == "exchange" and int(r["bytes"]) == nbytes]
        if seen:
            costs.plot(
                [int(r["ranks"]) for r in seen],
                [float(r["ms"]) for r in seen],
                "x",
                label=f"{nbytes >> 20} MB, measured on two cores",
            )
    costs.set_title("an exchange, milliseconds")
    costs.set_yscale("log")
    for name, outcomes in runs.items():
        kept = [
            (n, o.staleness)
            for n, o in zip(nodes, outcomes, strict=True)
            if n > 1 and o.seconds is not None
        ]
        stale.plot(*zip(*kept, strict=True), ".-", label=f"simulated, {name}")
    seen = [r for r in rows if r["kind"] == "training" and float(r["every_ms"]) == 20.0]
    if seen:
        stale.plot(
            [int(r["ranks"]) for r in seen],
            [float(r["staleness"]) for r in seen],
            "x",
            label="measured on two cores",
        )
    stale.set_title("exchanges of others between two")
    stale.set_yscale("log")
    for name, outcomes in runs.items():
        alone = outcomes[0].seconds
        reached = [
            (n, alone / o.seconds)
            for n, o in zip(nodes, outcomes, strict=True)
            if alone and o.seconds
        ]
        gains.plot(*zip(*reached, strict=True), ".-", label=f"simulated, {name}")
    gains.set_title("how much sooner the goal is reached")
    for axis in (costs, stale, gains):
        axis.set_xscale("log")
        axis.set_xlabel("nodes")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--link-gb", type=float, default=1.25, help="gigabytes a second (1.25)")
    parser.add_argument("--latency-us", type=float, default=30.0, help="of a transfer (30)")
    parser.add_argument("--step-ms", type=float, default=1.0, help="of a node's step (1)")
    parser.add_argument("--every-ms", type=float, default=50.0, help="between exchanges (50)")
    parser.add_argument("--parameters-mb", type=float, default=16.0, help="(16)")
    parser.add_argument("--max-nodes", type=int, default=NODES[-1])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measured", type=Path, help="rows of benchmarks/bench_nodes.py --csv")
    parser.add_argument("--out", type=Path, default=Path("docs/images/scaling.png"))
    return parser.parse_args()


def main() -> int:
    """Compute, print a table and draw it."""
    options = parsed()
    machine = Machine(
        link=options.link_gb * 1e9,
        latency=options.latency_us * 1e-6,
        step=options.step_ms * 1e-3,
        every=options.every_ms * 1e-3,
        nbytes=options.parameters_mb * 2**20,
    )
    nodes = [n for n in NODES if n <= options.max_nodes]
    runs: dict[str, list[Outcome]] = {"averaged": [], "added up": []}
    print(
        "nodes  exchange ms  heartbeats MB/s  | averaged: stale   goal s | added up: stale  goal s"
    )
    for n in nodes:
        cells = []
        for name, outcomes in runs.items():
            found = best(machine, n, name == "added up", options.seed)
            outcomes.append(found)
            reached = "-" if found.seconds is None else f"{found.seconds:.2f}"
            cells.append(f"{found.staleness:8.1f} {reached:>8}")
        cost, beats = 1e3 * exchange_seconds(machine, n), heartbeat_bytes(n) / 1e6
        print(f"{n:5}  {cost:11.2f}  {beats:15.2f}  | " + " | ".join(cells), flush=True)
    draw(options.out, machine, runs, nodes, measured_rows(options.measured))
    print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
