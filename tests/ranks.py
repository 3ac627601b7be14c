"""Run a function as the ranks of a group, each in a process of its own."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import socket
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import waiting

import shmtensor
from shmtensor import distributed

LIMIT_S = 60.0


def _main(
    rank: int,
    size: int,
    port: int,
    timeout_s: float,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    answer: Connection,
    listener: int,
) -> None:
    # What a rank that hangs is doing stands in the output of the test.
    faulthandler.dump_traceback_later(LIMIT_S - 10, file=sys.__stderr__)
    if listener >= 0:
        os.close(listener)
    try:
        limit = timedelta(seconds=timeout_s)
        store = distributed.TCPStore("127.0.0.1", port, None, False, limit)
        distributed.init_process_group(
            "shm", store=store, rank=rank, world_size=size, timeout=limit
        )
        answer.send((True, function(rank, size, *arguments)))
        if distributed.is_initialized():
            distributed.destroy_process_group()
    except BaseException:
        answer.send((False, traceback.format_exc()))
    faulthandler.cancel_dump_traceback_later()


class Ranks:
    """The processes of a group; a context manager that leaves none behind."""

    def __init__(
        self,
        size: int,
        function: Callable[..., Any],
        *arguments: Any,
        timeout_s: float = 30.0,
        method: str = "fork",
    ) -> None:
        # The store's thread starts after the forks: they copy no lock that it holds.
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        port = listener.getsockname()[1]
        inherited = listener.fileno() if method == "fork" else -1
        context = multiprocessing.get_context(method)
        self.processes: list[BaseProcess] = []
        self._answers: list[Connection] = []
        for rank in range(size):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(  # type: ignore[attr-defined]
                target=_main,
                args=(rank, size, port, timeout_s, function, arguments, theirs, inherited),
            )
            process.start()
            theirs.close()
            self.processes.append(process)
            self._answers.append(ours)
        self._store = distributed.TCPStore(
            "127.0.0.1",
            port,
            None,
            True,
            timedelta(seconds=30),
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )

    def answer(self, rank: int) -> Any:
        """What the function has returned on a rank.

        Raises:
            AssertionError: It has raised, or its process has ended.
        """
        assert self._answers[rank].poll(LIMIT_S), f"rank {rank} does not answer"
        went_well, value = self._answers[rank].recv()
        assert went_well, f"rank {rank}:\n{value}"
        return value

    def answers(self) -> list[Any]:
        """What the function has returned, by rank."""
        return [self.answer(rank) for rank in range(len(self.processes))]

    def kill(self, rank: int) -> None:
        """End a rank with SIGKILL."""
        self.processes[rank].kill()
        self.processes[rank].join(LIMIT_S)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.join(5.0)
            if process.is_alive():
                process.kill()
                process.join(LIMIT_S)
            process.close()
        for answer in self._answers:
            answer.close()
        assert self._store._server is not None
        thread = self._store._server._thread.native_id
        del self._store
        # Python has joined the thread before it has ended. While it ends it has locks of a
        # sanitizer's malloc, and a child that is forked then would wait for them for ever.
        waiting.until(lambda: not os.path.exists(f"/proc/self/task/{thread}"))


def run(size: int, function: Callable[..., Any], *arguments: Any, **options: Any) -> list[Any]:
    """Run a function on all ranks and return what it returns on each."""
    with Ranks(size, function, *arguments, **options) as ranks:
        return ranks.answers()


def sum_of_ranks(rank: int, size: int) -> float:
    """For ranks that are spawned, which import it."""
    x = shmtensor.tensor([rank + 1.0])
    distributed.all_reduce(x)
    return x.item()
