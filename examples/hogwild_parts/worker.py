"""What one worker process does.

``board`` is a shared tensor with a row for each worker; a worker writes its own row only, the
parent reads them all. No other message passes between the processes while they train.
"""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from typing import Any

from hogwild_parts.models import library
from hogwild_parts.settings import Settings

# Columns of the board.
STEPS, LOSS, STARTED, FINISHED, N_COLUMNS = 0, 1, 2, 3, 4

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel end this process when its parent ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if not parent.is_alive():
        os._exit(1)  # it died before the line above
    if parent.pid != os.getppid():
        # A fork server stands between, and lives as long as we do: watch the pipe instead.
        threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()


def _die_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def work(
    rank: int, name: str, settings: Settings, model: Any, images: Any, labels: Any, board: Any
) -> None:
    """Train the shared *model* for this worker's number of steps.

    Args:
        rank: Number of this worker.
        name: ``shmtensor`` or ``torch``.
        settings: Options of the run.
        model: Its parameters are in shared memory.
        images: ``(N, C, H, W)`` in shared memory.
        labels: ``(N,)`` in shared memory.
        board: ``(workers, N_COLUMNS)`` float64 in shared memory.
    """
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    lib = library(name)
    generator = lib.core.Generator()
    generator.manual_seed(settings.seed * 1000 + rank)
    lib.core.manual_seed(settings.seed * 1000 + rank)
    loss_of = lib.nn.CrossEntropyLoss()
    optimizer = lib.optim.SGD(model.parameters(), lr=settings.lr, momentum=settings.momentum)
    n_examples = len(labels)
    n_steps = settings.steps_per_worker(n_examples)
    smooth = 0.0
    order: Any = None
    at = n_examples
    began = time.monotonic()
    ends_at = math.inf if settings.seconds is None else began + settings.seconds
    board[rank, STARTED] = began
    for step in range(1, n_steps + 1):
        if at >= n_examples:
            order = lib.core.randperm(n_examples, generator=generator)
            at = 0
        chosen = order[at : at + settings.batch]
        at += settings.batch
        optimizer.zero_grad()
        loss = loss_of(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        value = loss.item()
        smooth = value if step == 1 else 0.95 * smooth + 0.05 * value
        board[rank, LOSS] = smooth
        board[rank, STEPS] = step
        if time.monotonic() >= ends_at:
            break
    board[rank, FINISHED] = time.monotonic()
