"""examples/cpp: the camera with its viewer, the reader of weights, and how they are compiled.

The interface itself is tested in tests/capi.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "cpp"
WAIT_S = 60
PUBLISHER = """
import sys
import shmtensor
from shmtensor.service import Service

model = shmtensor.nn.Linear(3, 2)
service = Service(sys.argv[1], start=True)
version = service.publish("weights", model)
print(version, f"{model.weight.sum().item():.4f}", f"{model.bias.sum().item():.4f}", flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.skipif("SHMTENSOR_SANITIZER" in os.environ, reason="no sanitizer inside")


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHMTENSOR_")}
    return {**kept, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))}


def compiled(name: str, folder: Path) -> Path:
    """Compile an example as its head comment says."""
    source = EXAMPLES / name
    found = re.search(r"^(?://|.\*) +(g(?:cc|\+\+) .*)$", source.read_text(), re.M)
    assert found is not None
    command = [sys.executable, "-m", "shmtensor", "config", "--cflags", "--libs"]
    flags = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment()
    ).stdout.split()
    words = shlex.split(found[1].replace("$(shmtensor config --cflags --libs)", "FLAGS"))
    at = words.index("FLAGS")
    words = [*words[:at], *flags, *words[at + 1 :]]
    words[words.index(name)] = str(source)
    words[-1] = str(folder / words[-1])
    subprocess.run([*words, "-Wall", "-Wextra", "-Werror"], check=True)
    return Path(words[-1])


@pytest.mark.check
def test_viewer_sees_what_the_camera_publishes(tmp_path: Path) -> None:
    camera = compiled("camera.cpp", tmp_path)
    name = f"test-camera-{os.getpid()}"
    with subprocess.Popen(
        [camera, "--service", name, "--frames", "100000"], env=environment()
    ) as running:
        try:
            viewer = subprocess.run(
                [sys.executable, EXAMPLES / "viewer.py", "--service", name, "--frames", "5"],
                capture_output=True,
                text=True,
                timeout=WAIT_S,
                env=environment(),
                check=False,
            )
        finally:
            running.kill()
    assert viewer.returncode == 0, viewer.stderr
    lines = viewer.stdout.splitlines()
    assert len(lines) == 5
    found = [re.fullmatch(r"\(480, 640, 3\) stripe at (\d+), \d+ missed", line) for line in lines]
    columns = [int(match[1]) for match in found if match is not None]
    assert len(columns) == 5
    assert len(set(columns)) == 5


def test_weights_are_read_in_c(tmp_path: Path) -> None:
    program = compiled("read_weights.c", tmp_path)
    name = f"test-weights-{os.getpid()}"
    with subprocess.Popen(
        [sys.executable, "-c", PUBLISHER, name],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as publisher:
        assert publisher.stdout is not None
        version, weight, bias = publisher.stdout.readline().split()
        done, absent = (
            subprocess.run(
                [program, value, name],
                capture_output=True,
                text=True,
                timeout=WAIT_S,
                env=environment(),
                check=False,
            )
            for value in ("weights", "none")
        )
        publisher.communicate("")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"version {version}, 2 tensors",
        f"weight (2, 3) sum {weight}",
        f"bias (2) sum {bias}",
    ]
    assert absent.returncode == 1
    assert "none" in absent.stderr
