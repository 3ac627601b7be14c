"""The two programs of docs/service.md run as they stand, but for how often they go round."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import service_programs as programs

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "service.md"


@pytest.mark.check
def test_programs_of_the_page_work_together(run: type[programs.Program]) -> None:
    trainer, worker = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.S)[:2]
    env = {"SHMTENSOR_SERVICE": programs.unused_name()}
    assert "range(1000)" in trainer
    assert "while True:" in worker
    user = run(worker.replace("while True:", "while version < 3:"), env=env)
    run(trainer.replace("range(1000)", "range(3)"), env=env).finish()
    assert user.finish().splitlines()[-1].startswith("3 ")
    run("from shmtensor import service; service.unpublish('weights')", env=env).finish()


def test_queue_of_the_page_carries_jobs(run: type[programs.Program]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.S)
    giver = next(b for b in blocks if b.startswith("# giver.py"))
    taker = next(b for b in blocks if b.startswith("# taker.py"))
    env = {"SHMTENSOR_SERVICE": programs.unused_name()}
    assert "while True:" in taker
    first = run(giver, env=env)
    user = run(taker.replace("while True:", "for _ in range(10):"), env=env)
    first.finish()
    assert user.finish().splitlines() == [f"{i} 0.0" for i in range(10)]


def _talking(first: str) -> str:
    page = _PAGE.with_name("talk.md").read_text()
    return next(
        b for b in re.findall(r"```python\n(.*?)```", page, re.S) if b.startswith(f"# {first}.py")
    )


def test_topic_of_the_page_shows_frames(run: type[programs.Program]) -> None:
    env = {"SHMTENSOR_SERVICE": programs.unused_name()}
    viewer = run(_talking("viewer"), env=env)
    camera = run(_talking("camera"), env=env)
    seen = [float(viewer.line().split()[0]) for _ in range(3)]
    assert seen == sorted(seen)
    viewer.kill()
    camera.kill()


def test_server_of_the_page_answers(run: type[programs.Program]) -> None:
    env = {"SHMTENSOR_SERVICE": programs.unused_name()}
    asks = run(_talking("ask"), env=env)
    run(_talking("double"), env=env)
    assert asks.finish() == "[0 2 4] 42\n"


def test_event_of_the_page_starts_a_worker(run: type[programs.Program]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.S)
    worker = next(b for b in blocks if b.startswith("# worker.py") and "Event" in b)
    control = next(b for b in blocks if b.startswith("# control.py"))
    several = next(b for b in blocks if "wait_any" in b)
    env = {"SHMTENSOR_SERVICE": programs.unused_name()}
    waits = run(worker, env=env)
    # The event lives while somebody has it open: the worker may come later.
    sets = run(control + "import sys; sys.stdin.readline()", env=env)
    assert waits.line() == "started"
    sets.say()
    sets.finish()
    waits.finish()
    assert run(several, env=env).finish() == "stopped\n"


def test_careful_taker_of_the_page_acknowledges(run: type[programs.Program]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.S)
    giver = next(b for b in blocks if b.startswith("# giver.py"))
    taker = next(b for b in blocks if b.startswith("# careful_taker.py"))
    env = {"SHMTENSOR_SERVICE": programs.unused_name()}
    assert "while True:" in taker and "maxsize=100" in giver
    user = run(taker.replace("while True:", "for _ in range(10):"), env=env)
    run(giver.replace("maxsize=100", "max_deliveries=5"), env=env).finish()
    assert user.finish().splitlines() == [f"{i} 1" for i in range(10)]
