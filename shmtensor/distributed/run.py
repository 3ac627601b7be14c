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
from shmtensor.multiprocessing import _exec_with_parent
from shmtensor.multiprocessing._exit_status import in_words

__all__ = ["main"]

_DEFAULT_PORT = 29500


def _processes(text: str) -> int:
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def _parser() -> argparse.ArgumentParser:
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
    add("nnodes", type=int, default=1, metavar="N", help="machines; the backend shm has one")
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
    parser.add_argument("program", help="the program, and its arguments")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


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
            return [o.program, *o.arguments]
        return [sys.executable, "-u", *(["-m"] if o.module else []), o.program, *o.arguments]

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


def _check(parser: argparse.ArgumentParser, o: argparse.Namespace) -> None:
    if o.standalone:
        o.nnodes, o.node_rank, o.master_addr, o.master_port = 1, 0, None, None
        o.rdzv_endpoint = ""
    if o.rdzv_endpoint and o.master_port is None:
        host, _, port = o.rdzv_endpoint.rpartition(":")
        if not port.isdigit():
            host, port = o.rdzv_endpoint, str(_DEFAULT_PORT)
        o.master_addr, o.master_port = host or "127.0.0.1", int(port)
    if o.nnodes < 1 or not 0 <= o.node_rank < o.nnodes:
        parser.error(f"--node-rank {o.node_rank} of --nnodes {o.nnodes}")
    if o.nnodes > 1 and o.master_port is None:
        o.master_port = _DEFAULT_PORT
    if o.nnodes > 1 and o.master_addr is None:
        parser.error("--nnodes above 1 needs --master-addr")
    if not o.module and not o.no_python and not os.path.exists(o.program):
        parser.error(f"there is no program {o.program}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0: all ranks have ended with 0; 1: one has failed; 2: bad options; 128 and the signal's
        number: a signal has ended the run.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _raise_ended)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide the statuses
    run = _Run(options)
    attempt = 0
    try:
        while True:
            run.start(attempt)
            failure = run.first_failure()
            if failure is None:
                return 0
            rank, status = failure
            local = rank - options.node_rank * len(run.processes)
            text = f"rank {rank} (pid {run.processes[local].pid}) {in_words(status)}"
            if attempt >= options.max_restarts:
                _say(f"{text}; the other ranks are ended")
                run.end()
                return 1
            attempt += 1
            _say(f"{text}; all ranks start again ({attempt} of {options.max_restarts})")
            run.end()
    except _Ended as ended:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        run.end(ended.number)
        return 128 + ended.number
    except (OSError, DistNetworkError) as error:
        _say(f"the program cannot be started: {error}")
        run.end()
        return 2


if __name__ == "__main__":
    sys.exit(main())
