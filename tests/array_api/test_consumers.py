"""Libraries that work with any array by the standard take tensors: none of them knows shmtensor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shmtensor as T
from shmtensor import array_api as xp


@pytest.mark.check
def test_array_api_compat_finds_the_namespace() -> None:
    compat = pytest.importorskip("array_api_compat")
    x = T.ones(2, 3)
    assert compat.array_namespace(x, T.ones(1)) is xp
    assert compat.is_array_api_obj(x)
    assert not compat.is_torch_array(x)
    assert compat.device(x) == T.device("cpu")
    assert compat.size(x) == 6
    assert compat.to_device(x, "cpu") is x


@pytest.mark.check
def test_array_api_extra_calculates_with_tensors() -> None:
    extra: Any = pytest.importorskip("array_api_extra")
    x = T.arange(6.0).reshape(2, 3)
    assert extra.cov(x).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert extra.kron(T.eye(2), T.ones(1, 2)).tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    assert extra.pad(T.ones(2), 1).tolist() == [0.0, 1.0, 1.0, 0.0]
    assert extra.setdiff1d(T.tensor([3, 1, 2]), T.tensor([1])).tolist() == [2, 3]
    assert extra.isclose(x, x + 1e-9).all().item() is True
    assert extra.one_hot(T.tensor([0, 2]), 3).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert extra.nunique(T.tensor([1, 1, 2])).item() == 2
    assert extra.apply_where(x > 2, x, lambda a: a * 2, lambda a: a * 0).tolist()[1] == [6, 8, 10]
    assert extra.at(x, (0, 0)).set(5.0, copy=True)[0, 0].item() == 5.0
    assert x[0, 0].item() == 0.0


@pytest.mark.parametrize("library", ["scipy", "sklearn"])
def test_libraries_give_tensors_for_tensors(library: str) -> None:
    pytest.importorskip(library)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", Path(__file__).with_name("consumer_calls.py"), library],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert len(lines) > 10
    wrong = [
        line
        for line in lines
        if line[2] != "same" or line[1] != ("float" if "_score" in line[0] else "tensor")
    ]
    assert wrong == []
