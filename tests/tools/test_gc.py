"""`shmtensor gc` on a session with messages that nobody opens."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from shmtensor.inspect import Session

Command = Callable[..., Any]


@pytest.mark.check
def test_gc_frees_unopened_messages_and_nothing_else(
    family: Any, shmtensor_command: Command
) -> None:
    arguments = ("gc", "--session", family.name)
    done = shmtensor_command(*arguments, "--older", "0", "--dry-run")
    assert done.status == 0
    assert "would free 2 blocks, 3.9 KiB, of unopened messages" in done.out
    done = shmtensor_command(*arguments, "--older", "100000")
    assert "ended 0 leases" in done.out
    done = shmtensor_command(*arguments, "--older", "0")
    assert done.status == 0
    assert "freed 2 blocks, 3.9 KiB, of unopened messages, ended 2 leases" in done.out
    with Session(family.address) as session:
        picture = session.snapshot()
        assert (picture.n_used, picture.n_leases, picture.n_stranded) == (6, 0, 0)
        assert [c.n_held for c in picture.clients] == [6, 3]


@pytest.mark.check
def test_gc_of_no_named_session_is_wrong_use_without_a_terminal(
    shmtensor_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    done = shmtensor_command("gc")
    assert (done.status, done.out) == (2, "")
    assert "--session, or give --all" in done.err


def test_gc_of_all_as_json(family: Any, shmtensor_command: Command) -> None:
    done = shmtensor_command("gc", "--all", "--older", "100000", "--dry-run", "--json")
    assert done.status == 0
    (row,) = [row for row in json.loads(done.out) if row["session"] == family.name]
    assert (row["n_blocks"], row["nbytes"], row["is_dry_run"]) == (0, 0, True)
