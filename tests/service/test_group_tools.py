"""What tools show to members of a service's group, to strangers, and to a service's own user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import service_programs as programs

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

_GROUP, _USER = "54321", 65534

# The interpreter may lie where another user cannot start it: import first.
_AS_OTHER = f"""
import os, sys, shmtensor as T, shmtensor.nn, shmtensor.service
from shmtensor import _cli, dashboard, inspect
from shmtensor.service import Service
_cli._parser()  # loads the commands
name, *groups = sys.argv[1:]
os.setgroups([int(g) for g in groups]); os.setgid({_USER}); os.setuid({_USER})
"""
_LOOKS = """
for command in (["ls", "-Q", "-b"], ["top", "-n", "1", "--plain"], ["stats", "--prometheus"],
                ["holders", "weights"]):
    status = _cli.main([*command, "--owner", "0", "--session", name])
    print("status", status, flush=True)
print([s.service for s in inspect.open_sessions(name, owner=0)])
state = dashboard.Observer(name, owner=0).state()
print([(row["service"], [n["name"] for n in row["names"]]) for row in state["sessions"]])
print(inspect.open_sessions())
"""


@pytest.fixture(params=["name", "path"])
def options(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Where a service listens that its group can reach."""
    if request.param == "name":
        yield []
        return
    directory = Path("/tmp") / programs.unused_name()
    yield ["--socket", str(directory / "socket")]
    for file in directory.iterdir():
        file.unlink()
    directory.rmdir()


@pytest.mark.check
def test_members_of_the_group_look_at_the_service(
    options: list[str], run: type[programs.Program]
) -> None:
    with (
        programs.serving("--group", _GROUP, *options) as (name, server),
        programs.serving() as (closed, _),
    ):
        name = options[1] if options else name
        owner = run(
            "import sys, shmtensor as T; from shmtensor.service import Service\n"
            "path = sys.argv[1] if '/' in sys.argv[1] else None\n"
            "Service(sys.argv[1], socket=path).publish('weights', T.ones(1000))\n"
            "print('ready', flush=True); sys.stdin.read()",
            name,
        )
        assert owner.line() == "ready"
        text = run(_AS_OTHER + _LOOKS, name, _GROUP).finish()
        assert text.count("status 0\n") == 4
        assert 'shmtensor_name_bytes{session="' in text
        assert f"{server.pid}" in text and f"{owner.process.pid}" in text
        assert closed not in text
        own, state, mine = text.splitlines()[-3:]
        assert name in own
        assert state == str([(name, ["weights"])])
        assert mine == "[]"
        owner.kill()  # or it starts the next manager, in a directory that is removed


def test_strangers_are_told_why_they_see_nothing(run: type[programs.Program]) -> None:
    with programs.serving("--group", _GROUP) as (name, _):
        text = "print(_cli.main(['ls', '--owner', 'root', '-s', name]), file=sys.stderr)"
        stranger = run(_AS_OTHER + text, name)
        out, err = stranger.process.communicate(timeout=programs.WAIT_S)
        assert out == ""
        assert err == (
            f"shmtensor: no service of user 0 that you may join is '{name}' "
            "(shmtensor serve --group)\n1\n"
        )


_IMPOSTOR = """
import array, socket
address = inspect.live_addresses(0)  # none of them is ours
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(f"\\0shmtensor-0-{int(name):016x}")
listener.listen()
print("listening", flush=True)
listener.settimeout(60)
connection, _ = listener.accept()
print(connection.recv(256), flush=True)
"""


@pytest.mark.check
def test_a_socket_under_another_users_name_is_not_asked(run: type[programs.Program]) -> None:
    """Any user can take the name; the kernel tells whose socket it is."""
    from shmtensor import inspect

    number = os.getpid() << 20
    impostor = run(_AS_OTHER + _IMPOSTOR, str(number))
    assert impostor.line() == "listening"
    _, refused = inspect.find_sessions()
    (found,) = [u for u in refused if u.name == f"{number:016x}"]
    assert "not of user 0" in found.reason
    assert impostor.line() == "b''"  # closed, nothing was said


def test_owner_looks_at_a_service_whose_socket_root_made(run: type[programs.Program]) -> None:
    """As systemd does."""
    path = Path("/tmp") / programs.unused_name()
    server = run(
        "import socket\n"
        "listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "import os, sys; listener.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o666)\n"
        "listener.listen(); os.dup2(listener.fileno(), 3)\n"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')\n"
        + _AS_OTHER
        + "Service('any', socket=name)._handle.serve(0, 0, -1)",
        str(path),
    )
    try:
        assert "is ready" in server.line()
        looks = "(session,) = inspect.open_sessions(name); print(session.manager_pid())"
        assert run(_AS_OTHER + looks, str(path)).finish() == f"{server.process.pid}\n"
    finally:
        path.unlink()
