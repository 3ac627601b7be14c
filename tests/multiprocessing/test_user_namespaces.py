"""User namespaces, where the kernel shows every user that it cannot name there as one number."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from member_programs import can_unshare

_SHARE = """
import shmtensor as st
try:
    x = st.ones(3, shared=True)
except st.errors.ManagerError as error:
    print("refused:", error)
else:
    print(x.sum().item())
"""


def _python(flags: tuple[str, ...], program: str, **environment: str) -> str:
    command = ("unshare", *flags) if flags else ()
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    result = subprocess.run(
        [*command, sys.executable, "-c", program],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    return result.stdout.strip()


needs_user_namespaces = pytest.mark.skipif(
    not can_unshare("--user", "--map-root-user"), reason="user namespaces cannot be made here"
)


@pytest.mark.check
@needs_user_namespaces
@pytest.mark.parametrize("flags", [("--user",), ("--user", "--map-user=65534")])
def test_who_cannot_be_told_from_strangers_does_not_share(flags: tuple[str, ...]) -> None:
    said = _python(flags, _SHARE)
    assert said.startswith("refused: ")
    assert "user 65534" in said


@needs_user_namespaces
def test_a_service_of_that_user_is_refused() -> None:
    program = """
import subprocess, sys
command = [sys.executable, "-m", "shmtensor", "serve", "--name", "strangers"]
result = subprocess.run(command, capture_output=True, text=True, timeout=60)
assert result.returncode != 0
print(result.stdout + result.stderr)
"""
    assert "user 65534" in _python(("--user", "--map-user=65534"), program)


@pytest.mark.check
@needs_user_namespaces
def test_a_mapped_user_shares() -> None:
    assert _python(("--user", "--map-root-user"), _SHARE) == "3.0"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_nobody_shares_where_all_users_are_mapped() -> None:
    become = "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    assert _python((), f"import shmtensor\n{become}{_SHARE}") == "3.0"


_STRANGER = """
import socket, struct, sys
peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
peer.bind("")
peer.listen()
from shmtensor.distributed import _shm_meeting
from shmtensor._boundary.process import is_known_user
client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
client.connect(peer.getsockname())
print(_shm_meeting._same_user(client), is_known_user(65534), is_known_user(0))
"""


@needs_user_namespaces
def test_ranks_take_nobody_for_the_same_user_whom_they_cannot_name() -> None:
    assert _python(("--user", "--map-user=65534"), _STRANGER) == "False False True"
    assert _python(("--user", "--map-root-user"), _STRANGER) == "True False True"
    assert _python((), _STRANGER) == "True True True"
