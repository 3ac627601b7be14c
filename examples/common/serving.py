"""An inference server's parent: it starts workers and clients, and replaces workers that die."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from queue import Empty
from typing import Any

from common.load import N_ORDERS, STOP_ASKING, STOP_SERVING, Log, Traffic, ask
from common.models import library
from common.processes import Team
from common.progress import Progress

__all__ = ["Server", "traffic_of"]

_MAX_LOST = 20  # processes that may die; more than that have a common cause


def traffic_of(
    options: argparse.Namespace, name: str, make_queue: Callable[[], Any], *arrays: Any
) -> Traffic:
    """Make queues and shared tensors for workers and clients of a library."""
    core = library(name).core
    images, labels, expected = arrays
    return Traffic(
        requests=make_queue(),
        replies=[make_queue() for _ in range(options.clients)],
        reports=make_queue(),
        orders=core.zeros(N_ORDERS, dtype=core.int64).share_memory_(),
        images=core.from_numpy(images).share_memory_(),
        labels=labels,
        expected=expected,
        in_flight=options.in_flight,
        max_batch=options.max_batch,
        max_delay_s=options.max_delay_ms / 1e3,
        ask_again_s=0.5,
        give_up_s=10.0,
        seed=options.seed,
    )


class Server:
    """The parent's side: starts workers and clients, and looks after them.

    Args:
        options: Of the command line.
        name: shmtensor or torch.
        traffic: What they share.
        serve: What a worker does, ``serve(traffic, open_model, name)``.
        open_model: What a worker calls to get at the model.
        context: To start processes with.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        name: str,
        traffic: Traffic,
        serve: Callable[..., None],
        open_model: Callable[[], Any],
        context: Any,
    ) -> None:
        self._options, self._traffic, self._orders = options, traffic, traffic.orders.numpy()
        self._team = Team(context)
        self._n_lost = 0
        columns = ("process", "pid", "answers got")
        self._progress = Progress(options, f"inference server, {name}", columns)
        for rank in range(options.workers):
            self._team.start("worker", rank, serve, traffic, open_model, name)
        self._progress.name_workers([worker.pid for worker in self._team.of("worker")])
        for rank in range(options.clients):
            self._team.start("client", rank, ask, rank, traffic)

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
                self._orders[STOP_ASKING] = seconds >= self._options.seconds
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
            self._orders[STOP_SERVING] = 1
            for worker in self._team.of("worker"):
                worker.process.join(5)
        finally:
            self._progress.end()
            self._team.end()

    def _take_reports(self, log: Log, timeout: float) -> bool:
        try:
            for client, records, counts in self._traffic.reports.get_many(100, timeout):
                log.add(client, records, counts)
        except Empty:
            return False
        return True

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
