"""Hogwild on several machines: shared memory inside each, MPI between them.

    python examples/hogwild_mpi.py                      # two nodes on this machine
    mpiexec -n 2 python examples/hogwild_mpi.py         # the same by mpiexec
    mpiexec -hosts a,b -ppn 1 -disable-auto-cleanup python examples/hogwild_mpi.py
    python examples/hogwild_mpi.py --nodes 3 --on-lost stop
    python examples/hogwild_mpi.py --resume runs/hogwild_mpi-…

Each node has its own session. Its workers change the node's parameters without locks and know
nothing about other nodes. Every few milliseconds a leader process takes what they learnt and adds
it to the parameters that all nodes share, by a one-sided transfer of MPI. It adds what the others
learnt to the node's parameters (with --method average, all nodes average at the same time). At the
end all nodes have the same parameters. Together they see the digits as often as one node would, and
reach its accuracy: at least 95 % on held-out data, with every seed.

If a node is killed, the others report it within five seconds, and continue, or write a checkpoint
and stop. That needs the line with -disable-auto-cleanup and one rank for each host: mpiexec kills
the ranks of its own host when one of them is killed. Without mpiexec this program starts its nodes
itself, and takes care of that.

Sources: Niu, Recht, Re and Wright, "Hogwild!: a lock-free approach to parallelizing stochastic
gradient descent", 2011; Dean et al., "Large scale distributed deep networks", 2012; Zhang,
Choromanska and LeCun, "Deep learning with elastic averaging SGD", 2015.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from pathlib import Path
from typing import Any

from common.data import Dataset, load
from common.models import build
from common.nodes import is_rank, start_nodes
from common.program import (
    above_zero,
    add_run_options,
    draw,
    is_installed,
    meet,
    positive,
    run,
    run_arguments,
)

import shmtensor
from shmtensor import hogwild, nn, optim
from shmtensor.utils.safetensors import save_file

NAME = "hogwild_mpi"
EPOCHS = 200
GOAL = 0.95  # held-out accuracy on the digits


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Hogwild on several nodes: shared memory inside each, MPI between them. On the "
        f"digits it reaches {GOAL:.0%} held-out accuracy, also with --quick, as one node does."
    )
    parser.add_argument("--epochs", type=positive, help=f"passes of all nodes together ({EPOCHS})")
    parser.add_argument("--batch", type=positive, default=32, help="examples per step (32)")
    parser.add_argument("--lr", type=above_zero, default=0.05, help="step size (0.05)")
    parser.add_argument("--data", type=Path, help="IDX, .npz or .csv instead of the digits")
    group = parser.add_argument_group("the nodes")
    group.add_argument(
        "--nodes", type=positive, default=2, help="start this many here, unless mpiexec does (2)"
    )
    group.add_argument("--method", choices=("accumulate", "average"), default="accumulate")
    group.add_argument(
        "--every", type=above_zero, default=20.0, help="milliseconds between exchanges (20)"
    )
    group.add_argument(
        "--max-ahead", type=positive, help="exchanges that a node may be ahead of the slowest one"
    )
    group.add_argument(
        "--on-lost",
        choices=("continue", "stop"),
        default="continue",
        help="what the others do when a node is lost (continue)",
    )
    group.add_argument(
        "--compare", choices=("alone",), help="then train as much on one node without the others"
    )
    add_run_options(parser, workers=1)
    options = parser.parse_args(arguments)
    options.epochs = options.epochs or EPOCHS // (2 if options.quick else 1)
    return options


def loss_of_batch(worker: hogwild.Worker, batch: Any) -> Any:
    """What a worker minimises."""
    images, labels = batch
    return nn.functional.cross_entropy(worker.model(images), labels)


def measured(images: Any, labels: Any, model: Any) -> dict[str, float]:
    """Accuracy on held-out data."""
    found = model(images).argmax(1)
    return {"accuracy": (found == labels).sum().item() / len(labels)}


def train(
    options: argparse.Namespace, data: Dataset, folder: Path | None, nodes: hogwild.Nodes | None
) -> hogwild.Result:
    """Train on this node, with the others or alone."""
    shmtensor.manual_seed(options.seed)
    held_out = shmtensor.from_numpy(data.test_x), shmtensor.from_numpy(data.test_y)
    how = run_arguments(options, folder)
    if nodes is None or nodes.node != 0:
        how["view"] = "none"  # they share a screen
    return hogwild.run(
        functools.partial(build, "shmtensor", "mlp", data.image_shape, data.n_classes),
        loss_of_batch,
        (shmtensor.from_numpy(data.train_x), shmtensor.from_numpy(data.train_y)),
        options.workers,
        make_optimizer=functools.partial(optim.SGD, lr=options.lr, momentum=0.9),
        batch_size=options.batch,
        epochs=options.epochs,
        evaluate=functools.partial(measured, *held_out),
        title="hogwild" if nodes is None else f"node 0 of {nodes.n_nodes}",
        nodes=nodes,
        **how,
    )


def write_files(
    folder: Path, result: hogwild.Result, alone: hogwild.Result | None, title: str
) -> list[Path]:
    """Write the node's curve and its model; returns the paths."""
    table, model = folder / "curve.csv", folder / "model.safetensors"
    result.write_csv(table)
    save_file(dict(result.model.state_dict()), model)
    curves = {title: result.points}
    if alone is not None:
        curves["one node"] = alone.points
    return [table, model, *draw(curves, folder / "curve.png", "Hogwild over MPI")]


def say(text: str) -> None:
    """Print a line in one piece: other nodes print on the same screen."""
    print(text + "\n", end="", flush=True)


def print_summary(name: str, result: hogwild.Result) -> None:
    """What came out on this node."""
    say(
        f"{name}: held-out accuracy {result.metrics['accuracy']:.4f}, {result.steps} steps in "
        f"{result.seconds:.2f} s"
    )
    found = result.exchanges
    if found is not None and found.rounds:
        say(
            f"{name}: {found.rounds} exchanges of {1e3 * found.seconds / found.rounds:.1f} ms, "
            f"{found.nbytes / 1e6:.1f} MB; between two of them {found.staleness:.1f} of other "
            f"nodes (at most {found.max_staleness})"
        )


def run_program(options: argparse.Namespace) -> None:
    """Join the nodes, train, write, and say what came out."""
    data = load(options.data, options.seed)
    if options.resume and not list(options.resume.glob("node-*/checkpoint.pt")):
        raise FileNotFoundError(f"{options.resume} has no node-*/checkpoint.pt to resume from")
    nodes = hogwild.Nodes(
        every=options.every / 1e3,
        method=options.method,
        max_ahead=options.max_ahead,
        on_lost=options.on_lost,
    )
    with nodes:
        began = time.strftime("%Y%m%d-%H%M%S", time.localtime(nodes.began_at))
        common = options.resume or options.out or Path("runs") / f"{NAME}-{began}"
        folder = common / f"node-{nodes.node}"
        # A node that has no checkpoint, as one on a new machine, gets what the others have.
        options.resume = folder if (folder / "checkpoint.pt").is_file() and options.resume else None
        name = f"node {nodes.node} of {nodes.n_nodes}"
        say(f"{name}: process {os.getpid()}, leader {nodes.leader_pid}, {folder}")
        result = train(options, data, folder, nodes)
    print_summary(name, result)
    alone = None
    if options.compare and nodes.node == 0:
        options.workers *= nodes.n_nodes
        options.resume = None
        alone = train(options, data, None, None)
        print_summary("alone", alone)
    written = write_files(folder, result, alone, f"{nodes.n_nodes} nodes")
    say(f"{name}: wrote " + ", ".join(str(path) for path in written))
    if options.data is None:
        meet(options, "held-out accuracy", result.metrics["accuracy"], at_least=GOAL)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    if not is_installed("mpi4py"):
        print(f"{NAME}: mpi4py is not installed: pip install 'shmtensor[mpi]'", file=sys.stderr)
        return 2
    if options.nodes > 1 and not is_rank():
        try:
            start_nodes(__file__, options.nodes, arguments)
        except FileNotFoundError as error:
            print(f"{NAME}: {error}", file=sys.stderr)
            return 2
    folder = options.resume or options.out or Path("runs")
    return run(NAME, options, folder, lambda: run_program(options))


if __name__ == "__main__":
    sys.exit(main())
