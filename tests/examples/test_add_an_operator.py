"""The page "Adding an operator", followed to the letter in a copy of the sources.

Objects of the present build are copied too, so that only what the new operator touches is
compiled.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CHECK = """
import math
import shmtensor

a = shmtensor.tensor([0.0, 3.0], requires_grad=True)
b = shmtensor.tensor([0.0, -1.0])
want = [(x + y + math.hypot(x - y, 1)) / 2 for x, y in ((0, 0), (3, -1))]
out = a.smooth_maximum(b)
assert all(abs(x - y) < 1e-6 for x, y in zip(out.tolist(), want)), out
assert type(out.grad_fn).__name__ == "SmoothMaximumBackward0", out.grad_fn
out.sum().backward()
slope = [(1 + (x - y) / math.hypot(x - y, 1)) / 2 for x, y in ((0, 0), (3, -1))]
assert all(abs(x - y) < 1e-6 for x, y in zip(a.grad.tolist(), slope)), a.grad

c = a.detach().clone()
assert c.smooth_maximum_(b) is c
d = shmtensor.empty(2)
assert shmtensor.smooth_maximum(a.detach(), b, out=d) is d
assert c.tolist() == d.tolist() == out.tolist()
whole = shmtensor.tensor([[1], [2]]).smooth_maximum(shmtensor.tensor([3, 4]))
assert whole.shape == (2, 2) and whole.dtype == shmtensor.float32
meta = shmtensor.empty(5, 1, device="meta").smooth_maximum(shmtensor.empty(3, device="meta"))
assert meta.shape == (5, 3)
half = shmtensor.ones(3, dtype=shmtensor.bfloat16)
assert half.smooth_maximum(half).dtype == shmtensor.bfloat16
try:
    shmtensor.smooth_maximum(a)
except TypeError as error:
    assert "smooth_maximum" in str(error), error
else:
    raise AssertionError("a missing argument was accepted")
print("fine")
"""


def copy_tree(target: Path) -> None:
    """The sources and the present objects, as they are while nobody builds."""
    skip = shutil.ignore_patterns("__pycache__", "*.so", "*.pyc")
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with open(build / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for folder in ("csrc", "shmtensor"):
            shutil.copytree(ROOT / folder, target / folder, ignore=skip)
        shutil.copy2(ROOT / "build_ffi.py", target)
        if (build / "native").exists():
            shutil.copytree(build / "native", target / "build" / "native")


def run(command: list[str], cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHONPATH")}
    result = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return result.stdout


@pytest.mark.timeout(900)
@pytest.mark.skipif("SHMTENSOR_SANITIZER" in os.environ, reason="builds without the sanitizer")
def test_one_entry_and_one_line_make_an_operator(tmp_path):
    copy_tree(tmp_path)
    run([sys.executable, str(ROOT / "examples/add_an_operator/apply.py"), "."], tmp_path)
    run([sys.executable, "build_ffi.py"], tmp_path)
    assert run([sys.executable, "-c", CHECK], tmp_path) == "fine\n"
    assert "def smooth_maximum" in (tmp_path / "shmtensor" / "_C.pyi").read_text()
    pages = (tmp_path / "docs" / "reference").rglob("*.md")
    assert any("smooth_maximum" in page.read_text() for page in pages)
