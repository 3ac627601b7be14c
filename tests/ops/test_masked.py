"""Operators with masks: masked elements do not count; results compared with numpy.ma."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st

RNG = np.random.default_rng(3)
VALUES = RNG.normal(size=(4, 5))
MASK = RNG.random(size=(4, 5)) > 0.4
MASK[:, 0] = True
X, M = st.from_numpy(VALUES.copy()), st.from_numpy(MASK.copy())


def rows(function: Any) -> np.ndarray:
    """*function* of the elements of each row that count."""
    return np.array([function(row[keep]) for row, keep in zip(VALUES, MASK, strict=True)])


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("sum", np.sum),
        ("prod", np.prod),
        ("amax", np.max),
        ("amin", np.min),
        ("mean", np.mean),
        ("median", lambda a: np.sort(a)[(len(a) - 1) // 2]),
        ("logsumexp", lambda a: np.log(np.exp(a).sum())),
        ("norm", np.linalg.norm),
    ],
)
def test_reduction_sees_only_what_counts(name: str, function: Any) -> None:
    got = getattr(st.masked, name)(X, dim=1, mask=M)
    np.testing.assert_allclose(got.numpy(), rows(function), rtol=1e-12)
    kept = getattr(st.masked, name)(X, dim=1, keepdim=True, mask=M)
    assert kept.shape == (4, 1)


def test_variances_count_what_is_there() -> None:
    want = rows(np.var)
    np.testing.assert_allclose(st.masked.var(X, 1, False, mask=M).numpy(), want, rtol=1e-12)
    got = st.masked.std(X, 1, correction=0, mask=M)
    np.testing.assert_allclose(got.numpy(), np.sqrt(want), rtol=1e-12)
    assert st.masked.var(X).item() == pytest.approx(VALUES.var(ddof=1))


def test_scans_and_arguments() -> None:
    filled = np.where(MASK, VALUES, 0)
    np.testing.assert_allclose(st.masked.cumsum(X, 1, mask=M).numpy(), filled.cumsum(1), rtol=1e-12)
    filled = np.where(MASK, VALUES, 1)
    np.testing.assert_allclose(
        st.masked.cumprod(X, 1, mask=M).numpy(), filled.cumprod(1), rtol=1e-12
    )
    best = st.masked.argmax(X, 1, dtype=st.int64, mask=M)
    assert best.tolist() == np.where(MASK, VALUES, -np.inf).argmax(1).tolist()


def test_softmax_gives_nothing_to_what_does_not_count() -> None:
    p = st.masked.softmax(X, 1, mask=M)
    assert p[~M].abs().max().item() == 0
    np.testing.assert_allclose(p.sum(1).numpy(), np.ones(4), rtol=1e-12)
    np.testing.assert_allclose(
        st.masked.log_softmax(X, 1, mask=M).exp().numpy(), p.numpy(), rtol=1e-12
    )
    assert st.masked.softmin(X, 1, mask=M)[~M].abs().max().item() == 0
    length = st.masked.norm(st.masked.normalize(X, 2.0, 1, mask=M), 2.0, 1)
    np.testing.assert_allclose(length.numpy(), np.ones(4), rtol=1e-12)


def test_what_never_counts() -> None:
    none = st.zeros(4, 5, dtype=st.bool)
    assert st.masked.sum(X, mask=none).item() == 0
    assert st.masked.prod(X, mask=none).item() == 1
    assert st.masked.amax(X, mask=none).item() == -math.inf
    assert math.isnan(st.masked.mean(X, mask=none).item())
    assert st.masked.logaddexp(X, X, input_mask=none).allclose(X)


@pytest.mark.check
def test_mask_broadcasts_and_bad_ones_are_refused() -> None:
    assert st.masked.sum(X, mask=M[0]).item() == pytest.approx(VALUES[:, MASK[0]].sum())
    with pytest.raises(IndexError, match="broadcastable mask"):
        st.masked.sum(X[0], mask=M)
    with pytest.raises(ValueError, match="floating point or complex"):
        st.masked.mean(st.arange(3))
    with pytest.raises(RuntimeError, match="multiple times"):
        st.masked.sum(X, (0, 0))
    with pytest.raises(AssertionError, match="Only one of"):
        st.masked.var(X, 0, True, correction=1)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "mean", "logsumexp", "norm", "var"])
def test_gradient_is_zero_where_masked(name: str) -> None:
    x = X.clone().requires_grad_()
    getattr(st.masked, name)(x, mask=M).backward()
    assert x.grad is not None
    assert x.grad[~M].abs().max().item() == 0


def test_dtypes_of_whole_numbers() -> None:
    x = st.tensor([1, 2, 3], dtype=st.int32)
    assert st.masked.prod(x).dtype is st.int64
    assert st.masked.cumprod(x, 0).dtype is st.int32
    assert st.masked.cumsum(x, 0, dtype=st.int64).dtype is st.int64
    assert st.masked.logsumexp(x, 0).dtype is st.int32
    assert x.sum_to_size(()).dtype is st.int64


def test_dtypes_without_a_smallest_value_are_refused() -> None:
    mask = st.ones(3, dtype=st.bool)
    for name in ("amax", "amin", "argmax", "argmin"):
        function = getattr(st.masked, name)
        with pytest.raises(NotImplementedError, match=f"^identity of {name} on torch.bool input$"):
            function(mask, mask=mask)
        with pytest.raises(TypeError, match="requires an integer input type"):
            function(st.ones(3, dtype=st.complex64), mask=mask)
    with pytest.raises(NotImplementedError, match="identity of logsumexp"):
        st.masked.logsumexp(mask, 0, mask=mask)
    for function in (st.masked.softmax, st.masked.softmin, st.masked.log_softmax):
        with pytest.raises(NotImplementedError, match=r"identity of am(ax|in) on torch\.bool"):
            function(mask, 0, mask=mask)
        with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
            function(st.ones(3, dtype=st.int32), 0, mask=mask)
    assert st.masked.amax(mask).item() is True


def test_median_leaves_out_nan() -> None:
    x = st.tensor([[3.0, math.nan, 1.0, 2.0]])
    assert st.masked.median(x, 1).tolist() == [2.0]
    assert st.masked.median(x, 1, mask=st.tensor([True, True, True, False])).tolist() == [1.0]


def test_value_of_a_filled_tensor_may_be_complex_without_imaginary_part() -> None:
    mask, x = st.tensor([True, False]), st.zeros(2)
    assert x.masked_fill_(mask, st.tensor(2 + 0j)).tolist() == [2.0, 0.0]
    with pytest.raises(RuntimeError, match="value cannot be converted to type float"):
        x.masked_fill_(mask, st.tensor(2 + 1j))
    assert x.tolist() == [2.0, 0.0]
