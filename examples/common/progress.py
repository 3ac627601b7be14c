"""Progress on the screen: a live table with rich on a terminal, a line a second elsewhere."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

from common.program import is_installed

__all__ = ["Progress"]

_LINE_EVERY_S = 1.0
_TABLE_EVERY_S = 0.1


class Progress:
    """Shows how far a program is.

    Args:
        options: Of the command line; ``--plain`` asks for lines.
        title: Of the table.
        columns: Its columns.
    """

    def __init__(self, options: argparse.Namespace, title: str, columns: Sequence[str]) -> None:
        self._title, self._columns = title, columns
        self._shown_at = 0.0
        self._named: list[int] = []
        self._live: Any = None
        if not options.plain and is_installed("rich") and sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(auto_refresh=False)
            self._live.start()

    def name_workers(self, pids: Sequence[int]) -> None:
        """Print their process ids if they are new, unless the table has them."""
        if self._live is None and [*pids] != self._named:
            self._named = [*pids]
            print("worker pids:", *pids, flush=True)

    def say(self, text: str) -> None:
        """Print a line of its own, for example that a worker died."""
        if self._live is None:
            print(text, flush=True)
        else:
            self._live.console.print(text)

    def show(self, caption: str, rows: Sequence[Sequence[str]], *, now: bool = False) -> None:
        """Show a row for each process and a caption, unless that was done just now."""
        pause = _LINE_EVERY_S if self._live is None else _TABLE_EVERY_S
        if not now and time.monotonic() - self._shown_at < pause:
            return
        self._shown_at = time.monotonic()
        if self._live is None:
            print("  ".join([caption, *(" ".join(row) for row in rows)]), flush=True)
            return
        from rich.table import Table

        table = Table(
            title=self._title, caption=caption, min_width=min(100, self._live.console.width)
        )
        for i, name in enumerate(self._columns):
            table.add_column(name, justify="right" if i else "left")
        for row in rows:
            table.add_row(*row)
        self._live.update(table, refresh=True)

    def end(self) -> None:
        """Leave the screen as it is now."""
        if self._live is not None:
            self._live.stop()
