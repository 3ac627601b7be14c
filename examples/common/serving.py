"""An inference server's parent: it starts workers and clients, and replaces workers that die."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from typing import Any

from common.load import Log
from common.processes import Team
from common.progress import Progress

__all__ = ["Jobs", "Server"]

_MAX_LOST = 20  # processes that may die; more than that have a common cause


@dataclasses.dataclass
class Jobs:
    """What the processes of a server do, and how the parent talks to them.

    Attributes:
        worker: What a worker calls, and its arguments.
        client: What a client calls, and its arguments, which its number follows.
        take_reports: Waits so many seconds for reports of clients, arguments of `Log.add`.
        stop_asking: Tells clients to end, when their requests are answered.
        stop_serving: Tells workers to end.
    """

    worker: tuple[Any, ...]
    client: tuple[Any, ...]
    take_reports: Callable[[float], list[tuple[int, Any, dict[str, int]]]]
    stop_asking: Callable[[], object]
    stop_serving: Callable[[], object]


class Server:
    """The parent's side: starts workers and clients, and looks after them.

    Args:
        options: Of the command line.
        name: shmtensor or torch.
        jobs: What they do.
        context: To start processes with.
    """

    def __init__(self, options: argparse.Namespace, name: str, jobs: Jobs, context: Any) -> None:
        self._options, self._jobs = options, jobs
        self._team = Team(context)
        self._n_lost = 0
        columns = ("process", "pid", "answers got")
        self._progress = Progress(options, f"inference server, {name}", columns)
        for rank in range(options.workers):
            self._team.start("worker", rank, *jobs.worker)
        self._progress.name_workers([worker.pid for worker in self._team.of("worker")])
        for rank in range(options.clients):
            self._team.start("client", rank, *jobs.client, rank)

    def run(self, log: Log, tick: Callable[[float], str]) -> None:
        """Serve until the time is over and all requests are answered.

        Args:
            log: Takes what the clients report.
            tick: Called now and then with the seconds; returns what is to be said.
        """
        before, began = log.seconds, float("inf")  # the time begins with the first answer
        n_before = log.n_answers
        try:
            while any(client.is_running for client in self._team.of("client")):
                now = time.monotonic()
                if log.n_answers > n_before:
                    began = min(began, now)
                seconds = before + max(0.0, now - began)
                if seconds >= self._options.seconds:
                    self._jobs.stop_asking()
                if text := tick(seconds):
                    self._progress.say(text)
                self._take_reports(log, 0.05)
                self._look_after_processes()
                if seconds - log.seconds > 0.1:
                    log.end_window(seconds)
                    self._show(log)
            seconds = before + max(0.0, time.monotonic() - began)
            while self._take_reports(log, 0.1):
                pass
            log.end_window(seconds)
            self._show(log, now=True)
            self._jobs.stop_serving()
            for worker in self._team.of("worker"):
                worker.process.join(5)
        finally:
            self._progress.end()
            self._team.end()

    def _take_reports(self, log: Log, timeout: float) -> bool:
        reports = self._jobs.take_reports(timeout)
        for report in reports:
            log.add(*report)
        return bool(reports)

    def _look_after_processes(self) -> None:
        for lost in self._team.newly_lost():
            self._n_lost += 1
            if lost.role == "client":
                self._progress.say(f"{lost} {lost.end}; its open requests are dropped")
                if not any(client.is_running for client in self._team.of("client")):
                    raise RuntimeError("all clients died")
                continue
            if self._n_lost > _MAX_LOST:
                raise RuntimeError(f"{lost} {lost.end}, as {_MAX_LOST} processes before it")
            again = self._team.start_again(lost)
            self._progress.say(f"{lost} {lost.end}; process {again.pid} takes its place")

    def _show(self, log: Log, *, now: bool = False) -> None:
        if not log.windows:
            return
        _, _, p50, p90, p99, accuracy, version = log.windows[-1]
        caption = (
            f"{log.seconds:6.1f} s  {log.rate:.0f}/s  50/90/99 %: {p50:.2f} {p90:.2f} {p99:.2f} ms"
            f"  v{version + 1:.0f} {accuracy:.3f} right  asked again {log.counts['asked_again']}"
        )
        rows = []
        for member in (*self._team.of("worker"), *self._team.of("client")):
            got = str(log.by_client.get(member.rank, 0)) if member.role == "client" else ""
            rows.append((f"{member.role} {member.rank}", str(member.pid), got))
        self._progress.show(caption, rows if not self._options.plain else (), now=now)
