"""Draw docs/images/dashboard.png: the page of `shmtensor dashboard` while programs talk.

``python tools/site/dashboard_picture.py``; needs playwright and chromium. Look at the picture
before it is committed: it shows figures of the machine that made it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playwright import sync_api

from shmtensor.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/images/dashboard.png"
SERVICE = "factory"
SECONDS = 25  # so that the lines of a minute show something

_HEAD = f"import time; from shmtensor.service import Service; s = Service({SERVICE!r})\n"
#: What the programs do, by the name of their file.
PROGRAMS = {
    "camera.py": """
frames = s.Topic("frames")
while True:
    with frames.loan(480, 640, dtype="uint8", as_="numpy") as frame: frame.fill(7)
    time.sleep(1 / 60)
""",
    "viewer.py": """
for frame in s.Topic("frames").subscribe(): frame.sum()
""",
    "detector.py": """
jobs, client = s.Queue("jobs"), s.Client("detect")
for frame in s.Topic("frames").subscribe(): jobs.put(client.call(frame))
""",
    "model.py": """
for request in s.Server("detect"):
    with request: request.reply(request.value[:64].clone())
""",
    "archive.py": """
jobs, full = s.Queue("jobs"), s.Event("disk-full")
while True:
    with jobs.get(ack=True): time.sleep(0.01)
""",
}


@contextmanager
def _program(folder: Path, name: str) -> Iterator[None]:
    path = folder / name
    path.write_text(_HEAD + PROGRAMS[name], encoding="utf-8")
    with subprocess.Popen([sys.executable, name], cwd=folder) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def _page() -> Iterator[str]:
    """Serve the page; return its address."""
    command = [sys.executable, "-m", "shmtensor", "dashboard", "--session", SERVICE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            yield found.group()
        finally:
            server.terminate()


def _look(address: str) -> None:
    with sync_api.sync_playwright() as p:
        browser = p.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        page.wait_for_selector("#topics tr")
        time.sleep(SECONDS)
        page.screenshot(path=PICTURE, full_page=True)
        browser.close()


def main() -> None:
    """Start the programs and the page, look at it, and keep what is seen."""
    folder = ROOT / "build" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    service = Service(SERVICE, start=True)
    frames = service.Topic("frames", depth=8)  # before a program makes it with another depth
    calibration = service.empty(3, 3).fill_(1.0)
    service.publish("calibration", calibration)
    with ExitStack() as stack:
        for name in PROGRAMS:
            stack.enter_context(_program(folder, name))
        _look(stack.enter_context(_page()))
    frames.close()


if __name__ == "__main__":
    main()
