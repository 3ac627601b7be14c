"""Train with a parameter server: it owns the parameters, workers pull versions and push gradients.

    python examples/parameter_server.py                         # two workers
    python examples/parameter_server.py --workers 4 --staleness 2
    python examples/parameter_server.py --slow-ms 5             # worker 0 is slow; the others wait
    python examples/parameter_server.py --resume runs/parameter-server-…

The server publishes each version of the parameters in a service of shared memory; workers attach
the newest one, read-only and without a copy, and send gradients through a queue, as handles. The
server applies them one after the other. The staleness of a gradient is the number of versions that
came since its worker pulled. Two rules bound it (stale synchronous parallel): a worker more than
--staleness gradients ahead of the slowest one waits, and the server refuses a gradient that is
staler than that. The staler a gradient, the smaller its step: with full steps and momentum, a few
seconds in which all gradients are as stale as they may be throw the model back.

If a worker dies, the program reports it, and the others continue. If the server dies, everything
ends with one line, and --resume continues from its checkpoint. The program writes curve.csv,
staleness.csv and curve.png. On digits the model reaches 95 % held-out accuracy.

Sources: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter
server", 2013; Zhang et al., "Staleness-aware async-SGD for distributed deep learning", 2016.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Full
from typing import Any

from common import checkpoints
from common.data import Dataset, load
from common.models import build, library
from common.parameters import Board, Exchange, Run, watch, write_files
from common.program import (
    above_zero,
    add_run_options,
    meet,
    positive,
    results_folder,
    run,
)

import shmtensor
from shmtensor.service import Service
from shmtensor.utils.safetensors import save_file

GOAL = 0.95  # held-out accuracy on the digits
EPOCHS, QUICK_EPOCHS = 120, 60
PROGRAM, NAME = "parameter_server", "parameters"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="A server owns the parameters; workers pull versions and push gradients, with "
        f"a bound on staleness. The digits reach {GOAL:.0%} held-out accuracy, also with --quick."
    )
    parser.add_argument("--staleness", type=int, help="bound, in versions (2 for each worker)")
    parser.add_argument("--slow-ms", type=float, default=0.0, help="worker 0 sleeps in each step")
    parser.add_argument("--epochs", type=positive, help=f"passes over the data ({EPOCHS})")
    parser.add_argument("--batch", type=positive, default=32, help="examples of a gradient (32)")
    parser.add_argument("--lr", type=above_zero, default=0.03, help="step, if it is fresh (0.03)")
    parser.add_argument("--momentum", type=float, default=0.9, help="of the server's SGD (0.9)")
    parser.add_argument("--data", type=Path, help="IDX, .npz or .csv instead of the digits")
    parser.add_argument("--service", help="name of the service (parameters-<process id>)")
    add_run_options(parser)
    options = parser.parse_args(arguments)
    if options.staleness is None:
        options.staleness = 2 * options.workers
    for name, is_good in (
        ("staleness", options.staleness >= 0),
        ("slow_ms", 0 <= options.slow_ms < 1e6),
        ("momentum", 0 <= options.momentum < 1),
    ):
        if not is_good:
            parser.error(f"--{name.replace('_', '-')} is out of range: {getattr(options, name)}")
    options.epochs = options.epochs or (QUICK_EPOCHS if options.quick else EPOCHS)
    options.service = options.service or f"parameters-{os.getpid()}"
    return options


class Versions:
    """Versions of the parameters in a service: the server publishes, workers attach."""

    def __init__(self, service: str) -> None:
        self._service = Service(service, start=True)

    def check_is_free(self, service: str) -> None:
        """See that nobody else publishes here.

        Raises:
            ValueError: Somebody does.
        """
        entry = self._service.list().get(NAME)
        if entry is not None:
            raise ValueError(
                f"the service {service!r} is in use: process {entry.pid} publishes in it"
            )

    def publish(self, number: int, model: Any) -> None:
        """Publish the parameters of *model* as the newest version."""
        self._service.publish(NAME, {"number": number, "parameters": model.state_dict()})

    def pull(self, model: Any, timeout: float) -> int:
        """Have *model* use the newest version where it lies; returns its number.

        Raises:
            TimeoutError: There is none.
        """
        found = self._service.wait_newer(NAME, 0, timeout)
        model.load_state_dict(found.value["parameters"], assign=True)
        return int(found.value["number"])


def serve(exchange: Exchange, open_versions: Callable[[], Any]) -> None:
    """Be the server: apply gradients, publish versions, write checkpoints."""
    options, board, lib = exchange.options, Board(exchange.board), library(exchange.library)
    lib.core.set_num_threads(1)
    lib.core.manual_seed(options.seed)
    model = exchange.make_model()
    optimizer = lib.optim.SGD(model.parameters(), lr=options.lr, momentum=options.momentum)
    number, seconds_before, points = 0, 0.0, []
    if exchange.state is not None:
        model.load_state_dict(exchange.state["model"])
        optimizer.load_state_dict(exchange.state["optimizer"])
        number, seconds_before = exchange.state["number"], exchange.state["seconds"]
        points = exchange.state["points"]
        board.load_figures(exchange.state["figures"])
    versions = open_versions()
    versions.publish(number, model)
    began = saved_at = time.monotonic()

    def save() -> None:
        if exchange.folder is None:
            return
        while not exchange.points.empty():
            points.append(exchange.points.get())
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "number": number,
            "seconds": seconds_before + time.monotonic() - began,
            "points": points,
            "figures": board.figures(),
        }
        checkpoints.write(exchange.folder, PROGRAM, exchange.settings, state)

    while number < exchange.n_updates and not board.is_stopped:
        try:
            rank, of_version, gradients, loss = exchange.gradients.get(timeout=0.1)
        except Empty:
            continue
        staleness = number - of_version
        if staleness > options.staleness:
            board.count_refused(rank)
            continue
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient / (1 + staleness)
        optimizer.step()
        board.count_applied(staleness, loss)
        number += 1
        versions.publish(number, model)
        if time.monotonic() - saved_at >= options.checkpoint_every:
            save()
            saved_at = time.monotonic()
    board.stop()
    save()
    exchange.result.put({name: tensor.numpy() for name, tensor in model.state_dict().items()})


def work(rank: int, exchange: Exchange, open_versions: Callable[[], Any]) -> None:
    """Be worker *rank*: pull a version, push the gradient of a batch."""
    options, board, lib = exchange.options, Board(exchange.board), library(exchange.library)
    lib.core.set_num_threads(1)
    lib.core.manual_seed(options.seed * 1_000_003 + rank)
    images, labels = exchange.data
    model, versions = exchange.make_model(), open_versions()
    while not board.is_stopped:
        while board.lead(rank) > options.staleness and not board.is_stopped:
            board.wait(rank)
        try:
            version = versions.pull(model, timeout=0.2)
        except TimeoutError:  # the server begins, or has ended
            continue
        chosen = lib.core.randint(0, len(labels), (options.batch,))
        scores = model(images.index_select(0, chosen))
        loss = lib.nn.functional.cross_entropy(scores, labels.index_select(0, chosen))
        gradients = lib.core.autograd.grad(loss, list(model.parameters()))
        if rank == 0 and options.slow_ms:
            time.sleep(options.slow_ms / 1e3)
        while not board.is_stopped:
            try:
                exchange.gradients.put((rank, version, gradients, loss.item()), timeout=0.1)
            except Full:
                continue
            board.count_pushed(rank)
            break
    exchange.gradients.cancel_join_thread()  # what nobody reads any more may be dropped


def in_a_service(options: argparse.Namespace, *_: Any) -> Callable[[], Any]:
    """What opens the versions of the parameters in another process."""
    Versions(options.service).check_is_free(options.service)
    return functools.partial(Versions, options.service)


def train(
    name: str,
    options: argparse.Namespace,
    data: Dataset,
    folder: Path | None,
    state: Any,
    make_versions: Callable[..., Callable[[], Any]] = in_a_service,
) -> Run:
    """Train with shmtensor, or with another library and its way to share versions."""
    lib = library(name)
    lib.core.manual_seed(options.seed)
    context = lib.multiprocessing.get_context(options.start_method)
    train_x, train_y, *held_out = map(lib.core.from_numpy, dataclasses.astuple(data)[1:])
    make_model = functools.partial(build, name, "mlp", data.image_shape, data.n_classes)
    open_versions = make_versions(options, context, make_model)
    exchange = Exchange(
        options=options,
        library=name,
        make_model=make_model,
        data=(train_x.share_memory_(), train_y.share_memory_()),
        gradients=context.Queue(options.workers),
        points=context.Queue(),
        result=context.Queue(),
        board=Board.make(lib.core, options.workers, options.staleness),
        n_updates=-(-len(train_y) * options.epochs // options.batch),
        folder=folder,
        settings=settings_of(options, data),
        state=state,
    )
    return watch(exchange, context, held_out, open_versions, serve, work)


def settings_of(options: argparse.Namespace, data: Dataset) -> dict[str, Any]:
    """What a run that goes on has in common with the one before."""
    shape = [*data.image_shape, data.n_classes]
    return {"seed": options.seed, "batch": options.batch, "shape": shape}


def print_summary(result: Run) -> None:
    """One line about a run."""
    accuracy, board = result.points[-1].metrics["accuracy"], result.board
    print(
        f"held-out accuracy {accuracy:.4f}   {board.applied} updates in "
        f"{result.seconds:.2f} s = {result.rate:.0f}/s   staleness {board.mean_staleness:.2f}, "
        f"{board.refused.sum()} gradients refused"
    )


def run_program(options: argparse.Namespace, folder: Path) -> None:
    """Train, write, and say what came out."""
    data = load(options.data, options.seed)
    state = None
    if options.resume:
        state = checkpoints.read(folder, PROGRAM, settings_of(options, data))
    result = train("shmtensor", options, data, folder, state)
    title = f"Parameter server, {options.workers} workers, staleness at most {options.staleness}"
    written = write_files(folder, result, title)
    save_file(
        {name: shmtensor.from_numpy(array) for name, array in result.parameters.items()},
        folder / "model.safetensors",
    )
    print_summary(result)
    if result.n_lost:
        print(f"  {options.workers - result.n_lost} of {options.workers} workers finished")
    print("wrote " + ", ".join(str(path) for path in (*written, folder / "model.safetensors")))
    if options.data is None:
        accuracy = result.points[-1].metrics["accuracy"]
        meet(options, "held-out accuracy", accuracy, at_least=GOAL)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parse(arguments)
    folder = results_folder(options, "parameter-server")
    return run(PROGRAM, options, folder, lambda: run_program(options, folder))


if __name__ == "__main__":
    sys.exit(main())
