"""The parts of the package that are loaded when they are first asked for."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

import shmtensor


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("package.nn, package.save, package._conj", id="attributes"),
        pytest.param("from shmtensor import fft, load, _log_softmax", id="from-import"),
        pytest.param("import shmtensor.nn.functional as F; package.optim", id="submodule-first"),
        pytest.param("assert {'nn', 'load', 'add'} <= set(dir(package)); package.nn", id="dir"),
        pytest.param(
            "from threading import Thread\n"
            "found = []\n"
            "ask = lambda: found.append((package.nn.Linear, package.stft))\n"
            "threads = [Thread(target=ask) for _ in range(8)]\n"
            "for t in threads: t.start()\n"
            "for t in threads: t.join()\n"
            "assert len(found) == 8",
            id="threads",
        ),
    ],
)
def test_they_are_found_and_then_stay(code: str) -> None:
    program = (
        "import sys, shmtensor as package\n"
        "assert 'shmtensor.nn' not in sys.modules and not hasattr(package, '__wrapped__')\n"
        f"assert 'shmtensor.nn' not in sys.modules\n{code}\n"
        "assert '__getattr__' not in vars(package) and package.serialization.load is package.load\n"
        "try: package.missing\n"
        "except AttributeError as e: assert str(e) == \"module 'shmtensor' has no attribute "
        "'missing'\"\n"
        "else: raise AssertionError\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_version_is_that_of_the_distribution() -> None:
    assert shmtensor.__version__ == importlib.metadata.version("shmtensor")
