"""`shmtensor holders NAME` and `shmtensor ls` on a service with a publisher and readers."""

from __future__ import annotations

import os

import pytest
import service_programs as programs

import shmtensor as T
from shmtensor import _cli, inspect

_PUBLISHER = """
import sys
import shmtensor as T
from shmtensor.service import Service
service = Service(sys.argv[1])
service.publish("model", {"weight": T.zeros(1000), "bias": T.zeros(10)}, persist=True)
print("published", flush=True)
sys.stdin.readline()
"""

_READER = """
import sys
from shmtensor.service import Service
value = Service(sys.argv[1]).attach("model", "ro")
print(len(value), flush=True)
sys.stdin.readline()
"""


@pytest.mark.check
def test_holders_of_a_published_name(capsys: pytest.CaptureFixture[str]) -> None:
    with programs.serving() as (name, _):
        publisher = programs.Program(_PUBLISHER, name)
        reader = None
        try:
            assert publisher.line() == "published"
            reader = programs.Program(_READER, name)
            assert reader.line() == "2"
            assert _cli.main(["holders", "model", "--session", str(reader.process.pid)]) == 0
            out = capsys.readouterr().out
            assert "version" in out
            assert "persists" in out
            assert "2 blocks, 3.9 KiB" in out
            held = {line.split()[0]: line.split()[1:3] for line in out.splitlines()[3:]}
            assert held[str(reader.process.pid)] == ["3.9", "KiB"]
            (session,) = inspect.open_sessions(str(reader.process.pid))
            with session:
                published = session.published("model")
                assert published is not None
                assert (published.nbytes, len(published.blocks)) == (4040, 2)
                assert session.published("other") is None
                assert session.published("x" * 500) is None
        finally:
            publisher.kill()
            if reader is not None:
                reader.kill()


def test_session_without_names_has_none() -> None:
    T.empty(1, shared=True)
    with inspect.Session(os.environ["SHMTENSOR_MANAGER"].removeprefix("@")) as session:
        assert session.published("model") is None
