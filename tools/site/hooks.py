"""What MkDocs lacks for this site.

- Pages below `tree/` for what the documents link to outside `docs/`: other Markdown files, and
  source files with their text highlighted. A file that is named in backticks is linked too.
- Entries of the navigation that stand for many pages: `reference*` and `adr/*`.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "csrc", "docs", "examples", "shmtensor", "tests", "tools")
LANGUAGES = {".c": "c", ".h": "c", ".py": "python", ".yaml": "yaml", ".sh": "sh", ".pyi": "python"}
# How search weighs pages: what tells how to use something before why it is so.
BOOSTS = {"adr/": 0.3, "tree/csrc/": 0.3, "tree/": 0.6, "reference/": 1.5}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
# A path in backticks that is not the text of a link already.
NAMED = re.compile(r"(?<!\[)`((?:" + "|".join(FOLDERS) + r")/[\w./-]+)`(?!\])")
# Code, in which nothing is a link: blocks, and spans with other things than a path.
CODE = re.compile(r"(^(`{3,}|~{3,})[^\n]*\n.*?^\2[^\n]*$)", re.S | re.M)


def _site_path(repository_path: str) -> str | None:
    """Return the page of a path below the root; None: there is none."""
    path = ROOT / repository_path
    if path.is_dir():
        path /= "README.md"
        repository_path = posixpath.join(repository_path, "README.md")
    if not path.is_file():
        return None
    if repository_path.startswith("docs/"):
        return repository_path.removeprefix("docs/")
    return "tree/" + repository_path + ("" if path.suffix == ".md" else ".md")


def _repository_path(site_path: str) -> str:
    """Return the path below the root that a page of the site shows."""
    if not site_path.startswith("tree/"):
        return "docs/" + site_path
    path = site_path.removeprefix("tree/")
    return path if (ROOT / path).is_file() else path.removesuffix(".md")


def _with_links(text: str, site_path: str, used: set[str]) -> str:
    """Return a document whose links lead to pages of the site; these are added to *used*."""
    here = _repository_path(site_path)

    def page_of(repository_path: str) -> str | None:
        page = _site_path(repository_path)
        if page is not None:
            used.add(page)
        return page

    def link(match: re.Match[str]) -> str:
        target, _, anchor = match[2].partition("#")
        if not target or re.match(r"\w+:", target):
            return match[0]
        page = page_of(posixpath.normpath(posixpath.join(posixpath.dirname(here), target)))
        if page is None:
            return match[0]  # MkDocs reports it
        way = posixpath.relpath(page, posixpath.dirname(site_path) or ".")
        return match[1] + way + ("#" + anchor if anchor else "") + match[3]

    def named(match: re.Match[str]) -> str:
        path = match[1].rstrip("/")
        page = page_of(path) if path != here else None
        if page is None:
            return match[0]
        return f"[`{match[1]}`]({posixpath.relpath(page, posixpath.dirname(site_path) or '.')})"

    parts = CODE.split(text)
    # Of three parts one is text, one a block, one its fence.
    for i in range(0, len(parts), 3):
        parts[i] = NAMED.sub(named, LINK.sub(link, parts[i]))
    del parts[2::3]
    return "".join(parts)


def _text_of(site_path: str) -> str:
    """Return the Markdown of a page below `tree/`."""
    path = ROOT / _repository_path(site_path)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    fence = "`" * max(4, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    name = path.relative_to(ROOT).as_posix()
    language = LANGUAGES.get(path.suffix, "text")
    front = f"---\ntitle: {name}\nsearch: {{exclude: true}}\nhide: [toc]\n---\n"
    return f'{front}# {name}\n\n{fence}{language} linenums="1"\n{text.rstrip()}\n{fence}\n'


def _is_source(site_path: str) -> bool:
    return site_path.startswith("tree/") and (ROOT / _repository_path(site_path)).suffix != ".md"


def _title(path: Path) -> str:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").strip()
    return path.stem


def _operators() -> list[Any]:
    """Return the navigation of the reference: the index, families, their pages."""
    index = (ROOT / "docs/reference/README.md").read_text(encoding="utf-8")
    nav: list[Any] = [{"All operators": "reference/README.md"}]
    for family in index.split("\n## ")[1:]:
        title = family.splitlines()[0]
        links = re.findall(r"^- \*\*\[(.+?)\]\((.+?)\)", family, re.M)
        pages = [{name: f"reference/{page}"} for name, page in links]
        nav.append({title: next(iter(pages[0].values())) if len(pages) == 1 else pages})
    nav += [{"Element types": "reference/dtypes.md"}, {"Environment": "reference/environment.md"}]
    return nav


def _decisions() -> list[Any]:
    paths = sorted((ROOT / "docs/adr").glob("*.md"))
    titles = [re.sub(r"^\d+\. ", "", _title(path)) for path in paths]  # some have their number
    return [
        {f"{path.stem[:4]} {title}": f"adr/{path.name}"}
        for path, title in zip(paths, titles, strict=True)
    ]


def _expanded(entry: Any) -> Any:
    """Return an entry of the navigation with patterns and paths of the repository resolved."""
    if isinstance(entry, dict):
        return {title: _expanded(value) for title, value in entry.items()}
    if isinstance(entry, list):
        return [_expanded(value) for value in entry]
    if entry == "reference*":
        return _operators()
    if entry == "adr/*":
        return _decisions()
    return "tree/" + entry.removeprefix("../") if entry.startswith("../") else entry


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of patterns into the navigation."""
    config.nav = _expanded(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages below `tree/` that documents lead to."""
    waiting = {file.src_uri for file in files if file.is_documentation_page()}
    waiting |= set(re.findall(r"tree/[^'\"]+", str(config.nav)))
    done: set[str] = set()
    while waiting:
        page = waiting.pop()
        done.add(page)
        path = ROOT / _repository_path(page)
        if not page.endswith(".md") or _is_source(page):
            continue
        used: set[str] = set()
        _with_links(path.read_text(encoding="utf-8"), page, used)
        waiting |= used - done
    for page in sorted(done):
        if page.startswith("tree/") and page.endswith(".md"):
            files.append(File.generated(config, page, content=_text_of(page)))
    # The decisions and sources that the navigation leaves out are reached by links.
    for file in files:
        if file.src_uri.startswith("tree/") and file.src_uri not in str(config.nav):
            file.inclusion = file.inclusion.__class__.NOT_IN_NAV
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links lead to pages of the site; give pages their title and weight in search."""
    if _is_source(page.file.src_uri):
        return markdown
    for folder, boost in BOOSTS.items():
        if page.file.src_uri.startswith(folder):
            page.meta.setdefault("search", {"boost": boost})
    # A page whose first line is a comment has no title.
    markdown = re.sub(r"\A<!--.*?-->\n", "", markdown)
    return _with_links(markdown, page.file.src_uri, set())
