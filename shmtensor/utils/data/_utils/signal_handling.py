"""Signals of worker processes: reports of crashes and hangs.

When a worker crashes or does not answer, its signal handlers write the traceback to its `Report`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import time
from collections.abc import Iterator

from shmtensor.multiprocessing._children import Child
from shmtensor.multiprocessing._exit_status import in_words
from shmtensor.multiprocessing._report import Report

__all__ = ["ask", "describe_exit", "interrupts_blocked", "prepare_worker", "traceback_in"]

#: Has a worker write its traceback. The C library keeps the first real-time signals for itself.
_DUMP_SIGNAL = signal.SIGRTMIN + 5
_ANSWER_S = 0.5
#: The function that a worker's process runs.
_OUTERMOST = "_worker_loop"


def traceback_in(report: Report) -> str:
    """Return the traceback in a report, without the frames of the worker's parent."""
    return _of_worker(report.text())


def ask(report: Report, child: Child) -> str:
    """Return the present traceback of the process of the report; empty: unknown."""
    report.clear()
    child.send_signal(_DUMP_SIGNAL)
    deadline = time.monotonic() + _ANSWER_S
    text = ""
    while time.monotonic() < deadline:
        time.sleep(0.02)
        before, text = text, traceback_in(report)
        if text and text == before:
            break
    return text


def _of_worker(trace: str) -> str:
    """Remove the frames below the worker's own: a forked worker also has those of its parent."""
    kept = []
    is_below = False
    for line in trace.partition("\nExtension modules:")[0].splitlines():
        if not line.startswith("  "):
            is_below = False
        if not is_below:
            kept.append(line)
        is_below |= line.endswith(f"in {_OUTERMOST}")
    return "\n".join(kept).strip()


def prepare_worker(report: Report) -> None:
    """Set up this worker process's signals.

    Args:
        report: Gets the traceback when the process crashes, or on request.
    """
    # A forked worker inherits signal handlers, and a descriptor that an event loop reads.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    faulthandler.enable(report.fileno(), all_threads=True)
    faulthandler.register(_DUMP_SIGNAL, report.fileno(), all_threads=True, chain=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Delay SIGINT in a process that is started in the block, until it is prepared.

    In this process, SIGINT is delayed until the block ends.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def describe_exit(pid: int, exitcode: int | None) -> str:
    """Return how a worker ended, in torch's words."""
    if exitcode is not None and exitcode < 0:
        name = signal.strsignal(-exitcode) or f"Unknown signal {-exitcode}"
        text = f"DataLoader worker (pid {pid}) is killed by signal: {name}. "
        if -exitcode == signal.SIGBUS:
            text += (
                "It is possible that dataloader's workers are out of shared memory. "
                "Please try to raise your shared memory limit."
            )
        return text
    how = in_words(None) if exitcode is None else f"exited unexpectedly with exit code {exitcode}"
    return (
        f"DataLoader worker (pid {pid}) {how}. "
        "Details are lost due to multiprocessing. "
        "Rerunning with num_workers=0 may give better error trace."
    )
