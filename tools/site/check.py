"""Check the built site: links and anchors lead somewhere, and pages load nothing from outside.

``python tools/site/check.py build/site`` prints what is wrong, and ends with 1 then.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose target a browser fetches to show the page. An <a> is followed by a reader only.
LOADED = {"src", "srcset", "poster", "data"}


class _Page(HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if "href" in values:
            is_loaded = tag == "link" and values.get("rel") not in ("canonical", "next", "prev")
            (self.loads if is_loaded else self.links).append(values["href"])
        self.loads += [values[name] for name in LOADED if name in values]


def _target(page: Path, link: str) -> tuple[Path, str]:
    parts = urlsplit(link)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return path, unquote(parts.fragment)


def _problems_of_page(page: Path, parsed: dict[Path, _Page]) -> list[str]:
    found = []
    for link in parsed[page].loads:
        scheme = urlsplit(link).scheme
        if (scheme and scheme != "data") or link.startswith("//"):
            found.append(f"loads {link}")
        elif not scheme and not _target(page, link)[0].exists():
            found.append(f"loads {link}, which is not there")
    for link in parsed[page].links:
        if urlsplit(link).scheme or link.startswith("//"):
            continue
        path, anchor = _target(page, link)
        if not path.is_file():
            found.append(f"links to {link}, which is not there")
        elif anchor and path in parsed and anchor not in parsed[path].anchors:
            found.append(f"links to {link}, which has no such anchor")
    return found


def problems(site: Path) -> list[str]:
    """Return what is wrong with the site in a folder, a line for each."""
    site = site.resolve()
    # 404.html is for servers and has absolute links.
    pages = [path for path in sorted(site.rglob("*.html")) if path != site / "404.html"]
    parsed = {page: _Page(page.read_text(encoding="utf-8")) for page in pages}
    found = [
        f"{page.relative_to(site)} {problem}"
        for page in pages
        for problem in _problems_of_page(page, parsed)
    ]
    for sheet in sorted(site.rglob("*.css")):
        text = sheet.read_text(encoding="utf-8")
        outside = re.findall(r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\"')]+)", text)
        found += [f"{sheet.relative_to(site)} loads {link}" for link in outside]
    return found if pages else [f"{site} has no pages"]


def main(arguments: list[str]) -> int:
    """Print the problems of the site in a folder."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    found = problems(Path(arguments[0]))
    print("\n".join(found) if found else f"{arguments[0]}: every link leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
