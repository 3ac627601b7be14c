"""cdist and pdist: values against NumPy, NaN, errors, gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st

RNG = np.random.default_rng(11)
A, B = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))


def tensor(a: np.ndarray) -> Any:
    return st.from_numpy(a.copy())


@pytest.mark.check
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, math.inf])
def test_cdist(p: float) -> None:
    got = st.cdist(tensor(A), tensor(B), p)
    differences = np.abs(A[:, None] - B[None])
    want = [[np.linalg.norm(row, p) for row in block] for block in differences]
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize(
    ("left", "right"),
    [((17, 9), (2, 33, 9)), ((3, 1, 40, 600), (4, 70, 600)), ((1, 1), (1, 1)), ((65, 2), (129, 2))],
)
def test_cdist_of_many_rows_in_batches(
    dtype: str, p: float, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    a, b = RNG.normal(size=left).astype(dtype), RNG.normal(size=right).astype(dtype)
    b[..., 0, :] = a[..., :1, :].reshape(-1, left[-1])[0]
    size = np.abs(a[..., :, None, :].astype("float64") - b[..., None, :, :])
    wanted = {
        0.0: lambda: (size != 0).sum(-1),
        math.inf: lambda: size.max(-1),
    }.get(p, lambda: (size**p).sum(-1) ** (1 / p))()
    got = st.cdist(tensor(a), tensor(b), p).numpy()
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=3e-6 if dtype == "float32" else 1e-13, atol=1e-6)


def test_cdist_keeps_nan_and_takes_rows_without_numbers() -> None:
    x = st.tensor([[float("nan"), 0.0], [1.0, 2.0]])
    assert st.cdist(x, x, math.inf).isnan().tolist() == [[True, True], [True, False]]
    assert st.cdist(st.zeros(4, 0), st.zeros(3, 0), math.inf).tolist() == [[0.0] * 3] * 4


@pytest.mark.check
def test_cdist_gradient_and_errors() -> None:
    x, y = tensor(A), tensor(B)
    assert st.autograd.gradcheck(st.cdist, (x.requires_grad_(), y.requires_grad_()))
    assert st.cdist(st.zeros(0, 3), st.zeros(2, 3)).shape == (0, 2)
    with pytest.raises(RuntimeError, match="same number of columns"):
        st.cdist(x, y[:, :2])
    with pytest.raises(RuntimeError, match="at least 2D"):
        st.cdist(x[0], y)
    with pytest.raises(RuntimeError, match="at least 2D"):
        st.cdist(x[0].half(), y.half(), 1)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_differences_that_are_all_the_largest_have_the_slope_each(is_recorded: bool) -> None:
    """As in torch, where the elements of a norm share it."""
    a = st.tensor([[0.0, 0.0], [1.0, 1.0]], requires_grad=True)
    b = st.tensor([[1.0, 1.0], [3.0, 5.0]], requires_grad=True)
    total = st.cdist(a, b, math.inf).sum()
    for_a, for_b = st.autograd.grad(total, (a, b), create_graph=is_recorded)
    assert for_a.tolist() == [[-1.0, -2.0], [0.0, -1.0]]
    assert for_b.tolist() == [[1.0, 1.0], [0.0, 2.0]]
    (pairs,) = st.autograd.grad(
        st.nn.functional.pdist(a, math.inf).sum(), a, create_graph=is_recorded
    )
    assert pairs.tolist() == [[-1.0, -1.0], [1.0, 1.0]]
