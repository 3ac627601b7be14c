"""Operators whose derivative torch does not have either: the backward pass says so."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import shmtensor as st

X = st.tensor([0.5, 0.25, 0.75], dtype=st.float64)
INDEX = st.tensor([0, 1])


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("heaviside", lambda x: st.heaviside(x, x)),
        ("heaviside", lambda x: st.heaviside(x, x, out=st.empty(3, dtype=x.dtype))),
        ("heaviside_", lambda x: (x * 1).heaviside_(x)),
        ("floor_divide", lambda x: st.floor_divide(x, 0.5)),
        ("floor_divide", lambda x: x // x),
        ("floor_divide", lambda x: 2 // x),
        ("floor_divide_", lambda x: (x * 1).floor_divide_(2)),
        ("scatter", lambda x: x.scatter(0, INDEX, x, reduce="add")),
        ("scatter", lambda x: x.scatter(0, INDEX, 2.0, reduce="multiply")),
        ("scatter_", lambda x: (x * 1).scatter_(0, INDEX, x, reduce="add")),
        ("bincount", lambda x: st.bincount(st.tensor([0, 1, 1]), x)),
        ("histogram", lambda x: st.histogram(x, 3).hist),
        ("histogram", lambda x: st.histogram(x, 3).bin_edges),
        ("histogram", lambda x: st.histogram(X, 3, weight=x).hist),
        ("_histogramdd_from_bin_tensors", lambda x: st.histogramdd(x.view(3, 1), [3]).hist),
        ("_histogramdd_bin_edges", lambda x: st.histogramdd(x.view(3, 1), [3]).bin_edges[0]),
    ],
)
def test_operators_without_derivative(name: str, function: Any) -> None:
    x = X.clone().requires_grad_()
    result = function(x)
    assert result.requires_grad
    with pytest.raises(RuntimeError, match=f"^derivative for aten::{name} is not implemented$"):
        result.sum().backward()


def histogram_into(hist: st.Tensor, bin_edges: st.Tensor) -> None:
    weight = st.ones(3, dtype=st.float64, requires_grad=True)
    st.histogram(X, 3, weight=weight, out=(hist, bin_edges))


@pytest.mark.check
def test_several_outputs_that_are_written_to() -> None:
    hist, bin_edges = (st.empty(n, dtype=st.float64) for n in (3, 4))
    histogram_into(hist, bin_edges)
    for result in (hist, bin_edges):
        with pytest.raises(RuntimeError, match=r"^derivative for aten::histogram is not implement"):
            result.sum().backward()
    # The first may be a view.
    base = st.zeros(6, dtype=st.float64)
    histogram_into(base[::2], bin_edges)
    assert base.grad_fn is not None


def blocks() -> int:
    stats = st.memory.memory_stats()
    return int(stats["n_allocations"] - stats["n_frees"])


def test_views_are_not_outputs_beside_others() -> None:
    """They would make the graph a cycle, which is never freed."""
    before = blocks()
    base = st.empty(7, dtype=st.float64)
    for hist in (st.empty(3, dtype=st.float64), base[:3]):
        with pytest.raises(RuntimeError, match=r"views in-place must return a single Variable$"):
            histogram_into(hist, base[3:])
    del base, hist
    assert blocks() == before


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("_unique2", lambda x: st.unique(x)),
        ("_unique2", lambda x: st.unique(x, return_inverse=True, return_counts=True)[0]),
        ("unique_dim", lambda x: st.unique(x, dim=0)),
        ("unique_consecutive", lambda x: st.unique_consecutive(x)),
        ("geqrf", lambda x: st.geqrf(x.diag()).a),
        ("geqrf", lambda x: st.geqrf(x.diag()).tau),
        ("igamma: input", lambda x: st.igamma(x, X)),
        ("igammac: input", lambda x: st.special.gammaincc(x, X)),
    ],
)
def test_derivatives_without_formula(name: str, function: Any) -> None:
    result = function(X.clone().requires_grad_())
    with pytest.raises(
        NotImplementedError, match=f"^the derivative for '{name}' is not implemented.$"
    ):
        result.sum().backward()


@pytest.mark.check
def test_whole_numbers_have_no_history() -> None:
    x = X.clone().requires_grad_()
    _, inverse, counts = st.unique(x, return_inverse=True, return_counts=True)
    assert not inverse.requires_grad
    assert not counts.requires_grad
    assert not st.histc(x, 3).requires_grad


def test_samples_of_fractional_pooling_are_constants() -> None:
    samples = st.rand(1, 1, 2, requires_grad=True)
    with pytest.raises(
        RuntimeError, match="fractional_max_pool2d' is not differentiable with respe"
    ):
        st.nn.functional.fractional_max_pool2d(
            st.rand(1, 1, 6, 6), 2, output_size=3, _random_samples=samples
        )


@pytest.mark.parametrize("dtype", [st.float64, st.complex128])
def test_addr(dtype: st.dtype) -> None:
    a = st.rand(3, 4, dtype=dtype, requires_grad=True)
    b, c = (st.rand(n, dtype=dtype, requires_grad=True) for n in (3, 4))
    for beta in (0.5, 0):
        function = partial(st.addr, beta=beta, alpha=2)
        assert st.autograd.gradcheck(function, (a, b, c))
        assert st.autograd.gradgradcheck(function, (a, b, c))
