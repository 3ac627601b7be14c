"""scatter_reduce, segment_reduce and unique slices: values, gradients and errors."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
import pytest

import shmtensor as st

INDEX = np.array([[0, 0, 1, 2], [1, 0, 1, 0]])
RNG = np.random.default_rng(7)


def reduced(base: np.ndarray, src: np.ndarray, how: str, include_self: bool) -> np.ndarray:
    """Reduce along dim 0, element by element."""
    result = base.copy()
    for column in range(base.shape[1]):
        for row in range(base.shape[0]):
            found = [src[k, column] for k in range(len(INDEX)) if INDEX[k, column] == row]
            if not found:
                continue
            taken = np.array([base[row, column], *found] if include_self else found)
            function: Any = {"sum": np.sum, "prod": np.prod, "mean": np.mean}.get(how)
            function = function or {"amax": np.max, "amin": np.min}[how]
            value = function(taken)
            whole = np.int64(math.floor(value)) if base.dtype.kind == "i" else value
            result[row, column] = np.asarray(whole).astype(base.dtype)  # wraps round in int8
    return result


@pytest.mark.parametrize("dtype", ["float64", "int64", "int8"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(how: str, include_self: bool, dtype: str) -> None:
    base = (RNG.normal(size=(3, 4)) * 4).astype(dtype)
    src = (RNG.normal(size=(2, 4)) * 4).astype(dtype)
    want = reduced(base, src, how, include_self)
    x, index = st.from_numpy(base.copy()), st.from_numpy(INDEX.copy())
    args = (0, index, st.from_numpy(src), how)
    got = st.scatter_reduce(x, *args, include_self=include_self)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    out = st.empty(0, dtype=x.dtype)
    st.scatter_reduce(x, *args, include_self=include_self, out=out)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-12)
    assert x.scatter_reduce_(*args, include_self=include_self) is x
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-12)


@pytest.mark.check
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce_gradient(how: str, include_self: bool) -> None:
    base = st.from_numpy(RNG.normal(size=(3, 4))).requires_grad_()
    src = st.from_numpy(RNG.normal(size=(2, 4))).requires_grad_()
    index = st.from_numpy(INDEX.copy())

    def function(a: Any, b: Any) -> Any:
        return st.scatter_reduce(a, 0, index, b, how, include_self=include_self)

    assert st.autograd.gradcheck(function, (base, src))


def test_product_gradient_at_zeros() -> None:
    base = st.ones(1, dtype=st.float64)
    src = st.tensor([0.0, 3.0], dtype=st.float64, requires_grad=True)
    st.scatter_reduce(base, 0, st.tensor([0, 0]), src, "prod").sum().backward()
    assert src.grad is not None
    assert src.grad.tolist() == [3.0, 0.0]


def test_index_reduce_names_slices() -> None:
    x = st.tensor([[1.0, 2.0], [3.0, 4.0]])
    source = st.tensor([[5.0, -1.0], [2.0, 2.0], [0.0, 9.0]])
    index = st.tensor([1, 0, 1])
    assert st.index_reduce(x, 0, index, source, "amax").tolist() == [[2, 2], [5, 9]]
    got = st.index_reduce(x, 0, index, source, "mean", include_self=False)
    assert got.tolist() == [[2, 2], [2.5, 4]]
    x.index_reduce_(0, index, source, "prod")
    assert x.tolist() == [[2, 4], [0, -36]]
    with pytest.raises(IndexError, match="out of range"):
        st.index_reduce(x, 0, st.tensor([0, 1, 2]), source, "prod")
    with pytest.raises(RuntimeError, match="prod, mean, amax or amin"):
        st.index_reduce(x, 0, index, source, "sum")
    with pytest.raises(RuntimeError, match="Number of indices"):
        st.index_reduce(x, 0, index[:1], source, "prod")
    leaf = source.double().requires_grad_()
    base = st.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=st.float64, requires_grad=True)
    assert st.autograd.gradcheck(lambda a, b: st.index_reduce(a, 0, index, b, "mean"), (base, leaf))


def test_scatter_reduce_refuses() -> None:
    x, index = st.zeros(3), st.tensor([0])
    with pytest.raises(RuntimeError, match="sum, prod, mean, amax or amin, got max"):
        st.scatter_reduce(x, 0, index, x, "max")
    with pytest.raises(RuntimeError, match="out of bounds"):
        st.scatter_reduce(x, 0, st.tensor([3]), x, "sum")
    with pytest.raises(NotImplementedError, match="mean"):
        st.scatter_reduce(x.bool(), 0, index, x.bool(), "mean")


SEGMENTS = [
    ("sum", 0.0),
    ("mean", math.nan),
    ("max", -math.inf),
    ("amax", -math.inf),
    ("min", math.inf),
    ("amin", math.inf),
    ("prod", 1.0),
]


@pytest.mark.parametrize(("how", "empty"), SEGMENTS)
def test_segment_reduce(how: str, empty: float) -> None:
    x = st.tensor([1.0, 2.0, 3.0, 4.0, 6.0], dtype=st.float64)
    function: Any = {"sum": sum, "max": max, "min": min, "prod": math.prod}.get(how.lstrip("a"))
    function = function or (lambda v: sum(v) / len(v))
    got = st.segment_reduce(x, how, lengths=st.tensor([2, 0, 3])).tolist()
    assert got[0::2] == [function([1.0, 2.0]), function([3.0, 4.0, 6.0])]
    assert got[1] == empty or math.isnan(empty)
    same = st.segment_reduce(x, how, offsets=st.tensor([0, 2, 5]))
    assert same.tolist() == got[0::2]
    rows = st.segment_reduce(st.stack([x, x]), how, lengths=st.tensor([[5], [5]]), axis=1)
    assert rows.tolist() == [[function(x.tolist())]] * 2
    assert st.segment_reduce(st.ones(5, 4), how, lengths=st.tensor([2, 3])).stride() == (4, 1)
    assert st.segment_reduce(
        st.ones(2, 5), how, lengths=st.tensor([[2, 3]] * 2), axis=1
    ).stride() == (2, 1)
    assert st.autograd.gradcheck(
        lambda t: st.segment_reduce(t, how, lengths=st.tensor([2, 3])), (x.requires_grad_(),)
    )
    plane = (st.arange(10.0, dtype=st.float64).reshape(5, 2) + 0.5).requires_grad_()
    assert st.autograd.gradcheck(
        lambda t: st.segment_reduce(t, how, lengths=st.tensor([2, 3])), (plane,)
    )


def test_segment_reduce_refuses() -> None:
    x = st.arange(4.0)
    with pytest.raises(RuntimeError, match="sum, prod, mean, amax or amin, got median"):
        st.segment_reduce(x, "median", lengths=st.tensor([4]))
    with pytest.raises(RuntimeError, match="Either lengths or offsets"):
        st.segment_reduce(x, "sum")
    with pytest.raises(RuntimeError, match="sum to"):
        st.segment_reduce(x, "sum", lengths=st.tensor([1]))
    with pytest.raises(RuntimeError, match="sum to"):
        st.segment_reduce(x, "sum", lengths=st.tensor([2**62, 2**62]), unsafe=True)
    with pytest.raises(RuntimeError, match="negative"):
        st.segment_reduce(x, "sum", lengths=st.tensor([-1, 5]))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_unique_slices_equal_numpy(dim: int) -> None:
    a = RNG.integers(0, 2, (7, 2, 3))
    got = st.unique(st.from_numpy(a.copy()), return_inverse=True, return_counts=True, dim=dim)
    want = np.unique(a, return_inverse=True, return_counts=True, axis=dim)
    assert got[0].tolist() == want[0].tolist()
    assert got[1].tolist() == np.ravel(want[1]).tolist()
    assert got[2].tolist() == want[2].tolist()


def test_runs_of_slices() -> None:
    x = st.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, 2.0], [1.0, 2.0]])
    values, inverse, counts = st.unique_consecutive(x, True, True, 0)
    assert values.tolist() == [[1, 2], [0, 2], [1, 2]]
    assert inverse.tolist() == [0, 0, 1, 2]
    assert counts.tolist() == [2, 1, 1]
    assert x.unique_consecutive(dim=1).shape == (4, 2)
    assert st.unique(st.zeros(0, 3), dim=0).shape == (0, 3)
    with pytest.raises(RuntimeError, match="0 sized dimensions"):
        st.unique(st.zeros(0, 3), dim=1)


@pytest.mark.check
def test_static_nonzero_diagonals_and_sums() -> None:
    x = st.tensor([[0, 3], [4, 0]])
    assert st.nonzero_static(x, size=1).tolist() == [[0, 1]]
    assert x.nonzero_static(size=3, fill_value=9).tolist() == [[0, 1], [1, 0], [9, 9]]
    tall = st.zeros(5, 2).fill_diagonal_(1.0, True)
    assert tall.tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    with pytest.raises(RuntimeError, match="equal length"):
        st.zeros(1, 2, 3).fill_diagonal_(1)
    assert st.ones(2, 3).sum_to_size(3).tolist() == [2, 2, 2]
    assert st.ones(2, 3).sum_to_size(2, 1).tolist() == [[3], [3]]
    with pytest.raises(RuntimeError, match="not expandable"):
        st.ones(2, 3).sum_to_size(2, 2)
    assert st.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)
    with pytest.raises(RuntimeError, match="Duplicate"):
        st.empty_permuted((2, 3), (0, 0))


@pytest.mark.parametrize("rate", [0.3, 9.0, 30.0, 1e4])
def test_poisson_has_its_mean_and_variance(rate: float) -> None:
    st.manual_seed(1)
    x = st.poisson(st.full((40000,), rate, dtype=st.float64))
    assert x.mean().item() == pytest.approx(rate, abs=6 * math.sqrt(rate / 40000))
    assert x.var().item() == pytest.approx(rate, rel=0.1)
    assert (x == x.floor()).all().item()


@pytest.mark.parametrize(("n", "p"), [(5, 0.3), (40, 0.9), (1000, 0.4), (10**6, 1e-5)])
def test_binomial_has_its_mean_and_variance(n: int, p: float) -> None:
    st.manual_seed(2)
    count, prob = st.full((40000,), float(n), dtype=st.float64), st.tensor(p, dtype=st.float64)
    x = st.binomial(count, prob)
    variance = n * p * (1 - p)
    assert x.mean().item() == pytest.approx(n * p, abs=6 * math.sqrt(variance / 40000))
    assert x.var().item() == pytest.approx(variance, rel=0.1)
    assert x.min().item() >= 0
    assert x.max().item() <= n


def test_counts_at_limits() -> None:
    ones = st.ones(3)
    assert st.poisson(st.zeros(2)).tolist() == [0, 0]
    assert st.binomial(ones * 4, st.tensor([0.0, 1.0, 2.0])).tolist() == [0, 4, 4]
    assert math.isnan(st.binomial(st.tensor(math.inf), st.tensor(0.5)).item())
    with pytest.raises(RuntimeError, match="non-negative"):
        st.poisson(-ones)
    with pytest.raises(ValueError, match="floating-point"):
        st.binomial(st.ones(1, dtype=st.int64), ones[:1])


@pytest.mark.parametrize("include_self", [False, True])
def test_complex_numbers_have_no_amax(include_self: bool) -> None:
    x = st.ones(2, dtype=st.complex64)
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        x.scatter_reduce(0, st.tensor([0]), x[:1], "amax", include_self=include_self)


@pytest.mark.parametrize("how", ["prod", "amax"])
def test_index_reduce_in_place_has_a_gradient_and_keeps_nothing(how: str) -> None:
    source = st.tensor([[2.0, 3.0]], requires_grad=True)
    x = st.tensor([[1.0, 4.0], [1.0, 1.0]])
    kept = weakref.ref(x)
    expected = x.index_reduce(0, st.tensor([0]), source, how)
    (wanted,) = st.autograd.grad(expected.sum(), source)
    assert x.index_reduce_(0, st.tensor([0]), source, how) is x
    assert st.equal(x, expected)
    assert st.equal(st.autograd.grad(x.sum(), source)[0], wanted)
    del x
    assert kept() is None


def test_renorm_in_place_has_a_gradient() -> None:
    leaf = st.tensor([[3.0, 4.0], [0.1, 0.1]], requires_grad=True)
    x = leaf * 1
    assert x.renorm_(2, 0, 1.0) is x
    (wanted,) = st.autograd.grad(leaf.renorm(2, 0, 1.0)[:, 0].sum(), leaf)
    assert st.equal(st.autograd.grad(x[:, 0].sum(), leaf)[0], wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("rows", "places", "columns"), [(400, 1, 8), (900, 7, 3000), (40, 3000, 70), (300, 2, 1)]
)
def test_sums_of_16_bit_floats_are_rounded_once(
    rows: int, places: int, columns: int, dtype: str, threads: int
) -> None:
    x = st.from_numpy(RNG.uniform(0.5, 1.5, (places, columns))).to(getattr(st, dtype))
    src = st.from_numpy(RNG.uniform(0.5, 1.5, (rows, columns))).to(x.dtype)
    near = st.from_numpy(RNG.uniform(0.98, 1.02, (rows, columns))).to(x.dtype)
    vector = st.from_numpy(RNG.integers(0, places, rows))
    index = vector.view(-1, 1).expand(rows, columns).contiguous()
    calls: list[Any] = [
        lambda a, b, c: a.scatter_add(0, index, b),
        lambda a, b, c: a.t().contiguous().scatter_add_(1, index.t(), b.t()).t(),
        lambda a, b, c: a.scatter(0, index, b, reduce="add"),
        lambda a, b, c: a.scatter(0, index, 1.125, reduce="add"),
        lambda a, b, c: a.scatter_reduce(0, index, b, "sum"),
        lambda a, b, c: a.scatter_reduce(0, index, b, "sum", include_self=False),
        lambda a, b, c: a.scatter_reduce(0, index, c, "prod"),
        lambda a, b, c: a[:, ::2].scatter_add(0, index[:, ::2][:, 1:], b[:, ::2]),
    ]
    if places <= 1000 and columns > 1:
        calls.append(lambda a, b, c: a.index_add(0, vector, b))
        calls.append(lambda a, b, c: a.t().index_add(1, vector, b.t()).t())
    for call in calls:
        want = call(x.double(), src.double(), near.double())
        error = (call(x, src, near).double() / want - 1).abs()
        assert error.numel() == 0 or error.max().item() < st.finfo(x.dtype).eps
    mean = x.scatter_reduce(0, index, src, "mean").double()
    want = x.double().scatter_reduce(0, index, src.double(), "mean")
    assert (mean / want - 1).abs().max().item() < 1.5 * st.finfo(x.dtype).eps
