"""The sub-commands that look at sessions, on a real one of two processes.

`gc`, which changes the session, is in test_gc.py; the inspector below them in test_inspector.py.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import waiting

from shmtensor import inspect
from shmtensor._cli import _common
from shmtensor.inspect import Session, machine

Command = Callable[..., Any]
COMMANDS = [
    *("bench", "call", "config", "dashboard", "doctor", "echo", "gc", "holders", "hz", "leaks"),
    *("ls", "serve", "stats", "top"),
]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_exit_status_section(name: str, shmtensor_command: Command) -> None:
    done = shmtensor_command(name, "--help")
    assert done.status == 0
    assert "exit status" in done.out
    assert f"usage: shmtensor {name}" in done.out


@pytest.mark.check
def test_ls_shows_processes_and_what_they_hold(family: Any, shmtensor_command: Command) -> None:
    done = shmtensor_command("ls", "--session", family.name)
    assert done.status == 0
    heads, session, _, parent, child = done.out.splitlines()
    assert heads.split()[:3] == ["SESSION", "MANAGER", "PROCS"]
    assert session.split()[0] == family.name
    assert session.split()[2:4] == ["2", "8"]  # processes, blocks
    assert parent.split()[0] == str(family.process.pid)
    assert "4.0 MiB in 6" in parent
    assert child.split()[0] == str(family.child)
    assert "11.7 KiB in 3" in child
    assert "0 B in 0" in child
    assert "python" in parent
    assert child.endswith("SpawnProcess-1: receive")


def test_ls_finds_the_session_among_all(family: Any, shmtensor_command: Command) -> None:
    done = shmtensor_command("ls", "--quiet")
    assert done.status == 0
    assert family.name in done.out


def test_ls_blocks_names_holders(family: Any, shmtensor_command: Command) -> None:
    done = shmtensor_command("ls", "--blocks", "--session", family.name)
    held = [line.split() for line in done.out.splitlines() if " arena " in line]
    parent, child = str(family.process.pid), str(family.child)
    assert sum(line[-2:] == [parent, child] for line in held) == 3
    assert sum(line[-2:] == ["1", "-"] for line in held) == 2  # one lease, no holder


@pytest.mark.parametrize("how", ["name", "beginning", "address", "pid", "manager"])
def test_session_is_chosen_by(how: str, family: Any) -> None:
    with Session(family.address) as session:
        manager = session.manager_pid()
    wanted = {
        "name": family.name,
        "beginning": family.name[:14],
        "address": "@" + family.address,
        "pid": str(family.child),
        "manager": str(manager),
    }[how]
    sessions = inspect.open_sessions(wanted)
    try:
        assert family.name in [session.name for session in sessions]
        if how != "beginning":
            assert len(sessions) == 1
    finally:
        for session in sessions:
            session.close()


def test_session_without_a_manager_is_chosen_by_its_address() -> None:
    program = """
import os, signal
import shmtensor as st
from shmtensor import inspect
from shmtensor._boundary import sharing

kept = st.ones(10, shared=True)
address = sharing.session_name()
os.kill(sharing.status()["manager_pid"], signal.SIGKILL)
while address[1:] in inspect.live_addresses():
    pass
for wanted in address, address[-16:]:
    (session,) = inspect.open_sessions(wanted)
    with session:
        assert session.snapshot().n_used == 1
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=120)


@pytest.mark.parametrize("name", ["ls", "leaks", "gc", "stats", "top"])
def test_session_that_does_not_exist_is_an_error(name: str, shmtensor_command: Command) -> None:
    done = shmtensor_command(name, "--session", "no-such-session")
    assert done.status == 1
    text = "this user has no session 'no-such-session' (shmtensor ls shows them)"
    assert text in done.err


def test_socket_at_which_nobody_listens_is_an_error(
    tmp_path: Path, shmtensor_command: Command
) -> None:
    stale, file, nothing = (tmp_path / name for name in ("stale", "file", "nothing"))
    file.touch()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        left.bind(str(stale))  # as a killed manager leaves it
    for path, text in (
        (stale, f"no manager listens at {stale}; shmtensor serve --socket {stale} starts one"),
        (file, f"{file} is not a socket"),
        (nothing, f"there is no socket {nothing}"),
    ):
        done = shmtensor_command("ls", "--session", str(path))
        assert (done.status, done.out, done.err) == (1, "", f"shmtensor: {text}\n")


def test_holders_of_a_process(family: Any, shmtensor_command: Command) -> None:
    done = shmtensor_command("holders", str(family.process.pid))
    assert done.status == 0
    assert f"in session {family.name}" in done.out
    rows = [line.split() for line in done.out.splitlines()[3:]]
    assert rows[0][:5] == ["1", "4.0", "MiB", "4.0", "MiB"]
    assert ["3", "3.9", "KiB", "11.7", "KiB", "yes", str(family.child)] in rows


def test_holders_of_a_block(family: Any, shmtensor_command: Command) -> None:
    with Session(family.address) as session:
        block = next(b.block for b in session.blocks() if b.n_holders == 2)
    done = shmtensor_command("holders", f"block:{block}", "--session", family.name)
    assert done.status == 0
    assert f"{family.process.pid}  yes" in done.out
    assert f"{family.child}  no" in done.out


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("1", "process 1 is in no session"),
        ("block:2000000", "no block 2000000 is in use in any session"),
        ("model", "no service of this user has published 'model'"),
        ("name:17", "no service of this user has published '17'"),
    ],
)
def test_holders_of_nothing_is_an_error(what: str, text: str, shmtensor_command: Command) -> None:
    done = shmtensor_command("holders", what)
    assert done.status == 1
    assert text in done.err


def test_leaks_finds_unopened_messages(family: Any, shmtensor_command: Command) -> None:
    arguments = ("leaks", "--session", family.name, "--watch", "0", "--min-bytes", str(1 << 40))
    done = shmtensor_command(*arguments, "--older", "0")
    assert done.status == 3
    assert "2 blocks, 3.9 KiB, are kept by unopened messages only" in done.out
    assert str(family.process.pid) in done.out
    done = shmtensor_command(*arguments, "--older", "100000")
    assert (done.status, done.out) == (0, "nothing found\n")


def test_leaks_finds_a_stopped_process(family: Any, shmtensor_command: Command) -> None:
    os.kill(family.process.pid, signal.SIGSTOP)  # so it uses no processor time for certain
    try:
        waiting.until(lambda: waiting.process_state(family.process.pid) == "T")
        done = shmtensor_command(
            "leaks", "--session", family.name, "--older", "100000", "--watch", "0.1"
        )
    finally:
        os.kill(family.process.pid, signal.SIGCONT)
    assert done.status == 3
    row = next(line.split() for line in done.out.splitlines() if str(family.process.pid) in line)
    assert row[:5] == [str(family.process.pid), "4.0", "MiB", "3", "T"]


@pytest.mark.check
def test_stats_as_json(family: Any, shmtensor_command: Command) -> None:
    done = shmtensor_command("stats", "--json", "--session", family.name)
    (row,) = json.loads(done.out)
    assert done.status == 0
    assert row["session"] == family.name
    assert (row["n_clients"], row["n_used"], row["n_leases"], row["n_stranded"]) == (2, 8, 2, 2)
    assert row["used_bytes"] == 5 * 4000 + (4 << 20) + 2 * 2000
    assert row["resident_bytes"] >= row["used_bytes"]
    assert {c["pid"] for c in row["clients"]} == {family.process.pid, family.child}


def test_stats_as_prometheus_text(family: Any, shmtensor_command: Command) -> None:
    done = shmtensor_command("stats", "--prometheus", "--session", family.name)
    lines = done.out.splitlines()
    labels = f'session="{family.name}",service=""'
    assert f"shmtensor_clients{{{labels}}} 2" in lines
    assert f"shmtensor_leases{{{labels}}} 2" in lines
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert {line.partition("{")[0] for line in lines if not line.startswith("#")} <= typed
    assert any(f'pid="{family.child}"' in line and line.endswith(" 12000") for line in lines)


def test_stats_as_text(family: Any, shmtensor_command: Command) -> None:
    done = shmtensor_command("stats", "--session", family.name)
    assert done.status == 0
    lines = [line.split(maxsplit=2) for line in done.out.splitlines()]
    assert ["messages", "2", "under way in pipes and sockets"] in lines
    assert ["in", "use", "4.0 MiB in 8 blocks"] in lines
    assert "  limit of slabs     none" in done.out.splitlines()
    assert "reserved, no memory" in done.out


def test_top_shows_every_look(family: Any, shmtensor_command: Command) -> None:
    done = shmtensor_command(
        "top", "--plain", "--count", "2", "--interval", "0", "--session", family.name
    )
    assert done.status == 0
    assert len(re.findall(rf"session {family.name} \(python .*\n  2 processes", done.out)) == 2
    assert done.out.count(f"{family.child} ") == 2


@pytest.mark.parametrize("text", ["-1", "nan", "many"])
def test_duration_that_is_none_is_wrong_use(text: str, shmtensor_command: Command) -> None:
    assert shmtensor_command("leaks", "--older", text).status == 2


def test_looking_leaves_the_session_as_it_was(family: Any) -> None:
    with Session(family.address) as session:
        before = session.snapshot()
        pid = session.manager_pid()
        for _ in range(3):
            with Session(family.address) as other:
                assert other.snapshot().clients == before.clients
        assert session.manager_pid() == pid
        assert session.snapshot().n_leases == before.n_leases


def test_doctor_finds_what_sharing_needs(shmtensor_command: Command) -> None:
    done = shmtensor_command("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.out)}
    assert done.status == 0
    assert checks["sealed memory files"]["verdict"] == "ok"
    assert checks["manager program"]["verdict"] == "ok"
    assert all(c["advice"] for c in checks.values() if c["verdict"] != "ok")
    assert "kernel" in shmtensor_command("doctor").out


def test_doctor_says_what_is_used_without_memfd_create(
    monkeypatch: pytest.MonkeyPatch, shmtensor_command: Command
) -> None:
    def refuse(*arguments: object) -> int:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "memfd_create", refuse)
    checks = {c["name"]: c for c in json.loads(shmtensor_command("doctor", "--json").out)}
    check = checks["sealed memory files"]
    assert check["found"] == "memfd_create: Operation not permitted"
    if os.access("/dev/shm", os.W_OK):
        assert check["verdict"] == "note"
        assert "unnamed files in /dev/shm" in check["advice"]
    else:
        assert check["verdict"] == "bad"


@pytest.mark.parametrize(
    ("lines", "file", "text", "expected"),
    [
        ("0::/a", "/sys/fs/cgroup/a/memory.max", "max", None),
        ("0::/a", "/sys/fs/cgroup/a/memory.max", "1000", 1000),
        ("0::/", "/sys/fs/cgroup/memory.max", "2000", 2000),
        ("4:memory:/b\n0::/", "/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "3000", 3000),
        ("4:memory:/b\n0::/", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "4000", 4000),
        ("", "", "", None),
    ],
)
def test_limits_of_control_groups_of_both_versions_are_read(
    monkeypatch: pytest.MonkeyPatch, lines: str, file: str, text: str, expected: int | None
) -> None:
    files = {"/proc/self/cgroup": lines, file: text}
    monkeypatch.setattr(machine, "_read", lambda path: files.get(os.path.normpath(path), ""))
    assert machine._cgroup_limit() == expected


def test_doctor_names_a_senseless_limit(
    monkeypatch: pytest.MonkeyPatch, shmtensor_command: Command
) -> None:
    monkeypatch.setenv("SHMTENSOR_MAX_SHARED_BYTES", "4G")
    done = shmtensor_command("doctor")
    assert done.status == 1
    assert "'4G'" in done.out


@pytest.mark.parametrize(
    ("nbytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 29, "1.5 GiB")]
)
def test_sizes_are_short(nbytes: int, text: str) -> None:
    assert _common.size_text(nbytes) == text
