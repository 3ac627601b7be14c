"""Draw docs/images/top.svg: what `shmtensor top` shows of the tutorial's training program.

``python tools/site/top_picture.py``
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from shmtensor._cli import _live, top
from shmtensor._cli._common import chosen_sessions, title

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/images/top.svg"


def _train_program(folder: Path) -> Path:
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(# train\.py\n.*?)```", text, re.S)
    path = folder / "train.py"
    path.write_text(program, encoding="utf-8")
    return path


def _picture(session: str, width: int, height: int) -> Text:
    """Return the screen after three pictures, so that it has rates."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height)
    arguments = argparse.Namespace(session=session)
    before = top._Snapshots()
    with ExitStack() as stack:
        view = _live.LiveView(stack, top._ORDERS, "memory", console)
        view._keyboard = 0  # the picture shows the keys; none is read
        for _ in range(3):
            with chosen_sessions(arguments) as sessions:
                rows = [top._values(s, before) for s in sessions]
                titles = [title(s) for s in sessions]
            time.sleep(1)
        view.show(lambda width, order: (top._heading(rows), top._lines(titles, rows, width, order)))
        return view._text()


def main() -> None:
    """Start the program, look at it, and write the picture."""
    sys.stdout.isatty = lambda: True  # type: ignore[method-assign]  # heads are bold on a terminal
    with tempfile.TemporaryDirectory() as folder:
        path = _train_program(Path(folder))
        command = [sys.executable, path.name]
        program = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert program.stdout is not None
        try:
            while "training" not in program.stdout.readline():
                pass
            text = _picture(str(program.pid), width=96, height=11)
        finally:
            program.terminate()
            program.communicate()
    console = Console(record=True, width=96, file=io.StringIO())
    console.print(text)
    svg = console.export_svg(title="shmtensor top", theme=DIMMED_MONOKAI, unique_id="top")
    # rich names a font of a public server; a reader's own will do.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)
    svg = svg.replace("Fira Code, monospace", "ui-monospace, DejaVu Sans Mono, monospace")
    PICTURE.write_text(
        "\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
