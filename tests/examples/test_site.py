"""The documentation site builds without a warning; tools/site/check.py finds broken links."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from documents import ROOT


def _check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_check", ROOT / "tools/site/check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _newest(*patterns: str) -> float:
    return max(path.stat().st_mtime for pattern in patterns for path in ROOT.glob(pattern))


def _built(tmp_path: Path) -> Path:
    """Build the site, unless `make docs` has built it from what is here now."""
    made = ROOT / "build/site"
    sources = _newest("docs/**/*.md", "*.md", "mkdocs.yml", "examples/**/*.md", "shmtensor/**/*.py")
    if (made / "sitemap.xml").is_file() and (made / "sitemap.xml").stat().st_mtime > sources:
        return made
    site = tmp_path / "site"
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    return site


@pytest.mark.slow
def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    site = _built(tmp_path)
    assert _check().problems(site) == []
    for page in ("index", "tutorial", "reference/index", "adr/0070-documentation-site"):
        assert (site / f"{page}.html").is_file()
    # Docstrings are on the pages of the API.
    for name in ("service.Service.publish", "multiprocessing.queues.Queue.put_many", "hogwild.run"):
        page = (site / f"api/{name.split('.')[0]}.html").read_text()
        assert f'id="shmtensor.{name}"' in page
    # Sources that pages name, and documents outside docs/, are pages too.
    assert (site / "tree/csrc/spec/ops/pointwise/binary.yaml.html").is_file()
    assert (site / "tree/examples/index.html").is_file()


@pytest.mark.check
@pytest.mark.parametrize(
    ("page", "found"),
    [
        ('<a href="b.html#there">', []),
        ('<a href="b.html#gone">', ["a.html links to b.html#gone, which has no such anchor"]),
        ('<a href="c.html">', ["a.html links to c.html, which is not there"]),
        ('<a href="https://example.org">', []),
        ('<img src="x.png">', ["a.html loads x.png, which is not there"]),
        ('<script src="https://example.org/x.js">', ["a.html loads https://example.org/x.js"]),
        (
            '<link rel="stylesheet" href="//example.org/x.css">',
            ["a.html loads //example.org/x.css"],
        ),
    ],
)
def test_check_finds_what_is_broken(page: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f"<html><body>{page}</body></html>")
    (tmp_path / "b.html").write_text('<html><body><h1 id="there">b</h1></body></html>')
    assert _check().problems(tmp_path) == found


def test_check_finds_fonts_from_outside(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<html></html>")
    (tmp_path / "a.css").write_text("@import url(https://example.org/font.css);")
    assert _check().problems(tmp_path) == ["a.css loads https://example.org/font.css"]
