"""Train one model with several processes, without locks, in shared memory (Hogwild).

    python examples/hogwild.py                          # an MLP on digits, two workers
    python examples/hogwild.py --model cnn --workers 4
    python examples/hogwild.py --data mnist/            # IDX, .npz or .csv files of your own
    python examples/hogwild.py --resume runs/hogwild-mlp-…   # continues a killed run

The parameters are in shared memory. Every worker reads them, computes a gradient on its own
batch and subtracts it in place, while the others do the same; `shmtensor.hogwild.run` starts and
watches them. The program measures the shared model on held-out data, and writes curve.png,
curve.csv and model.safetensors at the end. On digits it reaches 96 % held-out accuracy. If a worker
dies, the others finish.

Source: Niu, Recht, Re and Wright, "Hogwild!: a lock-free approach to parallelizing stochastic
gradient descent", 2011.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

from common.data import Dataset, load
from common.models import build, library
from common.program import (
    above_zero,
    add_run_options,
    check_resume,
    draw,
    meet,
    positive,
    results_folder,
    run,
    run_arguments,
)

from shmtensor import hogwild
from shmtensor.utils.safetensors import save_file

EPOCHS = {"mlp": 100, "cnn": 15}
GOAL = 0.96  # held-out accuracy on the digits


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Hogwild: several processes train one model in shared memory, without locks. "
        f"On the digits it reaches {GOAL:.0%} held-out accuracy."
    )
    parser.add_argument("--model", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument(
        "--epochs", type=positive, help=f"passes over the data, all workers together {EPOCHS}"
    )
    parser.add_argument("--batch", type=positive, default=32, help="examples per step (32)")
    parser.add_argument("--lr", type=above_zero, default=0.05, help="step size (0.05)")
    parser.add_argument("--momentum", type=float, default=0.9, help="per worker (0.9)")
    parser.add_argument(
        "--data", type=Path, help="IDX file or folder, .npz or .csv instead of the digits"
    )
    add_run_options(parser)
    options = parser.parse_args(arguments)
    if not 0 <= options.momentum < 1:
        parser.error(f"--momentum must be in [0, 1), got {options.momentum}")
    options.epochs = options.epochs or EPOCHS[options.model] // (2 if options.quick else 1)
    return options


def loss_of_batch(library_name: str, worker: Any, batch: Any) -> Any:
    """What a worker minimises."""
    images, labels = batch
    return library(library_name).nn.functional.cross_entropy(worker.model(images), labels)


def measured(library_name: str, images: Any, labels: Any, model: Any) -> dict[str, float]:
    """Accuracy and loss on held-out data."""
    scores = model(images)
    loss = library(library_name).nn.functional.cross_entropy(scores, labels).item()
    accuracy = (scores.argmax(1) == labels).sum().item() / len(labels)
    return {"accuracy": accuracy, "held-out loss": loss}


def train(
    name: str,
    options: argparse.Namespace,
    data: Dataset,
    folder: Path | None,
    trainer: Any = hogwild.run,
) -> Any:
    """Train with shmtensor, or with another library and what trains its models."""
    lib = library(name)
    lib.core.manual_seed(options.seed)
    train_x, train_y, test_x, test_y = map(lib.core.from_numpy, dataclasses.astuple(data)[1:])
    return trainer(
        functools.partial(build, name, options.model, data.image_shape, data.n_classes),
        functools.partial(loss_of_batch, name),
        (train_x, train_y),
        options.workers,
        make_optimizer=functools.partial(lib.optim.SGD, lr=options.lr, momentum=options.momentum),
        batch_size=options.batch,
        epochs=options.epochs,
        evaluate=functools.partial(measured, name, test_x, test_y),
        title=f"shmtensor {options.model}",
        **run_arguments(options, folder),
    )


def write_files(options: argparse.Namespace, folder: Path, result: hogwild.Result) -> list[Path]:
    """Write the curve as a table and a picture, and the model; returns the paths."""
    table, checkpoint, picture = (
        folder / name for name in ("curve.csv", "model.safetensors", "curve.png")
    )
    result.write_csv(table)
    facts = {"model": options.model, "steps": str(result.steps)}
    facts["held_out_accuracy"] = f"{result.metrics['accuracy']:.4f}"
    save_file(dict(result.model.state_dict()), checkpoint, metadata=facts)
    title = f"Hogwild, {options.model}, {options.workers} workers"
    return [table, checkpoint, *draw({"": result.points}, picture, title)]


def run_program(options: argparse.Namespace, folder: Path) -> None:
    """Train, write, and say what came out."""
    check_resume(options)
    data = load(options.data, options.seed)
    print(
        f"{data.name}: {len(data.train_y)} examples to train on, {len(data.test_y)} held out, "
        f"{data.n_classes} classes; {options.model} with {options.workers} workers "
        f"({options.start_method})"
    )
    result = train("shmtensor", options, data, folder)
    written = write_files(options, folder, result)
    print(
        f"held-out accuracy {result.metrics['accuracy']:.4f}   {result.steps} steps in "
        f"{result.seconds:.2f} s = {result.steps_per_second:.0f} steps/s"
    )
    n_lost = len(result.lost_workers)
    if n_lost:
        print(f"  {options.workers - n_lost} of {options.workers} workers finished")
    print("wrote " + ", ".join(str(path) for path in written))
    if options.data is None:
        meet(options, "held-out accuracy", result.metrics["accuracy"], at_least=GOAL)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parse(arguments)
    folder = results_folder(options, f"hogwild-{options.model}")
    return run("hogwild", options, folder, lambda: run_program(options, folder))


if __name__ == "__main__":
    sys.exit(main())
