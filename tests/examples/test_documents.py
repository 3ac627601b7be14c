"""What the documents say is there: their programs run, their links and files exist.

Programs of a page that need each other run in order. Those of docs/service.md and docs/talk.md go
round for ever and are run by tests/service/test_docs.py, those of docs/posix.md by
tests/posix/test_docs.py; docs/tutorial.md by test_tutorial.py; those of docs/containers.md by
tests/service/test_containers.py; the operator of examples/add_an_operator by
test_add_an_operator.py; docs/c-api.md by tests/capi. Commands: test_commands_of_documents.py.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from documents import (
    DOCUMENTS,
    MADE_BY_TOOLS,
    ROOT,
    blocks,
    identity,
    programs,
    without_code,
)
from mpi_ranks import require_mpi
from programs import own_session

RUN_ELSEWHERE = (
    "docs/c-api.md",
    "docs/containers.md",
    "docs/posix.md",
    "docs/service.md",
    "docs/talk.md",
    "docs/tutorial.md",
    "examples/add_an_operator/README.md",
)
IN_ORDER = ("docs/from-shared-memory.md", "docs/model-server.md")
# Languages whose blocks are tested: commands by test_commands_of_documents.py, the operator's entry
# and kernel by test_add_an_operator.py. Output and drawings have "" or "text".
LANGUAGES = {"python", "", "text", "sh", "ini", "yaml", "c", "cpp"}

GROUPS = [
    pytest.param(group, id=f"{identity(path)}-{i}")
    for path in DOCUMENTS
    if identity(path) not in RUN_ELSEWHERE
    for i, group in enumerate(
        [programs(path)] if identity(path) in IN_ORDER else [[text] for text in programs(path)]
    )
]


@pytest.mark.parametrize("group", GROUPS)
def test_programs_of_documents_run(group: list[str], tmp_path: Path) -> None:
    if any("hogwild.Nodes" in program for program in group):
        require_mpi()
    if any("import torch\n" in program and "as_torch" not in program for program in group):
        pytest.importorskip("torch", reason="torch is not installed")
    env = {**own_session(), "SHMTENSOR_SERVICE": f"test-{os.getpid()}-{secrets.token_hex(8)}"}
    for i, program in enumerate(group):
        path = tmp_path / f"program_{i}.py"
        path.write_text(program)
        subprocess.run([sys.executable, str(path)], check=True, timeout=120, cwd=tmp_path, env=env)


@pytest.mark.parametrize("document", DOCUMENTS, ids=identity)
def test_blocks_of_documents_have_known_languages(document: Path) -> None:
    languages = {block.language for block in blocks(document)}
    assert languages <= LANGUAGES
    if identity(document) not in RUN_ELSEWHERE:
        assert not languages & {"yaml", "c"}, "nothing would test these"


@pytest.mark.parametrize("document", DOCUMENTS, ids=identity)
def test_blocks_without_a_language_are_no_programs(document: Path) -> None:
    for block in blocks(document):
        if block.language in ("", "text"):
            assert not re.match(r"import [\w.]+( as \w+)?\n|from [\w.]+ import ", block.text), (
                block.text
            )


@pytest.mark.parametrize("document", DOCUMENTS, ids=identity)
def test_links_of_documents_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(document.read_text()))
    found = [link.split("#")[0] for link in links]
    found = [link for link in found if link and not link.startswith("http")]
    assert [link for link in found if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=identity)
def test_files_that_documents_name_exist(document: Path) -> None:
    named = re.findall(r"`([\w./-]+\.(?:py|[ch]|yaml|md|sources))`", document.read_text())
    folders = ("csrc", "shmtensor", "tests", "tools", "benchmarks", "examples", "docs")
    files = {"/" + identity(path) for folder in folders for path in (ROOT / folder).rglob("*.*")}
    files |= {"/" + identity(path) for path in ROOT.glob("*.*")}
    missing = [
        name
        for name in sorted(set(named))
        if not name.startswith((*MADE_BY_TOOLS, "api/", "generated/"))
        and not any(file.endswith("/" + name) for file in files)
    ]
    assert missing == []


@pytest.mark.check
def test_contents_name_every_page() -> None:
    contents = (ROOT / "docs/index.md").read_text()
    pages = [
        path.name for path in (ROOT / "docs").glob("*.md") if identity(path) != "docs/parity.md"
    ]
    assert [name for name in sorted(pages) if f"({name})" not in contents] == ["index.md"]
