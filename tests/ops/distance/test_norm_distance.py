"""norm, cdist, means without NaN, functions that write in place, and what stands for a tensor."""

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


def test_norm_takes_orders_and_names() -> None:
    x = tensor(A)
    assert st.norm(x).item() == pytest.approx(np.linalg.norm(A))
    assert st.norm(x, "nuc").item() == pytest.approx(np.linalg.norm(A, "nuc"))
    np.testing.assert_allclose(x.norm(3, dim=1).numpy(), (np.abs(A) ** 3).sum(1) ** (1 / 3))
    assert x.norm(p="fro", dim=(0, 1), keepdim=True).shape == (1, 1)
    assert st.norm(x.float(), dtype=st.float64).dtype == st.float64
    out = st.empty(0, dtype=st.float64)
    assert st.norm(x, 1, 0, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.abs(A).sum(0))
    with pytest.raises(RuntimeError, match="'fro' and 'nuc'"):
        st.norm(x, "max")
    with pytest.raises(ValueError, match="nuclear"):
        st.norm(x, "nuc", dtype=st.float64)


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


def test_logaddexp_of_complex_numbers() -> None:
    a, b = A + 1j * B[:4], B[:4] - 2j * A
    got = st.logaddexp(tensor(a), tensor(b)).numpy()
    np.testing.assert_allclose(np.exp(got), np.exp(a) + np.exp(b), rtol=1e-12)
    leaves = tuple(tensor(z).requires_grad_() for z in (a, b))
    assert st.autograd.gradcheck(st.logaddexp, leaves)


def test_nanmean_averages_numbers_only() -> None:
    x = st.tensor([[1.0, math.nan, 3.0], [math.nan, math.nan, math.nan]])
    got = st.nanmean(x, 1).tolist()
    assert got[0] == 2
    assert math.isnan(got[1])
    with pytest.raises(RuntimeError, match="floating point or complex"):
        st.nanmean(st.arange(3))


def test_gradients_of_steps_are_zeros() -> None:
    a, b = st.tensor([1.0], requires_grad=True), st.tensor([-2.0], requires_grad=True)
    st.copysign(a, b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.item(), b.grad.item()) == (-1, 0)


def test_functions_that_write_in_place() -> None:
    x = st.tensor([4, 6])
    assert st.gcd_(x, st.tensor([6, 9])) is x
    assert x.tolist() == [2, 3]
    assert st.lcm_(x, st.tensor([4, 4])).tolist() == [4, 12]
    y = st.tensor([1.0, 2.0])
    assert st.ldexp_(y, st.tensor([1, 2])).tolist() == [2, 8]
    assert st.xlogy_(st.zeros(1), st.zeros(1)).tolist() == [0]
    assert st.index_put_(y, (st.tensor([0]),), st.tensor(5.0)).tolist() == [5, 8]


def test_copies_go_into_given_tensors() -> None:
    x = st.arange(6.0)
    parts = [st.empty(0), st.empty(0)]
    assert st.split_with_sizes_copy(x, [2, 4], out=parts) is None
    assert [t.tolist() for t in parts] == [[0, 1], [2, 3, 4, 5]]
    assert [t.tolist() for t in st.split_copy(x, 4)] == [[0, 1, 2, 3], [4, 5]]
    assert len(st.unbind_copy(x)) == 6
    with pytest.raises(RuntimeError, match="hold 2 tensors"):
        st.split_copy(x, 4, out=parts[:1])


def test_number_is_no_first_operand_where_torch_has_none() -> None:
    x = st.ones(2)
    function: Any
    for function in (st.eq, st.lt, st.rsub, st.clamp_min):
        with pytest.raises(TypeError, match="invalid combination"):
            function(2, x)
    assert st.remainder(5, x * 3).tolist() == [2, 2]
    assert st.pow(2, x).tolist() == [2, 2]


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
