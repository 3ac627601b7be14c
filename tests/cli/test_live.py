"""`shmtensor top` as a live screen: keys, scrolling, sizes, the terminal afterwards."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

pytest.importorskip("rich")

from rich.console import Console

from shmtensor._cli import top
from shmtensor._cli._live import LiveView, keys_of

ORDERS = {"m": "memory", "c": "cpu"}


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of a terminal at which its user types; the other end is standard input."""
    user, program = pty.openpty()
    with os.fdopen(user, "wb", buffering=0), os.fdopen(program, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield user


class Screen:
    """A live view of numbered lines, and what is seen of it."""

    def __init__(self, stack: ExitStack, n_lines: int, width: int = 60, height: int = 12) -> None:
        self.console = Console(
            file=io.StringIO(), force_terminal=True, width=width, height=height, _environ={}
        )
        self.view = LiveView(stack, ORDERS, "memory", self.console)
        self.n_lines = n_lines
        self.view.show(self._render)

    def _render(self, width: int, order: str) -> tuple[str, list[str]]:
        return f"by {order}, {width} wide", [f"line {i}" for i in range(1, self.n_lines + 1)]

    def seen(self) -> list[str]:
        return self.view._text().plain.split("\n")


@pytest.mark.check
def test_keys_of_terminals_are_read() -> None:
    typed = "q c\x1b[A\x1bOB\x1b[6~\x1b[1;5C"
    assert keys_of(typed) == ["q", " ", "c", "up", "down", "page down", ""]


def test_screen_has_a_heading_lines_and_a_footer_in_the_last_row(keyboard: int) -> None:
    with ExitStack() as stack:
        seen = Screen(stack, n_lines=3).seen()
    assert len(seen) == 12
    assert seen[0] == "by memory, 60 wide"
    assert seen[1:5] == ["line 1", "line 2", "line 3", ""]
    assert seen[-1].startswith(" q quit  [m memory] c cpu ")
    assert len(seen[-1]) == 60


def test_long_pictures_are_scrolled_and_stop_at_both_ends(keyboard: int) -> None:
    with ExitStack() as stack:
        screen = Screen(stack, n_lines=30)
        assert screen.seen()[1] == "line 1"
        assert screen.seen()[-1].endswith(" 1-10 of 30 lines ")
        for typed, first in [
            ("jj\x1b[B", "line 4"),
            ("\x1b[A", "line 3"),
            ("f", "line 11"),
            ("G", "line 21"),
            ("j", "line 21"),
            ("\x1b[H", "line 1"),
            ("\x1b[5~", "line 1"),
        ]:
            os.write(keyboard, typed.encode())
            assert screen.view.wait(0)
            assert screen.seen()[1] == first, typed


def test_keys_choose_an_order_that_the_footer_marks(keyboard: int) -> None:
    with ExitStack() as stack:
        screen = Screen(stack, n_lines=3)
        os.write(keyboard, b"c")
        assert screen.view.wait(0)
        assert screen.seen()[0] == "by cpu, 60 wide"
        assert " m memory [c cpu]" in screen.seen()[-1]


def test_a_paused_screen_waits_for_a_key(keyboard: int) -> None:
    with ExitStack() as stack:
        screen = Screen(stack, n_lines=3)
        screen.view._obey(" ")
        assert " paused " in screen.seen()[-1]
        os.write(keyboard, b"q")
        assert not screen.view.wait(0)  # although the time is over: it waited for the key
        os.write(keyboard, b" ")
        assert screen.view.wait(0)
        assert " paused " not in screen.seen()[-1]


def test_a_new_size_is_used(keyboard: int) -> None:
    with ExitStack() as stack:
        screen = Screen(stack, n_lines=30)
        os.write(keyboard, b"G")
        assert screen.view.wait(0)
        screen.console.width, screen.console.height = 30, 22
        assert screen.view.wait(0)
        seen = screen.seen()
        assert (seen[0], len(seen), seen[1]) == ("by memory, 30 wide", 22, "line 11")
        assert len(seen[-1]) == 30


@pytest.mark.check
def test_without_a_terminal_to_type_at_ctrl_c_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack, open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        screen = Screen(stack, n_lines=30)
        assert screen.view.wait(0)
        assert "Ctrl-C ends" in screen.seen()[-1]


def test_the_terminal_is_as_it_was_afterwards(keyboard: int) -> None:
    before = termios.tcgetattr(sys.stdin.fileno())
    with ExitStack() as stack:
        Screen(stack, n_lines=1)
        assert termios.tcgetattr(sys.stdin.fileno()) != before
    assert termios.tcgetattr(sys.stdin.fileno()) == before


def _row(pid: int, used_bytes: int, cpu_percent: float) -> dict[str, Any]:
    client = {"pid": pid, "who": str(pid), "held_bytes": used_bytes, "cpu_percent": cpu_percent}
    client |= {"n_held": 1, "alone_bytes": 0, "slab_bytes": 0, "what": f"program {pid}"}
    figures = dict.fromkeys(["limit_bytes", "granted_bytes", "resident_bytes", "freed_per_s"], 0)
    figures |= dict.fromkeys(["n_used", "n_leases", "n_stranded"], 0)
    return figures | {"n_clients": 1, "used_bytes": used_bytes, "clients": [client], "queues": []}


@pytest.mark.parametrize(("order", "expected"), [("memory", "bca"), ("cpu", "acb"), ("pid", "cab")])
def test_sessions_stand_in_the_order_of_their_processes(order: str, expected: str) -> None:
    rows = [_row(20, 0, 90.0), _row(30, 900, 0.0), _row(10, 500, 5.0)]
    lines = top._lines(list("abc"), rows, 80, order)
    assert "".join(line for line in lines if line in ("a", "b", "c")) == expected


_HOLDER = """
import os, sys
import shmtensor
tensor = shmtensor.ones(1 << 20, shared=True)
print(os.getpid(), flush=True)
sys.stdin.readline()
"""


class Terminal:
    """A program at a terminal of a size."""

    def __init__(self, *command: str, columns: int, rows: int, kind: str = "xterm") -> None:
        self.user, program = pty.openpty()
        self.resize(columns, rows)
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command,
            stdin=program,
            stdout=program,
            stderr=program,
            env={**environment, "TERM": kind},
            start_new_session=True,
        )
        os.close(program)
        self.text = ""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.user, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern: str) -> None:
        """Read until what came since the last match matches."""
        while not (found := re.search(pattern, self.text)):
            data = os.read(self.user, 65536)
            assert data
            self.text += data.decode("utf-8", "replace")
        self.text = self.text[found.end() :]

    def type(self, keys: str) -> None:
        os.write(self.user, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.user)


@pytest.fixture
def holder() -> Iterator[str]:
    """The process id of a program that has a session of its own, with 4 MiB in it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


@pytest.fixture
def terminal(holder: str) -> Iterator[Terminal]:
    """`shmtensor top` at a terminal of 100 columns."""
    command = [sys.executable, "-m", "shmtensor", "top", "--session", holder]
    started = Terminal(*command, columns=100, rows=20)
    yield started
    started.close()


def test_top_at_a_terminal_obeys_keys_and_new_sizes(holder: str, terminal: Terminal) -> None:
    terminal.wait_for(rf"1 session  1 process  used 4\.0 MiB[\s\S]*{holder} .*4\.0 MiB")
    terminal.wait_for(r"\[m memory\]")
    terminal.type("c")
    terminal.wait_for(r"\[c cpu\]")
    terminal.resize(columns=40, rows=10)
    terminal.wait_for(r"…")  # the heading has no room any more
    terminal.type(" ")
    terminal.wait_for(r"paused")
    terminal.type("q")
    terminal.wait_for(r"\x1b\[\?1049l")  # back from the other screen
    assert terminal.process.wait(60) == 0


def test_top_gives_the_terminal_back_while_it_is_stopped(terminal: Terminal) -> None:
    terminal.wait_for(r"\[m memory\]")
    typing = termios.tcgetattr(terminal.user)
    assert not typing[3] & termios.ICANON
    terminal.process.send_signal(signal.SIGTSTP)
    terminal.wait_for(r"\x1b\[\?1049l")
    pid, status = os.waitpid(terminal.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert termios.tcgetattr(terminal.user)[3] & termios.ICANON
    os.kill(pid, signal.SIGCONT)
    terminal.wait_for(r"\x1b\[\?1049h[\s\S]*\[m memory\]")
    assert termios.tcgetattr(terminal.user) == typing
    terminal.type("q")
    assert terminal.process.wait(60) == 0


def test_top_at_a_dumb_terminal_prints(holder: str) -> None:
    command = [sys.executable, "-m", "shmtensor", "top", "-n", "1", "-s", holder]
    terminal = Terminal(*command, columns=100, rows=20, kind="dumb")
    terminal.wait_for(rf"{holder} .*4\.0 MiB")
    assert "\x1b" not in terminal.text
    assert terminal.process.wait(60) == 0
    terminal.close()
