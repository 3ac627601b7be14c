"""Train one model with several processes, without locks, in shared memory (Hogwild).

    python examples/hogwild.py                          # an MLP on digits, two workers
    python examples/hogwild.py --model cnn --workers 4
    python examples/hogwild.py --data mnist/            # IDX, .npz or .csv files of your own
    python examples/hogwild.py --compare-torch          # the same run with torch beside it

The parameters lie in shared memory. Every worker reads them, computes a gradient on its own
batch and subtracts it in place, while the others do the same. The parent only watches: it shows
one line per worker, measures the shared model on held-out data, and writes curve.png, curve.csv
and model.safetensors at the end. If a worker dies, the others finish.

Source: Niu, Recht, Re and Wright, "Hogwild!: a lock-free approach to parallelizing stochastic
gradient descent", 2011.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path

from hogwild_parts.data import DataError, Dataset, load
from hogwild_parts.report import print_summary, write_files
from hogwild_parts.run import Result, train
from hogwild_parts.settings import EPOCHS, Settings

START_METHODS = ("fork", "spawn", "forkserver")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def _above_zero(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text}")
    return value


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Hogwild: several processes train one model in shared memory, without locks."
    )
    parser.add_argument("--model", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument("--workers", type=_positive, default=2, help="processes (default 2)")
    parser.add_argument(
        "--epochs", type=_positive, help=f"passes over the data, all workers together {EPOCHS}"
    )
    parser.add_argument("--seconds", type=_above_zero, help="train no longer than this")
    parser.add_argument("--batch", type=_positive, default=32, help="examples per step (32)")
    parser.add_argument("--lr", type=_above_zero, default=0.05, help="step size (0.05)")
    parser.add_argument("--momentum", type=float, default=0.9, help="per worker (0.9)")
    parser.add_argument("--start-method", choices=START_METHODS, default="fork")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--data", type=Path, help="IDX file or folder, .npz or .csv instead of the digits"
    )
    parser.add_argument("--out", type=Path, help="folder for the results (runs/hogwild-<time>)")
    parser.add_argument("--plain", action="store_true", help="plain text instead of live progress")
    parser.add_argument(
        "--compare-torch", action="store_true", help="then the same with torch, if installed"
    )
    options = parser.parse_args(arguments)
    if not 0 <= options.momentum < 1:
        parser.error(f"--momentum must be in [0, 1), got {options.momentum}")
    return options


def settings_from(options: argparse.Namespace) -> Settings:
    """What the workers need to know."""
    return Settings(
        model=options.model,
        workers=options.workers,
        epochs=options.epochs or EPOCHS[options.model],
        seconds=options.seconds,
        batch=options.batch,
        lr=options.lr,
        momentum=options.momentum,
        start_method=options.start_method,
        seed=options.seed,
        plain=options.plain,
    )


def run_all(settings: Settings, data: Dataset, *, compare_torch: bool) -> list[Result]:
    """Train with shmtensor, and then with torch if that is wanted and there."""
    results = [train("shmtensor", settings, data)]
    if compare_torch:
        if importlib.util.find_spec("torch") is None:
            print("torch is not installed; nothing to compare with")
        else:
            results.append(train("torch", settings, data))
    return results


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit status: 1 if every worker died."""
    options = parse(arguments)
    settings = settings_from(options)
    try:
        data = load(options.data, settings.seed)
    except DataError as error:
        print(f"hogwild: {error}", file=sys.stderr)
        return 2
    print(
        f"{data.name}: {len(data.train_y)} examples to train on, {len(data.test_y)} held out, "
        f"{data.n_classes} classes; {settings.model} with {settings.workers} workers "
        f"({settings.start_method})"
    )
    results = run_all(settings, data, compare_torch=options.compare_torch)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = options.out or Path("runs") / f"hogwild-{settings.model}-{stamp}"
    written = write_files(folder, results, settings)
    print_summary(results, written)
    return 0 if results[0].finished_workers else 1


if __name__ == "__main__":
    sys.exit(main())
