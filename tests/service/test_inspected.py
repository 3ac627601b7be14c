"""What an inspector has found may change: managers come back, sessions end, numbers are used again.

Not covered: what is shown of topics and servers (test_topic_views.py), other users' services
(test_group_tools.py).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import service_programs as programs
import waiting

from shmtensor.errors import ManagerError
from shmtensor.inspect import Session, find_sessions, open_sessions
from shmtensor.inspect.processes import _stat
from shmtensor.inspect.sessions import Client

_USER = """
import sys
from shmtensor.service import Service
service = Service(sys.argv[1])
queue = service.Queue("jobs")
queue.put(1)
topic = service.Topic("frames")
server = service.Server("double")
service.publish("value", 1)
print("open", flush=True)
sys.stdin.readline()
service.publish("value", 2)
print("published", flush=True)
sys.stdin.readline()
"""


def _number_of(name: str) -> int:
    with open_sessions(name)[0] as session:
        return session.number


def _shows_all(session: Session) -> None:
    assert [queue.n_messages for queue in session.queues() if queue.n_messages] == [1]
    assert set(session.topics()) == {"frames"} and set(session.servers()) == {"double"}
    assert session.names()["value"].version > 0


@pytest.mark.check
def test_what_a_member_shows_is_completed_when_the_manager_answers(
    run: type[programs.Program],
) -> None:
    with programs.serving() as (name, _server):
        assert run(_USER, name).line() == "open"
        # As it is opened in the moment before its manager listens.
        with Session(number=_number_of(name)) as session:
            _shows_all(session)
            assert session.manager_pid() > 0
            assert session.address == f"shmtensor-{os.geteuid()}-{session.name}"


def test_session_without_a_manager_shows_all(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        user = run(_USER, name)
        assert user.line() == "open"
        number = _number_of(name)
        with open_sessions(name)[0] as served:
            server.kill()
            with Session(number=number) as session:
                _shows_all(session)
                assert session.manager_pid() == 0 and session.address == ""
                opened, _ = find_sessions()
                assert [s.number for s in opened].count(number) == 1
                for each in opened:
                    each.close()
                user.say()
                assert user.line() == "published"
                assert session.manager_pid() == served.manager_pid() > 0
                assert session.address == served.address
                assert session.snapshot().incarnation == served.snapshot().incarnation


def test_session_that_began_anew_is_another_one(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        user = run(_USER, name)
        assert user.line() == "open"
        with open_sessions(name)[0] as session, Session(number=session.number) as by_member:
            before = session.snapshot()
            user.kill()
            server.terminate()  # of one that is killed, the files that are open here are used again
            again = run(_USER.replace("argv[1])", "argv[1], start=True)"), name)
            assert again.line() == "open"
            for old in session, by_member:
                assert old.manager_pid() == 0
                with pytest.raises(ManagerError, match="was begun anew"):
                    old.gc(0)
                with pytest.raises(ManagerError, match="was begun anew"):
                    old.trim()
                assert old.snapshot().incarnation == before.incarnation
            with open_sessions(name)[0] as new:
                assert new.number == session.number
                assert new.snapshot().incarnation != before.incarnation
                _shows_all(new)


def test_number_of_a_process_that_has_ended_is_nobodys_command() -> None:
    def client(start: int) -> Client:
        return Client(1, os.getpid(), start, False, 0, 0, 0, 0, 0, 0, 0, 0)

    start = int(_stat(os.getpid())[19])
    assert Path(sys.argv[0]).name in client(start).command or client(start).command != "?"
    assert client(start - 1).command == "?"


def test_a_path_is_the_address_of_a_session_that_a_member_shows(
    run: type[programs.Program], tmp_path: Path
) -> None:
    path = tmp_path / "own" / "socket"
    user = _USER.replace("Service(sys.argv[1])", "Service(socket=sys.argv[1])")
    server = programs.Server("--socket", str(path))
    try:
        assert run(user, str(path)).line() == "open"
        with open_sessions(str(path))[0] as served, Session(number=served.number) as session:
            _shows_all(session)
            assert session.manager_pid() == server.pid and session.address == str(path)
    finally:
        server.kill()
        waiting.until(lambda: not os.path.exists(f"/proc/{server.pid}"))
