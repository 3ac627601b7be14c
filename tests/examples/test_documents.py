"""What the documents say is there: their programs run, their links and files exist.

The programs of docs/service.md, which need each other, are run by tests/service/test_docs.py, the
operator of examples/add_an_operator by test_add_an_operator.py.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/adr").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    ROOT / "examples/add_an_operator/README.md",
]
MADE_BY_TOOLS = ("docs/parity.md", "docs/reference/")
PROGRAMS = [
    pytest.param(block, id=f"{path.stem}-{i}")
    for path in DOCUMENTS
    if path.stem != "service" and path.parent.name != "add_an_operator"
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.S))
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_of_documents_run(program: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(program)
    env = {**os.environ, "SHMTENSOR_SERVICE": f"test-{os.getpid()}-{secrets.token_hex(8)}"}
    subprocess.run([sys.executable, str(path)], check=True, timeout=120, cwd=tmp_path, env=env)


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=_id)
def test_links_of_documents_lead_to_files(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    found = [link for link in links if link and not link.startswith("http")]
    assert [link for link in found if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=_id)
def test_files_that_documents_name_exist(document: Path) -> None:
    named = re.findall(r"`([\w./-]+\.(?:py|[ch]|yaml|md|sources))`", document.read_text())
    folders = ("csrc", "shmtensor", "tests", "tools", "benchmarks", "examples", "docs")
    files = {"/" + _id(path) for folder in folders for path in (ROOT / folder).rglob("*.*")}
    files |= {"/" + _id(path) for path in ROOT.glob("*.*")}
    missing = [
        name
        for name in sorted(set(named))
        if not name.startswith((*MADE_BY_TOOLS, "api/", "generated/"))
        and not any(file.endswith("/" + name) for file in files)
    ]
    assert missing == []
