"""Inspectors: a session's tables read from outside, by a process that is no client of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import shmtensor as T
from shmtensor._boundary import sharing
from shmtensor._boundary.inspect import Inspector
from shmtensor.errors import ManagerError
from shmtensor.inspect.sessions import Session, current, set_bits


@pytest.fixture
def inspector() -> Iterator[Inspector]:
    sharing.join()
    inspector = Inspector(os.environ["SHMTENSOR_MANAGER"].removeprefix("@"))
    yield inspector
    inspector.close()


def _mine(inspector: Inspector) -> dict[str, int]:
    _, clients = inspector.count()
    return next(c for c in clients if c["pid"] == os.getpid())


@pytest.mark.check
def test_count_is_of_what_a_process_holds(inspector: Inspector) -> None:
    before = _mine(inspector)
    kept = [T.zeros(1000, shared=True) for _ in range(3)]
    after = _mine(inspector)
    assert after["n_held"] - before["n_held"] == 3
    assert after["held_bytes"] - before["held_bytes"] == 3 * 4000
    assert after["n_alone"] - before["n_alone"] == 3
    assert after["n_made"] - before["n_made"] == 3
    del kept
    assert _mine(inspector)["n_held"] == before["n_held"]


def test_blocks_name_their_holders(inspector: Inspector) -> None:
    me = _mine(inspector)["client"]
    tensor = T.zeros(777, dtype=T.uint8, shared=True)
    rows = [(row, holders) for row, holders, _ in inspector.blocks() if row["nbytes"] == 777]
    assert [(row["owner"], holders) for row, holders in rows] == [(me, (me,))]
    assert rows[0][0]["capacity_bytes"] >= 777
    del tensor


def test_lease_shows_with_its_age(inspector: Inspector) -> None:
    tensor = T.zeros(778, dtype=T.uint8, shared=True)
    tensor.untyped_storage()._shared_incref()
    try:
        row = next(row for row, _, _ in inspector.blocks() if row["nbytes"] == 778)
        assert row["n_leases"] == 1
        assert row["n_queued"] == 0
    finally:
        tensor.untyped_storage()._shared_decref()


def test_inspector_is_no_client(inspector: Inspector) -> None:
    clients = inspector.manager()["n_clients"]
    other = Inspector(os.environ["SHMTENSOR_MANAGER"].removeprefix("@"))
    assert other.manager()["n_clients"] == clients
    other.close()


def test_inspector_of_members_sees_the_same_session(inspector: Inspector) -> None:
    session, _ = inspector.count()
    other = Inspector(session=session["session"])
    try:
        assert other.count()[0]["incarnation"] == session["incarnation"]
    finally:
        other.close()


@pytest.mark.check
def test_more_blocks_than_one_batch_are_all_seen(inspector: Inspector) -> None:
    kept = [T.zeros(70, dtype=T.uint8, shared=True) for _ in range(2500)]
    rows = [row["block"] for row, _, _ in inspector.blocks() if row["nbytes"] == 70]
    assert len(rows) == len(set(rows)) == len(kept)


@pytest.mark.parametrize(
    ("address", "session"), [("shmtensor-0-nobody", 0), ("x" * 200, 0), ("", 12345)]
)
def test_session_that_is_not_there_is_a_manager_error(address: str, session: int) -> None:
    with pytest.raises(ManagerError):
        Inspector(address, None, session)


def test_batches_are_the_blocks(inspector: Inspector) -> None:
    tensor = T.zeros(781, dtype=T.uint8, shared=True)
    records = [row.copy() for batch in inspector.block_batches() for row in batch]
    (record,) = [row for row in records if row["nbytes"] == tensor.numel()]
    fields, holders, site = next(b for b in inspector.blocks() if b[0]["nbytes"] == tensor.numel())
    assert {name: int(record[name]) for name in fields} == fields
    assert set_bits(record["holds"]) == list(holders)
    assert record["site"].decode() == site


def test_session_that_is_no_service_has_no_names(inspector: Inspector) -> None:
    assert list(inspector.names()) == []


_CURRENT = """
import os, signal
import shmtensor as st
from shmtensor import errors, inspect
try:
    inspect.current()
except errors.ManagerError as error:
    print(error)
kept = st.ones(1000, shared=True)
with inspect.current() as session:
    assert repr(session) == f"<Session {session.name}>"
    (client,) = session.snapshot().clients
    assert (client.pid, client.is_forking) == (os.getpid(), False)
    assert [block.is_file for block in session.blocks()] == [False]
    assert inspect.find_stranded(session, 0) == []
    os.kill(session.manager_pid(), signal.SIGKILL)
    number = session.number
with inspect.current() as session:  # through the files of this process
    assert session.number == number
"""


def test_current_opens_the_session_of_this_process() -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    done = subprocess.run(
        [sys.executable, "-c", _CURRENT],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("this process has shared no tensor yet: ")


@pytest.mark.check
def test_session_that_was_closed_says_so() -> None:
    kept = T.zeros(3, shared=True)
    session = current()
    queues = session.queues()
    session.close()
    session.close()
    calls: list[Callable[[], object]] = [
        session.snapshot,
        lambda: list(session.blocks()),
        lambda: list(session.block_batches()),
        lambda: list(queues),
        session.names,
        session.topics,
        session.servers,
        session.events,
        session.names_of_queues,
        lambda: session.published("a"),
        session.manager_pid,
        session.trim,
        lambda: session.gc(0),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the session is closed"):
            call()
    del kept


def test_session_may_be_closed_while_another_thread_looks() -> None:
    ends: list[str] = []

    def look(session: Session) -> None:
        try:
            while True:
                session.snapshot()
        except ValueError as error:
            ends.append(str(error))

    for _ in range(10):
        session = current()
        thread = threading.Thread(target=look, args=(session,))
        thread.start()
        time.sleep(0.01)
        session.close()
        thread.join()
    assert ends == ["the session is closed"] * 10


def test_names_are_never_cut(inspector: Inspector) -> None:
    address = os.environ["SHMTENSOR_MANAGER"].removeprefix("@")
    with pytest.raises(ValueError, match="must not contain a zero byte"):
        Session(address + "\0more")
    with current() as session, pytest.raises(ValueError, match="must not contain a zero byte"):
        session.published("name\0more")
