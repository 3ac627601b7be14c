"""Start a program several times, as the ranks of a group: ``python -m shmtensor.distributed.run``.

Each process finds in its environment what ``init_process_group("shm")`` reads: RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT; and LOCAL_RANK, LOCAL_WORLD_SIZE. When a rank fails, the others are ended,
and one line names it. Options and variables are those of torch's ``torchrun``, as far as there are
any here.

Source:
    torch.distributed.run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from types import FrameType

from shmtensor.distributed._errors import DistNetworkError
from shmtensor.distributed._tcp_store import TCPStore
from shmtensor.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from shmtensor.multiprocessing import _exec_with_parent
from shmtensor.multiprocessing._exit_status import in_words

__all__ = ["get_args_parser", "main", "parse_args", "run"]

_DEFAULT_PORT = 29500
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _processes(text: str | int) -> int:
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def _machines(text: str | int) -> int:
    least, _, most = str(text).partition(":")
    if most not in ("", least):
        raise argparse.ArgumentTypeError(f"as many machines at the end as at first, got {text}")
    return int(least)


def get_args_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Source:
        torch.distributed.run.get_args_parser.
    """
    parser = argparse.ArgumentParser(
        prog="python -m shmtensor.distributed.run",
        description="Start a program several times, as the ranks of a group.",
    )

    def add(name: str, **options: object) -> None:
        names = [f"--{name}"] + ([f"--{name.replace('-', '_')}"] if "-" in name else [])
        parser.add_argument(*names, **options)  # type: ignore[arg-type]

    add(
        "nproc-per-node", type=_processes, default=1, metavar="N", help="processes; auto: one a CPU"
    )
    add("nnodes", type=_machines, default=1, metavar="N", help="machines; the backend shm has one")
    add("node-rank", type=int, default=0, metavar="N", help="the number of this machine")
    add("master-addr", default=None, metavar="HOST", help="machine 0 (127.0.0.1)")
    add(
        "master-port", type=int, default=None, metavar="PORT", help="of machine 0; any if not given"
    )
    add("standalone", action="store_true", help="one machine, any free port: the default")
    add("rdzv-backend", default="static", help="static, c10d: accepted")
    add("rdzv-endpoint", default="", metavar="HOST:PORT", help="instead of address and port")
    add("rdzv-id", default=None, help="a name for the run")
    add("max-restarts", type=int, default=0, metavar="N", help="restart all ranks up to N times")
    add("shutdown-timeout", type=float, default=5.0, metavar="S", help="from SIGTERM to SIGKILL")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    add("no-python", action="store_true", help="the program is not a Python program")
    parser.add_argument("training_script", metavar="program", help="and its arguments")
    parser.add_argument(
        "training_script_args",
        metavar="arguments",
        nargs=argparse.REMAINDER,
        help=argparse.SUPPRESS,
    )
    return parser


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of a command line.

    Args:
        args: Its words; None: those of this process.

    Source:
        torch.distributed.run.parse_args.
    """
    return get_args_parser().parse_args(args)


class _Ended(Exception):
    """A signal asks this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _raise_ended(number: int, frame: FrameType | None) -> None:
    raise _Ended(number)


class _Run:
    """The processes of this machine."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.processes: list[subprocess.Popen[bytes]] = []
        self.store: TCPStore | None = None
        self.run_id = options.rdzv_id or uuid.uuid4().hex[:12]

    def command(self) -> list[str]:
        """Return what each process executes."""
        o = self.options
        if o.no_python:
            return [o.training_script, *o.training_script_args]
        module = ["-m"] if o.module else []
        return [sys.executable, "-u", *module, o.training_script, *o.training_script_args]

    def start(self, attempt: int) -> None:
        """Start all processes."""
        o = self.options
        host, port = o.master_addr or "127.0.0.1", o.master_port
        environment = dict(os.environ)
        environment.pop("TORCHELASTIC_USE_AGENT_STORE", None)
        if port is None:
            # This process keeps the store: no other program can take the port in between.
            self.store = TCPStore(
                host, 0, None, True, timedelta(seconds=30), wait_for_workers=False
            )
            port = self.store.port
            environment["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        n = o.nproc_per_node
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // n)))
        environment.update(
            MASTER_ADDR=host,
            MASTER_PORT=str(port),
            WORLD_SIZE=str(n * o.nnodes),
            LOCAL_WORLD_SIZE=str(n),
            GROUP_RANK=str(o.node_rank),
            GROUP_WORLD_SIZE=str(o.nnodes),
            ROLE_NAME="default",
            ROLE_WORLD_SIZE=str(n * o.nnodes),
            TORCHELASTIC_RUN_ID=self.run_id,
            TORCHELASTIC_RESTART_COUNT=str(attempt),
            TORCHELASTIC_MAX_RESTARTS=str(o.max_restarts),
        )
        for local in range(n):
            rank = str(o.node_rank * n + local)
            environment.update(RANK=rank, LOCAL_RANK=str(local), ROLE_RANK=rank)
            self._start_one(environment)

    def _start_one(self, environment: dict[str, str]) -> None:
        """Start a process that is killed when this one ends.

        Raises:
            OSError: It cannot be started.
        """
        added = "" if "LC_CTYPE" in environment else "LC_CTYPE"
        reader, writer = os.pipe2(os.O_CLOEXEC)
        with open(reader, "rb") as errors, open(writer, "wb") as theirs:
            words = [str(os.getpid()), str(writer), added, *self.command()]
            command = [sys.executable, "-I", "-S", _exec_with_parent.__file__, *words]
            self.processes.append(subprocess.Popen(command, env=environment, pass_fds=(writer,)))
            theirs.close()
            error = errors.read()  # ends when the program runs
        if error:
            raise OSError(error.decode("utf-8", "replace"))

    def first_failure(self) -> tuple[int, int] | None:
        """Wait until all have ended well (None) or one has not (its rank and status)."""
        while True:
            running = False
            for local, process in enumerate(self.processes):
                status = process.poll()
                running |= status is None
                if status:
                    return self.options.node_rank * len(self.processes) + local, status
            if not running:
                return None
            time.sleep(0.02)

    def end(self, number: int = signal.SIGTERM) -> None:
        """End all processes that still run."""
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)
                    process.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + self.options.shutdown_timeout
        for process in self.processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []
        self.store = None


def _say(text: str) -> None:
    print(f"shmtensor.distributed.run: {text}", file=sys.stderr, flush=True)


def _checked(given: argparse.Namespace) -> argparse.Namespace:
    """The options with what follows from them.

    Raises:
        ValueError: Some do not fit each other, or the program.
    """
    o = argparse.Namespace(**vars(given))
    try:
        o.nproc_per_node, o.nnodes = _processes(o.nproc_per_node), _machines(o.nnodes)
    except argparse.ArgumentTypeError as error:
        raise ValueError(str(error)) from None
    o.node_rank, o.max_restarts = int(o.node_rank), int(o.max_restarts)
    o.master_port = None if o.master_port is None else int(o.master_port)
    if o.standalone:
        o.nnodes, o.node_rank, o.master_addr, o.master_port = 1, 0, None, None
        o.rdzv_endpoint = ""
    if o.rdzv_endpoint and o.master_port is None:
        host, _, port = o.rdzv_endpoint.rpartition(":")
        if not port.isdigit():
            host, port = o.rdzv_endpoint, str(_DEFAULT_PORT)
        o.master_addr, o.master_port = host or "127.0.0.1", int(port)
    if o.nnodes < 1 or not 0 <= o.node_rank < o.nnodes:
        raise ValueError(f"--node-rank {o.node_rank} of --nnodes {o.nnodes}")
    if o.nnodes > 1 and o.master_port is None:
        o.master_port = _DEFAULT_PORT
    if o.nnodes > 1 and o.master_addr is None:
        raise ValueError("--nnodes above 1 needs --master-addr")
    if not o.module and not o.no_python and not os.path.exists(o.training_script):
        raise ValueError(f"there is no program {o.training_script}")
    return o


class _Failed(Exception):
    """A rank has failed for the last time."""

    def __init__(self, failure: ProcessFailure, rank: int) -> None:
        super().__init__(rank)
        self.failure = failure
        self.rank = rank


def _supervise(run: _Run) -> None:
    """Run all ranks to their ends, as often as the options allow.

    Raises:
        _Failed: One has failed.
        _Ended: A signal has ended the run.
        OSError, DistNetworkError: The program cannot be started.
    """
    options = run.options
    for number in _SIGNALS:
        signal.signal(number, _raise_ended)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide the statuses
    attempt = 0
    try:
        while True:
            run.start(attempt)
            found = run.first_failure()
            if found is None:
                return
            rank, status = found
            local = rank - options.node_rank * len(run.processes)
            failure = ProcessFailure(local, run.processes[local].pid, status, "<N/A>")
            text = f"rank {rank} (pid {failure.pid}) {in_words(status)}"
            if attempt >= options.max_restarts:
                _say(f"{text}; the other ranks are ended")
                raise _Failed(failure, rank)
            attempt += 1
            _say(f"{text}; all ranks start again ({attempt} of {options.max_restarts})")
            run.end()
    except _Ended as ended:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        run.end(ended.number)
        raise
    except BaseException:
        run.end()
        raise


def run(args: argparse.Namespace) -> None:
    """Start the ranks that options ask for, and wait until all have ended.

    Args:
        args: From `get_args_parser`; numbers may be texts.

    Raises:
        ChildFailedError: A rank has failed.
        ValueError: Some options do not fit each other, or the program.
        SystemExit: A signal has ended the run; the status is 128 and its number.
        OSError, DistNetworkError: The program cannot be started.

    Source:
        torch.distributed.run.run.
    """
    started = _Run(_checked(args))
    numbers = (*_SIGNALS, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers]
    try:
        _supervise(started)
    except _Failed as failed:
        raise ChildFailedError(args.training_script, {failed.rank: failed.failure}) from None
    except _Ended as ended:
        raise SystemExit(128 + ended.number) from None
    finally:
        for number, handler in zip(numbers, before, strict=True):
            if handler is not None:  # set by Python
                signal.signal(number, handler)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0: all ranks have ended with 0; 1: one has failed; 2: bad options; 128 and the signal's
        number: a signal has ended the run.
    """
    parser = get_args_parser()
    try:
        options = _checked(parser.parse_args(arguments))
    except ValueError as error:
        parser.error(str(error))
    try:
        _supervise(_Run(options))
    except _Failed:
        return 1
    except _Ended as ended:
        return 128 + ended.number
    except (OSError, DistNetworkError) as error:
        _say(f"the program cannot be started: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
