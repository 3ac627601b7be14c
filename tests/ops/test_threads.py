"""Operators that run on several threads give the same result as on one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ops.samples import array, tensor

import shmtensor

_RNG = np.random.default_rng(3)
_ROWS = _RNG.normal(size=(300, 400)).astype(np.float32)
_INDEX = _RNG.integers(0, 40, (300, 400))
_LINE = _RNG.integers(0, 7, 300)
_MASK = _RNG.random((5, 200, 150)) < 0.3
_COUNTED = _RNG.integers(0, 900, 300_000)
_BOUNDS = np.sort(_RNG.normal(size=(4, 33)).astype(np.float32), 1)
_SOUGHT = _RNG.normal(size=(4, 5000)).astype(np.float32)

_NUMBERS = pytest.mark.parametrize("threads", [1, 2, 3], indirect=True)


def _rows_in_turn(x: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    result = x.copy()
    for row, value in zip(rows, values, strict=True):
        result[row] = value
    return result


def _put_rows() -> shmtensor.Tensor:
    result = tensor(_ROWS).clone()
    result[tensor(_LINE)] = tensor(_ROWS[::-1].copy())
    return result


def _put_columns() -> shmtensor.Tensor:
    result = tensor(_ROWS).clone()
    result[:, tensor(_LINE)] = tensor(_ROWS[:, :300].copy())
    return result


def _scattered(add: bool) -> np.ndarray:
    result = _ROWS.copy()
    rows = np.arange(300)
    for column, index in zip(_ROWS.T, _INDEX.T, strict=True):
        result[rows, index] = result[rows, index] + column if add else column
    return result


_CASES: dict[str, tuple[Callable[[], shmtensor.Tensor], Callable[[], np.ndarray]]] = {
    "index_put rows": (_put_rows, lambda: _rows_in_turn(_ROWS, _LINE, _ROWS[::-1])),
    "index_put columns": (
        _put_columns,
        lambda: _rows_in_turn(_ROWS.T, _LINE, _ROWS[:, :300].T).T,
    ),
    "scatter": (
        lambda: tensor(_ROWS).scatter(1, tensor(_INDEX), tensor(_ROWS)),
        lambda: _scattered(add=False),
    ),
    "scatter_add": (
        lambda: tensor(_ROWS).scatter_add(1, tensor(_INDEX), tensor(_ROWS)),
        lambda: _scattered(add=True),
    ),
    "nonzero": (lambda: tensor(_MASK).nonzero(), lambda: np.argwhere(_MASK)),
    "nonzero of a line": (
        lambda: tensor(_MASK.reshape(-1)).nonzero(),
        lambda: np.argwhere(_MASK.reshape(-1)),
    ),
    "bincount": (
        lambda: shmtensor.bincount(tensor(_COUNTED), minlength=1000),
        lambda: np.bincount(_COUNTED, minlength=1000),
    ),
    "bincount of large numbers": (
        lambda: shmtensor.bincount(tensor(_COUNTED * 11)),
        lambda: np.bincount(_COUNTED * 11),
    ),
    "arange": (
        lambda: shmtensor.arange(5, 900_005, 3),
        lambda: np.arange(5, 900_005, 3),
    ),
    "cumsum": (
        lambda: tensor(_INDEX).cumsum(0),
        lambda: np.cumsum(_INDEX, 0),
    ),
    "searchsorted": (
        lambda: shmtensor.searchsorted(tensor(_BOUNDS), tensor(_SOUGHT), right=True),
        lambda: np.stack(
            [np.searchsorted(b, v, "right") for b, v in zip(_BOUNDS, _SOUGHT, strict=True)]
        ),
    ),
}


@pytest.mark.parametrize("name", list(_CASES))
@_NUMBERS
def test_several_threads_give_what_one_gives(name: str, threads: int) -> None:
    ours, expected = _CASES[name]
    np.testing.assert_array_equal(array(ours()), expected())


@pytest.mark.check
@_NUMBERS
def test_elements_that_share_memory_are_written_in_turn(threads: int) -> None:
    storage = shmtensor.zeros(50_000)
    overlapping = storage.as_strided((40_000, 2), (1, 1))
    index = shmtensor.zeros(40_000, 2, dtype=shmtensor.int64)
    overlapping.scatter_add_(1, index, shmtensor.ones(40_000, 2))
    assert float(storage.sum()) == 80_000.0


@_NUMBERS
def test_negative_numbers_are_not_counted(threads: int) -> None:
    counted = _COUNTED.copy()
    counted[250_000] = -1
    with pytest.raises(RuntimeError, match="non-negative"):
        shmtensor.bincount(tensor(counted))


@pytest.mark.check
@pytest.mark.parametrize("right", [False, True])
def test_nan_comes_after_all_boundaries(right: bool) -> None:
    bounds = np.array([-1.0, 0.0, 0.0, 2.0, np.inf, np.nan, np.nan])
    values = np.array([np.nan, np.inf, 0.0, -0.0, 3.0, -np.inf, -1.0])
    side = "right" if right else "left"
    found = shmtensor.searchsorted(tensor(bounds), tensor(values), right=right)
    np.testing.assert_array_equal(array(found), np.searchsorted(bounds, values, side))


@pytest.mark.skipif("SHMTENSOR_SANITIZER" in os.environ, reason="sanitizers widen frames")
def test_threads_may_have_small_stacks() -> None:
    program = Path(__file__).parent / "small_stack.py"
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
