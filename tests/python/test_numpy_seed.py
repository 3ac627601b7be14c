"""Seeding NumPy's generator in a process that has not loaded NumPy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from shmtensor._numpy_seed import seed_numpy


def output_of(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def first_number(seed: int) -> str:
    return str(np.random.RandomState(seed).rand())


@pytest.mark.check
def test_importing_the_package_does_not_load_numpy() -> None:
    program = "import sys, shmtensor, shmtensor.utils.data; print('numpy' in sys.modules)"
    assert output_of(program) == "False"


def test_numpy_is_seeded_when_the_program_loads_it() -> None:
    program = """
import sys
from shmtensor._numpy_seed import seed_numpy
before = list(sys.meta_path)
seed_numpy(lambda: 1)
seed_numpy(lambda: 7)
assert "numpy" not in sys.modules
import numpy.random as random
assert sys.meta_path == before
assert random.__spec__.loader is random.__loader__
print(random.rand())
"""
    assert output_of(program) == first_number(7)


@pytest.mark.check
def test_loaded_numpy_is_seeded_at_once() -> None:
    state = np.random.get_state()
    try:
        seed_numpy(lambda: 3)
        assert str(np.random.rand()) == first_number(3)
    finally:
        np.random.set_state(state)


def test_a_failing_seed_is_the_importers_error() -> None:
    program = """
import sys
from shmtensor._numpy_seed import seed_numpy
seed_numpy(lambda: -1)
try:
    import numpy.random
except ValueError as error:
    print(error)
"""
    assert "must be between 0 and" in output_of(program)
