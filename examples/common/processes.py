"""Processes of a program: started, watched, and ended with it, however it ends."""

from __future__ import annotations

import dataclasses
import multiprocessing
import signal
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor.multiprocessing import end_with_parent

__all__ = ["Member", "Team", "child_pids"]


def _work(target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what it means
    shmtensor.set_num_threads(1)
    target(*arguments)


@dataclasses.dataclass
class Member:
    """One process: its role, its number in that role, and how to start it again."""

    role: str
    rank: int
    target: Callable[..., None]
    arguments: tuple[Any, ...]
    process: Any
    is_done: bool = False  # its end was seen

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(self.process.pid)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.exitcode is None

    def __str__(self) -> str:
        return f"{self.role} {self.rank} (pid {self.pid})"

    @property
    def end(self) -> str:
        """How it ended, in words."""
        status = self.process.exitcode
        if status is None:
            return "is running"
        if status >= 0:
            return f"ended with status {status}"
        return f"was killed by {signal.Signals(-status).name}"


class Team:
    """The processes of a program.

    Args:
        context: Of shmtensor's or torch's multiprocessing.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self.members: list[Member] = []

    def start(self, role: str, rank: int, target: Callable[..., None], *arguments: Any) -> Member:
        """Start a process that calls ``target(*arguments)``."""
        process = self._context.Process(
            target=_work, args=(target, arguments), name=f"{role}-{rank}", daemon=True
        )
        process.start()
        member = Member(role, rank, target, arguments, process)
        self.members.append(member)
        return member

    def start_again(self, lost: Member) -> Member:
        """Start another process in the place of one that has died."""
        self.members.remove(lost)
        return self.start(lost.role, lost.rank, lost.target, *lost.arguments)

    def of(self, role: str) -> list[Member]:
        """The processes of a role, by rank."""
        return sorted((m for m in self.members if m.role == role), key=lambda m: m.rank)

    def newly_lost(self) -> list[Member]:
        """Those that have died, not merely ended, since the last call."""
        lost = []
        for member in self.members:
            if not member.is_done and not member.is_running:
                member.is_done = True
                if member.process.exitcode != 0:
                    lost.append(member)
        return lost

    def end(self) -> None:
        """Leave no process behind."""
        for member in self.members:
            if member.is_running:
                member.process.kill()
        for member in self.members:
            member.process.join()


def child_pids() -> list[int]:
    """The processes that this one has started, whoever looks after them."""
    return sorted(child.pid or 0 for child in multiprocessing.active_children())
