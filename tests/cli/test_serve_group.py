"""Groups to which a service is opened: numbers that no group can have are refused.

Not covered: who may join then (tests/service/test_serve.py).
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import service_programs as programs
import waiting

from shmtensor import _cli

# The first number that is none; what C would cut to groups 0 and 100; more than C has.
_NONE = [2**32 - 1, 2**32, 2**32 + 100, 2**63, 10**30]


@pytest.mark.check
@pytest.mark.parametrize("number", _NONE)
def test_number_that_no_group_has_is_wrong_use(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        _cli._parser().parse_args(["serve", "--group", str(number)])
    assert end.value.code == 2
    assert f"no group has the number {number}" in capsys.readouterr().err


@pytest.mark.parametrize("number", [n for n in _NONE if n < 2**63])
def test_the_core_refuses_it_too(number: int) -> None:
    text = "import sys; from shmtensor.service import Service; "
    text += "Service(sys.argv[1])._handle.serve(0, 0, int(sys.argv[2]))"
    done = subprocess.run(  # in a process of its own, which would become the manager
        [sys.executable, "-c", text, programs.unused_name(), str(number)],
        env=programs.environment(),
        capture_output=True,
        text=True,
        timeout=waiting.HANG_S,
        check=False,
    )
    assert f"ValueError: serve: no group has the number {number}" in done.stderr
