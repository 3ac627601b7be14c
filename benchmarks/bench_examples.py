"""An example program beside the same lines on torch: how fast each is, and what it reaches.

Run ``python benchmarks/bench_examples.py PROGRAM [OPTIONS]`` where torch is installed. PROGRAM is
the name of a demonstration in examples/, without ``.py``; OPTIONS are its own, such as ``--quick``
or ``--workers 4``. The two train one after the other. Nothing is written.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import torch_hogwild
import torch_parameters
import torch_serving
from common.data import load
from common.program import run_arguments

from shmtensor import hogwild


@dataclass(frozen=True)
class Figures:
    """What one side did: its speed, and what it reached."""

    rate: float
    unit: str
    reached: str


Compared = dict[str, Figures]

TRAINERS = {"shmtensor": hogwild.run, "torch": torch_hogwild.run}


def _of_steps(result: Any) -> Figures:
    reached = "  ".join(f"{name} {value:.4f}" for name, value in result.metrics.items())
    return Figures(result.steps_per_second, "steps/s", reached)


def _with_data(program: Any, options: argparse.Namespace, data: Any) -> Compared:
    return {
        name: _of_steps(program.train(name, options, data, None, trainer))
        for name, trainer in TRAINERS.items()
    }


def compare_hogwild(program: Any, options: argparse.Namespace) -> Compared:
    """Train an MLP or a CNN."""
    return _with_data(program, options, load(options.data, options.seed))


def compare_read(program: Any, options: argparse.Namespace) -> Compared:
    """Train on what the program reads."""
    return _with_data(program, options, program.read(options))


def compare_actor_learner(program: Any, options: argparse.Namespace) -> Compared:
    """Let a policy learn."""
    return {
        name: _of_steps(program.train(name, options, None, trainer))
        for name, trainer in TRAINERS.items()
    }


def compare_hogwild_sparse(program: Any, options: argparse.Namespace) -> Compared:
    """Take sparse steps, without locks."""
    data, arguments = program.read(options), run_arguments(options, None)
    return {
        name: _of_steps(
            program.train(name, options, data, options.workers, None, arguments, trainer)
        )
        for name, trainer in TRAINERS.items()
    }


def compare_data_parallel(program: Any, options: argparse.Namespace) -> Compared:
    """Average gradients: by shmtensor's all-reduce, by gloo."""
    data = load(options.data, options.seed)
    figures = {}
    for name in TRAINERS:
        outcome = program.train(name, options, data, None)
        accuracy = outcome.points[-1].metrics["accuracy"]
        figures[name] = Figures(outcome.steps_per_second, "steps/s", f"accuracy {accuracy:.4f}")
    return figures


def compare_parameter_server(program: Any, options: argparse.Namespace) -> Compared:
    """Publish versions in a service; copy them under a lock."""
    data = load(options.data, options.seed)
    ways = {"shmtensor": program.in_a_service, "torch": torch_parameters.under_a_lock}
    figures = {}
    for name, make_versions in ways.items():
        run = program.train(name, options, data, None, None, make_versions)
        accuracy = run.points[-1].metrics["accuracy"]
        figures[name] = Figures(run.rate, "updates/s", f"accuracy {accuracy:.4f}")
    return figures


def compare_inference_server(program: Any, options: argparse.Namespace) -> Compared:
    """Answer requests; torch's workers serve the last version alone."""
    with tempfile.TemporaryDirectory() as folder:
        data = load(None, options.seed)
        log, _, versions, arrays = program.measure(options, Path(folder), data)
    model = program.make_model(options.width, "torch")
    theirs = torch_serving.serve_with_torch(options, model, versions, arrays)
    return {
        name: Figures(log.rate, "answers/s", f"99th percentile {log.percentiles_ms()[2]:.2f} ms")
        for name, log in {"shmtensor": log, "torch": theirs}.items()
    }


def compare_image_pipeline(program: Any, options: argparse.Namespace) -> Compared:
    """Load batches that are dropped: the best of passes taken in turn; then train."""
    data = program.load_pictures(options.data, options.seed, options.size)
    loaders = {n: program.make_loader(n, options, data[0], options.seed) for n in TRAINERS}
    rates = dict.fromkeys(loaders, 0.0)
    for i in range(3 if options.quick else 6):
        for name, loader in loaders.items():
            began = time.monotonic()
            n = sum(1 for _ in loader)
            if i:  # the first pass starts the workers
                rates[name] = max(rates[name], n / (time.monotonic() - began))
    del loader, loaders
    figures = {}
    for name, rate in rates.items():
        training = program.Training(name, name, options, data)
        training.run(None)
        figures[name] = Figures(rate, "batches/s", f"accuracy {training.accuracy():.4f}")
    return figures


PROGRAMS: dict[str, Callable[[Any, argparse.Namespace], Compared]] = {
    "actor_learner": compare_actor_learner,
    "char_lm": compare_read,
    "data_parallel": compare_data_parallel,
    "hogwild": compare_hogwild,
    "hogwild_sparse": compare_hogwild_sparse,
    "image_pipeline": compare_image_pipeline,
    "inference_server": compare_inference_server,
    "parameter_server": compare_parameter_server,
    "word_vectors": compare_read,
}


def main() -> None:
    """Run both sides and print a line about each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the program")
    arguments = parser.parse_args()
    program = importlib.import_module(arguments.program)
    options = program.parse(arguments.options)
    if options.resume:
        parser.error("a comparison goes on from no earlier run: leave out --resume")
    figures = PROGRAMS[arguments.program](program, options)
    for name, side in figures.items():
        print(f"{name:10} {side.rate:10.1f} {side.unit}  {side.reached}")
    print(f"shmtensor: {figures['shmtensor'].rate / figures['torch'].rate:.1f} times torch's")


if __name__ == "__main__":
    main()
