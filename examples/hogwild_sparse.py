"""Steps that touch few parameters each, from several processes, with and without locks.

    python examples/hogwild_sparse.py                       # logistic regression, two workers
    python examples/hogwild_sparse.py --task factorisation  # users, items, ratings
    python examples/hogwild_sparse.py --task factorisation --data ratings.csv
    python examples/hogwild_sparse.py --speed-up            # one process, two, two with a lock
    python examples/hogwild_sparse.py --resume runs/hogwild_sparse-…

If a step changes few of many parameters, two workers seldom change the same one, so locks protect
little and cost much. The Hogwild paper proves and measures this case. Both of its tasks are here:

logistic       documents of 50 words out of 50 000, two classes. The gradient is one line, so the
               step is written by hand: it reads the rows of its batch and adds to them. 90 % of
               held-out documents are classified correctly. A step takes 4 documents. Larger batches
               process more documents a second, but two workers then write to most of the weights'
               cache lines in each step, and do no more than 1.4 times the work of one.
factorisation  a matrix of ratings as a product of two thin ones. Sparse gradients of two
               embeddings have a row for each user and item of the batch. The root mean square
               error on held-out ratings is at most 0.55; the noise in them is 0.5.

With --locked a worker has a lock during each whole step. --speed-up runs one process, all of
them without locks, and all with the lock, and prints rates and qualities. A CSV file has lines
user,item,rating.

Source: Niu, Recht, Re and Wright, "Hogwild!: a lock-free approach to parallelizing stochastic
gradient descent", 2011.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import sparse_data
from common.file_lock import FileLock
from common.models import library
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

NOISE = 0.5
# Of each task: batch size, step size, passes over the data, with --quick.
SETTINGS = {"logistic": (4, 8.0, 30, 10), "factorisation": (64, 0.03, 10, 6)}
GOALS = {"logistic": ("accuracy", 0.90), "factorisation": ("error", 1.1 * NOISE)}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Hogwild on sparse data: each step changes few of many parameters. By default "
        f"and with --quick, logistic regression reaches {GOALS['logistic'][1]:.0%} held-out "
        f"accuracy, factorisation a held-out error of {GOALS['factorisation'][1]:.2g} or less "
        f"where the noise is {NOISE}."
    )
    parser.add_argument("--task", choices=tuple(SETTINGS), default="logistic")
    parser.add_argument("--data", type=Path, help="CSV of user,item,rating, for factorisation")
    parser.add_argument("--rank", type=positive, default=8, help="of the factors (8)")
    parser.add_argument("--epochs", type=positive, help="passes over the data")
    parser.add_argument("--batch", type=positive, help="samples in a step")
    parser.add_argument("--lr", type=above_zero, help="step size of a sample")
    parser.add_argument(
        "--decay", type=above_zero, default=0.85, help="of the step size in an epoch (0.85)"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--locked", action="store_true", help="hold a lock for each step")
    mode.add_argument(
        "--speed-up", action="store_true", help="one process, all without locks, all with a lock"
    )
    add_run_options(parser)
    options = parser.parse_args(arguments)
    batch, lr, epochs, quick_epochs = SETTINGS[options.task]
    options.batch = options.batch or batch
    options.lr = options.lr or lr
    options.epochs = options.epochs or (quick_epochs if options.quick else epochs)
    if options.data and options.task != "factorisation":
        parser.error("--data is for --task factorisation")
    if options.speed_up and options.resume:
        parser.error("--resume continues one run, and --speed-up makes three")
    return options


# --- logistic regression: the step by hand -------------------------------------------------------


def make_scorer(name: str, sizes: tuple[int, ...]) -> Any:
    """A weight for each word; a document's score is the sum of its words' weights by values."""
    lib = library(name)
    model = lib.nn.EmbeddingBag(sizes[0], 1, mode="sum")
    lib.nn.init.zeros_(model.weight)
    return model.requires_grad_(requires_grad=False)


def logistic_step(rate: Callable[[int], float], worker: Any, batch: Any) -> float:
    """Add to the weights of the batch's words: their values, by how wrong the document's score is.

    That is the gradient of the logistic loss. Words that are not in the batch are not touched.
    """
    words, values, classes = batch
    weight = worker.model.weight.view(-1)
    words = words.view(-1)
    scores = (weight.index_select(0, words).view_as(values) * values).sum(1)
    errors = classes - scores.sigmoid()
    changes = (values * errors.unsqueeze(1)).view(-1)
    with worker.update():
        weight.index_add_(0, words, changes, alpha=rate(worker.step))
    return float(errors.abs().mean())


def accuracy(words: Any, values: Any, classes: Any, model: Any) -> dict[str, float]:
    """The share of documents whose class is that of their score."""
    scores = model(words, per_sample_weights=values).squeeze(1)
    return {"accuracy": ((scores > 0) == (classes > 0.5)).float().mean().item()}


# --- factorisation: sparse gradients ------------------------------------------------------------


def make_factors(name: str, rank: int, sizes: tuple[int, ...]) -> Any:
    """Small random factors of each user and each item.

    In two more columns one table begins at 1 and the other at 0: so the other's is a bias.
    """
    lib = library(name)
    tables = lib.nn.ModuleList()
    for column, size in enumerate(sizes):
        table = lib.nn.Embedding(size, rank + 2, sparse=True)
        with lib.core.no_grad():
            table.weight.normal_(std=0.3)
            table.weight[:, rank:] = 0.0
            table.weight[:, rank + column] = 1.0
        tables.append(table)
    return tables


def predicted(model: Any, users: Any, items: Any) -> Any:
    """The ratings that the factors say."""
    return (model[0](users) * model[1](items)).sum(1)


def factorisation_step(rate: Callable[[int], float], worker: Any, batch: Any) -> Any:
    """The loss of a batch; its gradient has rows for the batch's users and items only."""
    users, items, values = batch
    # The loss is a mean: a sample's share of the step is a batch's part of it.
    worker.optimizer.param_groups[0]["lr"] = rate(worker.step) * len(values)
    return ((predicted(worker.model, users, items) - values) ** 2).mean()


def error(users: Any, items: Any, values: Any, model: Any) -> dict[str, float]:
    """Root of the mean square error on held-out ratings."""
    return {"error": ((predicted(model, users, items) - values) ** 2).mean().sqrt().item()}


# --- both ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """The step size: smaller by a factor after each epoch."""

    first: float
    decay: float
    steps_per_epoch: int

    def __call__(self, step: int) -> float:
        """At a worker's step."""
        return float(self.first * self.decay ** (step // self.steps_per_epoch))


def with_a_lock(lock: FileLock, step: Callable[[Any, Any], Any], worker: Any, batch: Any) -> float:
    """A step, and what follows from its loss, while no other worker makes one."""
    with lock:
        loss = step(worker, batch)
        if not isinstance(loss, float):
            worker.optimizer.zero_grad()
            loss.backward()
            worker.optimizer.step()
            loss = loss.item()
    return float(loss)


def read(options: argparse.Namespace) -> sparse_data.Samples:
    """What to train on, and what is held out."""
    if options.data:
        return sparse_data.read_ratings(options.data, options.seed)
    if options.task == "logistic":
        return sparse_data.documents(options.seed)
    return sparse_data.ratings(options.seed, NOISE)


def train(
    name: str,
    options: argparse.Namespace,
    data: sparse_data.Samples,
    n_workers: int,
    lock: FileLock | None,
    arguments: dict[str, Any],
    trainer: Any = hogwild.run,
) -> Any:
    """Train with shmtensor, or with another library and what trains its models."""
    lib = library(name)
    lib.core.manual_seed(options.seed)
    columns, held_out = (tuple(map(lib.core.from_numpy, c)) for c in (data.train, data.test))
    per_epoch = -(-len(columns[0]) // (n_workers * options.batch))
    rate = Rate(options.lr, options.decay, per_epoch)
    make_model: Any
    step: Any
    measure: Any
    if options.task == "logistic":
        make_model = functools.partial(make_scorer, name, data.sizes)
        step, measure = functools.partial(logistic_step, rate), accuracy
    else:
        make_model = functools.partial(make_factors, name, options.rank, data.sizes)
        step, measure = functools.partial(factorisation_step, rate), error
    if lock is not None:
        step = functools.partial(with_a_lock, lock, step)
    return trainer(
        make_model,
        step,
        columns,
        n_workers,
        make_optimizer=functools.partial(lib.optim.SGD, lr=options.lr),
        batch_size=options.batch,
        epochs=options.epochs,
        evaluate=functools.partial(measure, *held_out),
        # Where rates are compared, the evaluation is to take no time of the workers.
        evaluate_every=float("inf") if options.speed_up else 0.0,
        title=f"{options.task}, {name}",
        **arguments,
    )


def run_program(options: argparse.Namespace, folder: Path) -> None:
    """Train in each way that is asked for, write, and say what came out."""
    check_resume(options)
    data = read(options)
    print(f"{data.name}: {len(data.train[0])} to train on, {len(data.test[0])} held out")
    arguments = run_arguments(options, None if options.speed_up else folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    n = options.workers
    free, locked = f"{n} processes, no locks", f"{n} processes, a lock"
    ways: dict[str, tuple[int, FileLock | None]] = {free: (n, None)}
    if options.locked:
        ways = {locked: (n, lock)}
    elif options.speed_up:
        ways = {"1 process": (1, None), free: (n, None), locked: (n, lock)}
    results: dict[str, Any] = {}
    for way, (n_workers, its_lock) in ways.items():
        results[way] = train("shmtensor", options, data, n_workers, its_lock, arguments)
    main = locked if options.locked else free
    metric, goal = GOALS[options.task]
    first = next(iter(results.values())).steps_per_second
    for way, result in results.items():
        rate = result.steps_per_second
        print(f"{way:22} {metric} {result.metrics[metric]:.4f}  {rate:8.0f} steps/s", end="")
        print(f"  {rate / first:.2f} of {next(iter(results))}" if len(results) > 1 else "")
    n_lost = len(results[main].lost_workers)
    if n_lost:
        print(f"  {n - n_lost} of {n} workers finished")
    results[main].write_csv(folder / "curve.csv")
    points = {way: result.points for way, result in results.items()}
    draw(points if len(points) > 1 else {"": points[main]}, folder / "curve.png", options.task)
    print(f"wrote {folder}/curve.csv, curve.png")
    if not options.data:
        is_error = metric == "error"
        limit = {"at_most": goal} if is_error else {"at_least": goal}
        meet(options, f"held-out {metric}", results[main].metrics[metric], **limit)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parse(arguments)
    folder = results_folder(options, f"hogwild_sparse-{options.task}")
    return run("hogwild_sparse", options, folder, lambda: run_program(options, folder))


if __name__ == "__main__":
    sys.exit(main())
