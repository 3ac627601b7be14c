"""The `shmtensor` command finds its sub-commands; what each one does is tested beside it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import waiting

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


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("ls --nope", "usage: shmtensor ls "),  # of the sub-command, not of all
        ("ls --nope", "unrecognized arguments: --nope"),
        ("doctor more", "unrecognized arguments: more"),
        ("top --count -1", "expected a whole number, 0 or more, got '-1'"),
        ("top --count many", "expected a whole number, 0 or more, got 'many'"),
        ("leaks --min-bytes -5", "expected a whole number, 0 or more, got '-5'"),
        ("leaks --older x", "expected seconds, 0 or more, got 'x'"),
        ("holders block:x", "expected a number after block:, got 'x'; a name: name:block:x"),
        ("ls --owner no-such-user", "there is no user 'no-such-user'"),
        ("ls --owner 4294967295", "no user has the number 4294967295"),
    ],
)
def test_wrong_use_names_what_was_expected(
    words: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        _cli.main(words.split())
    assert end.value.code == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_output_that_is_closed_is_written_to_nowhere(closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m shmtensor config --cflags {closed}', sys.executable],
        capture_output=True,
        text=True,
        timeout=waiting.HANG_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_errors_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(["ls", "-s", "/no/such\x1b[2J"]) == 1
    assert capsys.readouterr().err == "shmtensor: there is no socket /no/such\\x1b[2J\n"
