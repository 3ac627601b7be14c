"""The page in a browser: Playwright with Chromium, its own or the system's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import shmtensor as T

playwright = pytest.importorskip("playwright.sync_api")


@pytest.fixture
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as p:
        try:
            found = p.chromium.launch(
                executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
                args=["--no-sandbox", "--disable-gpu", "--disable-quic"],
            )
        except playwright.Error as error:
            pytest.skip(f"no Chromium: {error}")
        try:
            yield found
        finally:
            found.close()


@pytest.mark.check
def test_page_shows_a_session_as_text_and_tells_when_the_server_is_gone(
    browser: Any, site: Any, hostile: str
) -> None:
    kept = T.zeros(3003, shared=True)
    told = json.loads(site.ask("/state.json").content)["sessions"]
    wanted = next(r for r in told if any(c["label"].startswith("<img") for c in r["clients"]))
    page = browser.new_page(viewport={"width": 390, "height": 844})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append("a dialog was opened"))
    page.on("console", lambda m: problems.append(m.text) if "Security Policy" in m.text else None)
    page.goto(f"{site.server.url()}#{wanted['session']}")
    page.wait_for_selector("#processes tr")
    assert "<img src=x" in page.locator("#processes tr").first.text_content()
    assert page.locator("img").count() == 0
    assert page.locator(".cell.alone").count() >= 1

    # One column, nothing wider than the screen.
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

    # The map is told by keys, too, and a process marks what it holds.
    page.locator("#map").focus()
    page.keyboard.press("Home")
    page.wait_for_selector("#tip:not([hidden])")
    assert "Block" in page.locator("#tip").text_content()
    page.locator("button.pid").first.click()
    page.wait_for_selector("button.pid[aria-pressed=true]")

    page.select_option("#pick", site.session)
    page.wait_for_function("n => document.querySelector('#pick').value === n", arg=site.session)
    site.server.shutdown()
    site.server.socket.close()
    page.wait_for_selector("#alert:not([hidden])")
    assert "does not answer" in page.locator("#alert").text_content()
    assert problems == []
    assert kept.numel() == 3003


_PUBLISHES = """
import sys, shmtensor as T
from shmtensor.service import Service
service = Service(sys.argv[1], start=True)
name = "a name of a value " + "that is rather long " * 4
service.publish(name, T.zeros(3))
kept = [
    service.Queue("queue" + name, max_deliveries=1),
    service.Topic("topic" + name).subscribe(),
    service.Server("server" + name, maxsize=100000),
    service.Event("event" + name),
]
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def service() -> Iterator[str]:
    """The name of a service in which a value with a long name is published."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    name = f"browser-{os.getpid()}"
    with subprocess.Popen(
        [sys.executable, "-c", _PUBLISHES, name],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield name
        finally:
            process.communicate(timeout=60)


@pytest.mark.parametrize("width", [390, 1300])
def test_no_table_is_wider_than_its_card(browser: Any, site: Any, service: str, width: int) -> None:
    told = json.loads(site.ask("/state.json").content)["sessions"]
    (wanted,) = [row for row in told if row["service"] == service]
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(f"{site.server.url()}#{wanted['session']}")
    page.wait_for_selector("#names tr")
    cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
    assert page.evaluate(f"{cut}.map(e => e.getAttribute('aria-labelledby'))") == []
