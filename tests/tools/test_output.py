"""How the commands print: JSON, colour, narrow terminals, hostile names, broken pipes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shmtensor
from shmtensor._boundary.sharing import set_label
from shmtensor._cli import _common
from shmtensor.inspect import find_sessions
from shmtensor.inspect.processes import printable

Command = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.check
def test_version(shmtensor_command: Command) -> None:
    done = shmtensor_command("--version")
    assert (done.status, done.out) == (0, f"shmtensor {shmtensor.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("ls", "--queues", "--blocks"), "blocks"),
        (("stats",), "queues"),
        (("top", "--count", "1"), "freed_per_s"),
        (("gc", "--older", "100000"), "n_leases"),
        (("holders", "{parent}"), "blocks"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_json_names_the_session(
    arguments: tuple[str, ...], key: str, family: Any, shmtensor_command: Command
) -> None:
    words = [word.format(parent=family.process.pid) for word in arguments]
    done = shmtensor_command(*words, "--json", "--session", family.name)
    assert done.status == 0
    (row,) = json.loads(done.out)
    assert (row["session"], row["service"]) == (family.name, "")
    assert row["address"] == family.address
    assert key in row


def test_leaks_as_json(family: Any, shmtensor_command: Command) -> None:
    done = shmtensor_command(
        "leaks", "--json", "--session", family.name, "--older", "0", "--watch", "0"
    )
    assert done.status == 3
    stranded = json.loads(done.out)["stranded"]
    assert [leak["block"]["nbytes"] for leak in stranded] == [2000, 2000]
    assert {leak["owner_pid"] for leak in stranded} == {family.process.pid}


def test_top_in_80_columns_keeps_leases_and_rates(
    family: Any, shmtensor_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = shmtensor_command("top", "--plain", "--count", "1", "--session", family.name)
    lines = done.out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert any("leases 2 (2 blocks stranded)" in line for line in lines)
    assert any("freed/s 0" in line for line in lines)


def test_top_says_once_that_there_is_no_session(
    shmtensor_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_common, "find_sessions", lambda wanted="", owner=None: ([], []))
    done = shmtensor_command("top", "--plain", "--count", "3", "--interval", "0")
    assert (done.status, done.out) == (0, "no session; waiting for one\n")
    done = shmtensor_command("top", "--plain", "--count", "1")
    assert (done.status, done.out) == (0, "no session\n")


@pytest.mark.parametrize(
    ("n", "what", "text"),
    [(0, "block", "0 blocks"), (1, "block", "1 block"), (2, "process", "2 processes")],
)
def test_words_follow_the_number(n: int, what: str, text: str) -> None:
    assert _common.count(n, what) == text


class _Terminal:
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert _common.styled("x", "red") == "x"
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", _Terminal())
        assert _common.styled("x", "red") == "\033[31mx\033[0m"
        patch.setenv("NO_COLOR", "1")
        assert _common.styled("x", "red") == "x"


@pytest.mark.check
def test_what_would_steer_a_terminal_is_escaped() -> None:
    assert printable("a\033[2J\x9bé\u202e\n b") == "a\\x1b[2J\\x9bé\\u202e\\n b"


def test_hostile_label_is_escaped_and_cut(shmtensor_command: Command) -> None:
    shared = shmtensor.ones(2, shared=True)
    try:
        set_label("a\033[2J\n" + "é" * 40)
        done = shmtensor_command("ls", "--session", str(os.getpid()))
    finally:
        set_label("")
    # One of each session: other tests may have joined a service.
    rows = [line for line in done.out.splitlines() if line.split()[:1] == [str(os.getpid())]]
    assert rows and all(row.endswith("  a\\x1b[2J\\n" + "é" * 12) for row in rows), rows
    assert shared.is_shared()


@pytest.fixture
def stranger() -> Iterator[str]:
    """A manager that closes every connection, as one of another wire version does."""
    name = f"{os.getpid() << 42 | 0xABCDEF:016x}"
    address = f"shmtensor-{os.geteuid()}-{name}"
    script = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "s.bind(chr(0) + sys.argv[1]); s.listen(); print('ready', flush=True)\n"
        "while True: s.accept()[0].close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, address], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield name
        process.kill()


@pytest.mark.parametrize(
    "arguments",
    [("ls", "-q"), ("top", "-n", "2", "-i", "0"), ("gc", "--all", "--dry-run"), ("stats",)],
)
def test_manager_of_another_version_is_skipped_with_one_line(
    arguments: tuple[str, ...], family: Any, stranger: str, shmtensor_command: Command
) -> None:
    done = shmtensor_command(*arguments)
    assert done.status == 0
    assert family.name in done.out
    (line,) = [line for line in done.err.splitlines() if stranger in line]
    assert line.startswith(f"shmtensor: skipped session {stranger}: ")
    assert "another version" in line


def test_holders_skips_it_too(family: Any, stranger: str, shmtensor_command: Command) -> None:
    done = shmtensor_command("holders", str(family.child))
    assert done.status == 0
    assert sum(stranger in line for line in done.err.splitlines()) == 1


def test_manager_of_another_version_that_is_named_is_an_error(
    stranger: str, shmtensor_command: Command
) -> None:
    done = shmtensor_command("ls", "--session", stranger)
    assert (done.status, done.out) == (1, "")
    assert "another version" in done.err


@pytest.mark.parametrize("arguments", [("doctor",), ("ls", "--help"), ("stats", "--json")])
def test_closed_pipe_is_quiet(arguments: tuple[str, ...]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "shmtensor", *arguments],
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == (0 if "--help" in arguments else 1)  # argparse forgives it


def test_a_socket_that_is_none_is_skipped_without_waiting() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as gone:
        gone.bind(f"\0shmtensor-{os.geteuid()}-{os.getpid() << 42 | 0xABCDE0:016x}")
        _, refused = find_sessions()
        assert all("abcde0" not in manager.name for manager in refused)
