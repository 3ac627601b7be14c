"""A full screen of text that is redrawn in place, with keys: `shmtensor top` on a terminal.

The screen has a heading, a body that can be longer than the terminal and is scrolled, and a line
that says which keys there are. A key or a new size of the terminal redraws at once. rich writes the
whole screen in one piece over the old one, so nothing flickers. Without a terminal to read keys
from there are none, and Ctrl-C ends the program.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["LiveView", "keys_of"]

# Keys that terminals send as more than one byte, in their several forms.
_SEQUENCES = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1bOH": "home",
    "\x1b[1~": "home",
    "\x1b[F": "end",
    "\x1bOF": "end",
    "\x1b[4~": "end",
}
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|.", re.S)
_SCROLLS = {"k": "up", "j": "down", "b": "page up", "f": "page down", "g": "home", "G": "end"}
_LOOK_S = 0.1  # how often a new size is noticed


def keys_of(text: str) -> list[str]:
    """Return the keys in what a terminal sent: characters, "up", "page down"; "" if unknown."""
    return [_SEQUENCES.get(k, k if len(k) == 1 else "") for k in _KEY.findall(text)]


class LiveView:
    """The screen.

    Args:
        stack: Puts the terminal back when it is closed.
        orders: Keys that choose an order, and what the order is called.
        order: The order at the beginning.
        console: Where to draw; None: standard output.
    """

    def __init__(
        self,
        stack: ExitStack,
        orders: dict[str, str],
        order: str,
        console: Console | None = None,
    ) -> None:
        from rich.live import Live  # optional, so not at the top

        #: The order that was chosen last.
        self.order = order
        #: No new snapshots are wanted.
        self.is_paused = False
        self._orders = orders
        self._top = 0  # the first line of the body that is seen
        self._n_lines = 0
        self._size = (0, 0)
        self._render: Callable[[int, str], tuple[str, Sequence[str]]] = lambda width, order: (
            "",
            [],
        )
        self._keyboard = _keyboard(stack)
        self._live = stack.enter_context(Live(console=console, screen=True, auto_refresh=False))
        stack.callback(signal.signal, signal.SIGTSTP, signal.signal(signal.SIGTSTP, self._stop))

    def show(self, render: Callable[[int, str], tuple[str, Sequence[str]]]) -> None:
        """Draw the screen. *render* returns heading and lines for a width and an order."""
        self._render = render
        self._draw()

    def wait(self, duration_s: float) -> bool:
        """Obey keys for this long, or longer while it is paused; False: the user wants to leave."""
        end_s = time.monotonic() + duration_s
        while True:
            left_s = end_s - time.monotonic()
            keys = self._read(_LOOK_S if self.is_paused else max(0.0, min(left_s, _LOOK_S)))
            if "q" in keys:
                return False
            is_old = self._live.console.size != self._size
            for key in keys:
                is_old |= self._obey(key)
            if is_old:
                self._draw()
            if left_s <= 0 and not self.is_paused:
                return True

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Give the terminal back, as it was, while the program is stopped by Ctrl-Z."""
        console = self._live.console
        with ExitStack() as back:
            if self._keyboard is not None:
                typing = termios.tcgetattr(self._keyboard)
                back.callback(termios.tcsetattr, self._keyboard, termios.TCSADRAIN, typing)
                typing = list(typing)
                typing[3] |= termios.ICANON | termios.ECHO
                termios.tcsetattr(self._keyboard, termios.TCSADRAIN, typing)
            console.set_alt_screen(False)
            console.show_cursor(True)
            os.kill(os.getpid(), signal.SIGSTOP)
        console.set_alt_screen(True)
        console.show_cursor(False)
        self._draw()

    def _read(self, wait_s: float) -> list[str]:
        if self._keyboard is None:
            time.sleep(wait_s)
            return []
        if not select.select([self._keyboard], [], [], wait_s)[0]:
            return []
        data = os.read(self._keyboard, 1024)
        if not data:  # the terminal is gone
            self._keyboard = None
        return keys_of(data.decode("utf-8", "replace"))

    def _obey(self, key: str) -> bool:
        """Do what a key says; False: nothing."""
        page = max(1, self._size[1] - 4)
        key = _SCROLLS.get(key, key)
        if key in self._orders:
            self.order = self._orders[key]
        elif key == " ":
            self.is_paused = not self.is_paused
        elif key in ("up", "down"):
            self._top += 1 if key == "down" else -1
        elif key in ("page up", "page down"):
            self._top += page if key == "page down" else -page
        elif key in ("home", "end"):
            self._top = 0 if key == "home" else self._n_lines
        else:
            return False
        return True

    def _draw(self) -> None:
        self._live.update(self._text(), refresh=True)

    def _text(self) -> Text:
        from rich.text import Text

        width, height = self._size = self._live.console.size
        heading, lines = self._render(width, self.order)
        self._n_lines = len(lines)
        room = max(1, height - 2)
        self._top = max(0, min(self._top, len(lines) - room))
        seen = list(lines[self._top : self._top + room])
        seen += [""] * (room - len(seen))
        text = Text.from_ansi("\n".join([heading, *seen]), no_wrap=True, overflow="ellipsis")
        text.append("\n")
        text.append(self._footer(len(lines), room, width), style="reverse")
        return text

    def _footer(self, n_lines: int, room: int, width: int) -> str:
        """The last line: what keys do, and which lines are seen."""
        place = ""
        if n_lines > room:
            place = f" {self._top + 1}-{min(self._top + room, n_lines)} of {n_lines} lines "
        if self.is_paused:
            place = " paused " + place
        if self._keyboard is None:
            return " Ctrl-C ends".ljust(width - len(place))[: width - len(place)] + place
        orders = "".join(
            f"[{key} {name}]" if name == self.order else f" {key} {name} "
            for key, name in self._orders.items()
        )
        keys = f" q quit  {orders}  space pause"
        keys += "  arrows scroll" if n_lines > room else ""
        return keys.ljust(width)[: max(0, width - len(place))] + place


def _keyboard(stack: ExitStack) -> int | None:
    """Return the terminal's descriptor, from which keys come one by one; None: there is none."""
    if not sys.stdin.isatty():
        return None
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    stack.callback(termios.tcsetattr, fd, termios.TCSADRAIN, before)
    tty.setcbreak(fd)
    return fd
