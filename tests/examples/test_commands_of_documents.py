"""The commands that documents show: sub-commands, options, targets, extras and programs exist."""

from __future__ import annotations

import argparse
import configparser
import re
import shlex
import sys
from pathlib import Path

import pytest
from documents import DOCUMENTS, ROOT, blocks, identity, programs

from shmtensor import _cli

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

# Where a command may begin: at a prompt, behind variables, behind what runs it.
COMMAND = re.compile(r"(?:^|(?<=\s)|(?<=\$ )|(?<==))((?:shmtensor|make|python3?|pip) [^\s\d].*)")
# Python files that only readers have: their own, those of an example of use.
OF_READERS = ("train.py", "program.py", "publish.py", "use.py", "path/to/python")


def commands(document: Path) -> list[str]:
    """Return the commands of blocks, indented lines and spans of code."""
    text = document.read_text()
    lines: list[str] = []
    for block in blocks(document):
        if block.language in ("", "sh", "text", "ini"):
            of_block = block.text.replace("\\\n", " ").splitlines()
            # Where there is a prompt, or text, the other lines are output.
            shown = [x for x in of_block if x.startswith(("$ ", "docker "))]
            lines += shown if shown or block.language == "text" else of_block
    lines += re.findall(r"^    (\w.*)", text, re.M)
    # In prose only what begins with the command: "`x = make y`" is none.
    spans = re.findall(r"(?<!`)`((?:shmtensor|make|python3?|pip) [^`\n]+)`", text)
    found = [match[1] for line in lines if (match := COMMAND.search(_uncommented(line)))]
    return found + spans


def _uncommented(line: str) -> str:
    return re.sub(r"\s+#.*", "", line.removeprefix("$ "))


def _words(command: str) -> list[str]:
    # In a synopsis brackets say that an option may be left out.
    is_synopsis = command.startswith("shmtensor ")
    return shlex.split(re.sub(r"[\[\]]", " ", command) if is_synopsis else command)


def _sub_parsers() -> dict[str, argparse.ArgumentParser]:
    (sub,) = (a for a in _cli._parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(sub.choices)


def _problem_of_shmtensor(words: list[str]) -> str:
    name, *rest = words
    if name.isupper() or name == "--help" or name == "--version":
        return ""
    parser = _sub_parsers().get(name)
    if parser is None:
        return f"no command {name}"
    known = parser._option_string_actions
    for word in rest:
        option = word.split("=")[0]
        if word.endswith(".py") or word == "-m":
            break  # what follows belongs to the program
        if option.startswith("-") and option not in known:
            return f"{name} has no option {option}"
    return ""


def _problem_of_make(words: list[str]) -> str:
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", text, re.M))
    for word in words:
        name, _, value = word.partition("=")
        if value:
            if not re.search(rf"\b{name}\b", text):
                return f"no variable {name}"
        elif word not in targets:
            return f"no target {word}"
    return ""


def _problem_of_python(words: list[str], own: set[str]) -> str:
    words = [word for word in words if word not in ("-X", "faulthandler", "-B", "-c")]
    if not words:
        return ""
    if words[0] == "-m":
        path = words[1].replace(".", "/")
        roots = (ROOT, ROOT / "csrc")
        files = [r / p for r in roots for p in (path + ".py", path + "/__main__.py")]
        known = {"pytest", "venv", "pip"}
        return "" if words[1] in known or any(f.is_file() for f in files) else f"no {words[1]}"
    program = words[0]
    if program in own or program in OF_READERS or program.startswith("-"):
        return ""
    if not (ROOT / program).is_file():
        return f"no file {program}"
    text = (ROOT / program).read_text()
    shared = {"examples": ROOT / "examples/common", "benchmarks": ROOT / "benchmarks"}
    folder = shared.get(program.split("/")[0])
    text += "".join(path.read_text() for path in folder.glob("*.py")) if folder else ""
    for word in words[1:]:
        if word.startswith("--") and word != "--" and word.split("=")[0] not in text:
            return f"{program} has no option {word}"
    return ""


def _problem_of_pip(words: list[str]) -> str:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for names in re.findall(r"(?:shmtensor|\.)\[([\w,]+)\]", " ".join(words)):
        for name in names.split(","):
            if name not in extras:
                return f"no extra {name}"
    return ""


def problem(command: str, own: set[str]) -> str:
    """Return what is wrong with a command, or nothing."""
    program, *words = _words(command)
    # A word in capitals stands for what the reader puts there; what ends a clause is no word.
    words = [word.rstrip(",;") for word in words if word not in ("...", "…", "|", "&&")]
    if program == "shmtensor":
        return _problem_of_shmtensor(words) if words else ""
    if program == "make":
        return _problem_of_make(words)
    return _problem_of_pip(words) if program == "pip" else _problem_of_python(words, own)


@pytest.mark.parametrize("document", DOCUMENTS, ids=identity)
def test_commands_of_documents_exist(document: Path) -> None:
    own = {name for text in programs(document) for name in re.findall(r"^# (\w+\.py)", text)}
    problems = {c: p for c in commands(document) if (p := problem(c, own))}
    assert problems == {}


@pytest.mark.parametrize("document", DOCUMENTS, ids=identity)
def test_unit_files_of_documents_are_well_formed(document: Path) -> None:
    for block in blocks(document):
        if block.language == "ini":
            parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
            parser.read_string(block.text)
            assert parser.sections()


@pytest.mark.check
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("shmtensor ls --blocks", ""),
        ("shmtensor ls --bricks", "ls has no option --bricks"),
        ("shmtensor list", "no command list"),
        ("make demo", ""),
        ("make demon", "no target demon"),
        ("make fuzz SECONDS=60", ""),
        ("make fuzz MINUTES=60", "no variable MINUTES"),
        ("pip install 'shmtensor[mpi]'", ""),
        ("pip install '.[nothing]'", "no extra nothing"),
        ("python examples/hogwild.py --workers 2", ""),
        ("python examples/hogwild.py --wrokers 2", "examples/hogwild.py has no option --wrokers"),
        ("python examples/hogwilder.py", "no file examples/hogwilder.py"),
    ],
)
def test_wrong_commands_are_found(command: str, expected: str) -> None:
    assert problem(command, set()) == expected
