"""Writing generated files: a header that names the source, and no write without a change."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from codegen.emit.layout import wrap

GENERATOR = "csrc/codegen"


@dataclass
class GeneratedFiles:
    """What a run produced.

    Attributes:
        c_files: C sources to compile. Names ending in ``_v3.c`` and ``_v4.c`` are for those
            instruction sets; those under ``python/`` need Python's headers.
        other_files: Headers, Python modules, stubs and pages.
        changed: Those whose text differed from what was there.
        problems: Entries that do not fit, when the run was told to go on.
    """

    c_files: list[Path] = field(default_factory=list)
    other_files: list[Path] = field(default_factory=list)
    changed: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Emitter:
    """Collects the files of one run and writes those that changed.

    Args:
        out_dir: Where generated C goes.
        root: The project's directory; stubs and reference pages go below it.
        check: Only compare, write nothing.
    """

    def __init__(self, out_dir: Path, root: Path, *, check: bool = False) -> None:
        self.out_dir = out_dir
        self.root = root
        self.check = check
        self.result = GeneratedFiles()

    def c_file(self, name: str, what: str, spec: str, body: str) -> None:
        """Add a C source or header below ``out_dir``; headers get an include guard."""
        path = self.out_dir / name
        if name.endswith(".h"):
            guard = "SHMT_GENERATED_" + name.upper().translate(str.maketrans("/.-", "___"))
            body = f"#ifndef {guard}\n#define {guard}\n\n{body.strip()}\n\n#endif\n"
        text = (
            f"/* generated/{name} -- {what}\n"
            f" * Made from {spec} by {GENERATOR}; edit those. */\n\n{wrap(body.strip())}\n"
        )
        self._write(path, text)
        (self.result.c_files if name.endswith(".c") else self.result.other_files).append(path)

    def python_file(self, path: Path, what: str, spec: str, body: str) -> None:
        """Add a Python module or stub below the project's directory."""
        header = f'"""{what}\n\nMade from {spec} by {GENERATOR}; edit those.\n"""\n\n'
        self._write(path, header + body.strip() + "\n")
        self.result.other_files.append(path)

    def page(self, path: Path, spec: str, body: str) -> None:
        """Add a Markdown page below the project's directory."""
        self._write(
            path, f"<!-- Made from {spec} by {GENERATOR}; edit those. -->\n{body.strip()}\n"
        )
        self.result.other_files.append(path)

    def remove_stale(self) -> None:
        """Delete generated files of earlier runs that this run did not make."""
        made = {*self.result.c_files, *self.result.other_files}
        folders = [(self.out_dir, "*.[ch]"), (self.root / "docs" / "reference", "*.md")]
        for folder, pattern in folders:
            for path in sorted(folder.rglob(pattern)):
                with path.open(encoding="utf-8") as file:
                    own = file.readline().startswith(("/* generated/", "<!-- Made from "))
                if own and path not in made and not self.check:
                    path.unlink()

    def _write(self, path: Path, text: str) -> None:
        try:
            if path.read_text(encoding="utf-8") == text:
                return
        except FileNotFoundError:
            pass
        self.result.changed.append(path)
        if not self.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
