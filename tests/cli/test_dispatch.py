"""The `shmtensor` command finds its sub-commands; what each one does is tested beside it."""

from __future__ import annotations

import pytest

from shmtensor import _cli


@pytest.mark.check
def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        _cli.main(["--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for name in _cli._names():
        assert name in text


@pytest.mark.check
def test_unknown_command_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        _cli.main(["no-such-command"])
    assert end.value.code == 2
    assert "no-such-command" in capsys.readouterr().err


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main([]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("usage: shmtensor")
    assert shown.err == ""
