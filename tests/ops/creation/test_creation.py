"""Tensors from sizes and numbers: values, dtypes, out=, devices, errors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shmtensor as st


@pytest.mark.check
@pytest.mark.parametrize(
    "arguments",
    [(5,), (2, 7), (2, 7, 2), (7, 2, -2), (0.0, 1.0, 0.1), (5, 5), (-3, 3, 4)],
    ids=str,
)
def test_arange_counts_as_numpy(arguments: tuple[float, ...]) -> None:
    expected = np.arange(*arguments)
    got = st.arange(*arguments, dtype=st.float64 if expected.dtype == float else None)
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


def test_arange_dtype_follows_its_bounds() -> None:
    assert st.arange(3).dtype is st.int64
    assert st.arange(3.0).dtype is st.float32
    assert st.arange(3, dtype=st.int8).tolist() == [0, 1, 2]
    assert st.arange(3, dtype=st.bfloat16).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.arange(0, 5, 0), "step must be nonzero"),
        (lambda: st.arange(0, 5, -1), "upper bound and lower bound inconsistent with step sign"),
        (lambda: st.arange(math.inf), "unsupported range: 0 -> inf"),
        (lambda: st.linspace(0, 1, -1), "number of steps must be non-negative"),
        (lambda: st.eye(-1), "n must be greater or equal to 0, got -1"),
        (lambda: st.zeros(-1), "zeros: Dimension size must be non-negative."),
        (lambda: st.triu(st.zeros(3)), "triu: input tensor must have at least 2 dimensions"),
        (
            lambda: st.empty_strided((2, 3), (1,)),
            "dimensionality of sizes (2) must match dimensionality of strides (1)",
        ),
        (lambda: st.zeros(2**40, 2**40), "overflow"),
        (
            lambda: st.complex(st.zeros(2), st.zeros(2).double()),
            "Expected object of scalar type Float but got scalar type Double for second argument",
        ),
    ],
)
def test_impossible_sizes_are_refused(call: object, message: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (st.float64, ("-0x1.33295eeea04cdp+0", "-0x1.1f80d5c8d37b2p+0", "0x1.66c3c6f1d9f36p-1")),
        (st.float32, ("-0x1.332960p+0", "-0x1.1f80d6p+0", "0x1.66c3c8p-1")),
        (st.float16, ("-0x1.330p+0", "-0x1.1f8p+0", "0x1.66cp-1")),
        (st.bfloat16, ("-0x1.34p+0", "-0x1.20p+0", "0x1.68p-1")),
    ],
    ids=["float64", "float32", "float16", "bfloat16"],
)
def test_linspace_rounds_in_its_dtype(dtype: st.dtype, expected: tuple[str, ...]) -> None:
    """Bounds and step are of the dtype; float32 and float64 round their sums once. Torch's bits."""
    got = st.linspace(-1.2190476190476191, 1.2190476190476191, 128, dtype=dtype)
    assert got[[1, 5, 100]].tolist() == [float.fromhex(text) for text in expected]


@pytest.mark.parametrize(
    ("start", "end", "steps"),
    [(-1.0, 1.0, 101), (0.1, 7.3, 333), (5.0, -3.3, 77), (1e-300, 3e-300, 9), (0.0, 1e9, 300)],
)
def test_sums_of_linspace_are_rounded_once(start: float, end: float, steps: int) -> None:
    got = st.linspace(start, end, steps, dtype=st.float64).tolist()
    step = Fraction((end - start) / (steps - 1))
    half = steps // 2
    expected = [float(Fraction(start) + step * i) for i in range(half)]
    expected += [float(Fraction(end) - step * (steps - 1 - i)) for i in range(half, steps)]
    assert got == expected


def test_linspace_with_more_steps_than_its_dtype_counts() -> None:
    got = st.linspace(0, 1, 200_001, dtype=st.float16)
    assert got[[0, 100_000, 200_000]].tolist() == [0.0, 0.5, 1.0]


def test_linspace_ends_exactly() -> None:
    got = st.linspace(0.1, 0.7, 13, dtype=st.float64)
    np.testing.assert_allclose(got.numpy(), np.linspace(0.1, 0.7, 13))
    assert got[-1].item() == 0.7
    assert st.linspace(3, 9, 1).tolist() == [3.0]
    assert st.linspace(0, 10, 5, dtype=st.int64).tolist() == [0, 2, 5, 7, 10]
    assert st.logspace(0, 2, 3).tolist() == [1.0, 10.0, 100.0]


def test_full_takes_its_dtype_from_the_value() -> None:
    assert st.full((2,), 3).dtype is st.int64
    assert st.full((2,), 3.0).dtype is st.float32
    assert st.full((2,), True).dtype is st.bool
    assert st.full((2,), 1j).dtype is st.complex64


def test_like_keeps_sizes_dtype_and_layout() -> None:
    a = st.zeros(2, 3, 4, dtype=st.float64).permute(2, 0, 1)
    for made in (st.ones_like(a), st.empty_like(a), st.full_like(a, 2), st.zeros_like(a)):
        assert (made.shape, made.dtype, made.stride()) == (a.shape, a.dtype, a.stride())
    assert st.ones_like(a, dtype=st.int8).dtype is st.int8
    assert a.new_zeros(3).dtype is st.float64
    assert a.new_full((2,), 7).tolist() == [7.0, 7.0]


def test_memory_format_of_empty() -> None:
    a = st.empty(1, 64, 5, 4, memory_format=st.channels_last)
    assert a.stride() == (1280, 1, 256, 64)


def test_meta_has_no_data() -> None:
    a = st.zeros(3, device="meta")
    assert a.device.type == "meta"
    assert st.zeros_like(a).device.type == "meta"
    assert st.arange(5, device="meta").shape == (5,)


def test_factories_record_when_asked() -> None:
    assert st.ones(2, requires_grad=True).requires_grad
    assert st.ones(2, requires_grad=True).is_leaf


def test_out_is_filled_and_resized() -> None:
    out = st.empty(0)
    assert st.arange(3, out=out) is out
    assert out.tolist() == [0.0, 1.0, 2.0]
    st.eye(2, out=out)
    assert out.tolist() == [[1.0, 0.0], [0.0, 1.0]]


FACTORIES: dict[str, Callable[[st.Tensor], st.Tensor]] = {
    "empty": lambda out: st.empty((2, 4), out=out),
    "eye": lambda out: st.eye(2, 4, out=out),
    "full": lambda out: st.full((2, 4), 1.0, out=out),
    "linspace": lambda out: st.linspace(0, 1, 8, out=out),
    "logspace": lambda out: st.logspace(0, 1, 8, out=out),
    "ones": lambda out: st.ones((2, 4), out=out),
    "rand": lambda out: st.rand((2, 4), out=out),
    "randint": lambda out: st.randint(9, (2, 4), out=out),
    "randn": lambda out: st.randn((2, 4), out=out),
    "randperm": lambda out: st.randperm(8, out=out),
    "zeros": lambda out: st.zeros((2, 4), out=out),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_resize_out_without_a_warning(name: str) -> None:
    out = st.empty(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert FACTORIES[name](out) is out
    assert out.numel() == 8


def test_arange_warns_of_an_out_of_another_number_of_elements() -> None:
    out = st.empty(2, 3)
    with pytest.warns(
        UserWarning, match=r"shape \[2, 3\] is 6 which does not match.* elements 4\."
    ):
        st.arange(4, out=out)
    assert out.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_ranges_in_meta_have_one_dimension() -> None:
    for call in FACTORIES["linspace"], FACTORIES["logspace"], lambda t: st.arange(8, out=t):
        out = st.empty(2, 4, device="meta")
        with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
            call(out)
        assert out.shape == (8,)


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: st.arange(1e30, dtype=st.int64), "int64_t"),
        (lambda: st.arange(0, 1e19, 1e18, dtype=st.int64), "int64_t"),
        (lambda: st.arange(2**63), "int64_t"),
        (lambda: st.arange(0, 1e40, 5e39, dtype=st.int32), "int64_t"),
        (lambda: st.arange(0, 1e40, 5e39, dtype=st.float16), "float"),
        (lambda: st.range(0, 1e19, 5e18, dtype=st.int64), "int64_t"),
        (lambda: st.range(0, 1e40, 1e38, dtype=st.float16), "float"),
    ],
)
def test_bounds_beyond_what_is_counted_in_are_refused(call: Callable[[], Any], kind: str) -> None:
    with pytest.raises(RuntimeError, match=f"to type {kind} without"):
        call()
    assert st.arange(0, 1e5, 4e4, dtype=st.float16).tolist() == [0, 4e4, math.inf]
    assert st.arange(0, 1e40, 9e39).tolist() == [0, math.inf]


@pytest.mark.parametrize("diagonal", [-5, -1, 0, 2, 9])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 4, 4)], ids=str)
def test_tril_and_triu_as_numpy(diagonal: int, shape: tuple[int, ...]) -> None:
    a = np.arange(1.0, math.prod(shape) + 1).reshape(shape)
    t = st.from_numpy(a)
    assert np.array_equal(st.tril(t, diagonal).numpy(), np.tril(a, diagonal))
    assert np.array_equal(st.triu(t, diagonal).numpy(), np.triu(a, diagonal))


@pytest.mark.parametrize("diagonal", [-5, -1, 0, 2, 9, 2**62])
@pytest.mark.parametrize("lie", [lambda t: t.mT, lambda t: t.mT.clone().mT, lambda t: t[..., ::2]])
def test_tril_and_triu_of_any_strides(diagonal: int, lie: Callable[[st.Tensor], st.Tensor]) -> None:
    t = lie(st.arange(1.0, 41).reshape(2, 4, 5).clone())
    values = t.numpy().copy()
    wanted = np.tril(values, min(diagonal, 100))
    out = st.empty_strided(t.shape, t.stride())
    st.tril(t, diagonal, out=out)
    assert np.array_equal(out.numpy(), wanted)
    assert np.array_equal(t.numpy(), values)
    found = t.tril(diagonal)
    assert found.is_contiguous()
    assert np.array_equal(found.numpy(), wanted)
    assert np.array_equal(t.tril_(diagonal).numpy(), wanted)
    t = lie(st.arange(1.0, 41).reshape(2, 4, 5).clone())
    assert np.array_equal(t.triu_(diagonal).numpy(), np.triu(values, min(diagonal, 100)))


@pytest.mark.check
def test_tril_in_place() -> None:
    a = st.ones(2, 2)
    assert a.tril_() is a
    assert a.tolist() == [[1.0, 0.0], [1.0, 1.0]]


def test_tril_and_triu_indices() -> None:
    assert np.array_equal(st.tril_indices(3, 4, 1).numpy(), np.array(np.tril_indices(3, 1, 4)))
    assert np.array_equal(st.triu_indices(3, 4).numpy(), np.array(np.triu_indices(3, 0, 4)))


def test_diagonals() -> None:
    a = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(st.diag(st.from_numpy(a), 1).numpy(), np.diag(a, 1))
    assert np.array_equal(st.diag(st.tensor([1.0, 2.0]), -1).numpy(), np.diag([1.0, 2.0], -1))
    assert st.diag_embed(st.ones(2, 3)).shape == (2, 3, 3)
    assert st.diag_embed(st.ones(2, 3)).sum().item() == 6


def test_complex_from_parts() -> None:
    z = st.complex(st.tensor([1.0, 2.0]), st.tensor([3.0, -4.0]))
    assert z.tolist() == [1 + 3j, 2 - 4j]
    polar = st.polar(st.tensor([2.0]), st.tensor([math.pi / 2]))
    assert polar.item() == pytest.approx(2j, abs=1e-6)


def test_meshgrid_and_cartesian_prod() -> None:
    x, y = st.meshgrid(st.arange(2), st.arange(3), indexing="ij")
    assert x.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert y.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert st.cartesian_prod(st.tensor([1, 2]), st.tensor([3, 4])).tolist() == [
        [1, 3],
        [1, 4],
        [2, 3],
        [2, 4],
    ]
    assert st.block_diag(st.ones(1, 2), st.ones(1)).tolist() == [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    longest = st.empty(2**63 - 1, dtype=st.int8, device="meta")
    with pytest.raises(RuntimeError, match=r"columns of input 1 of shape \[2, 2\] are too many"):
        st.block_diag(longest, st.empty(2, 2, device="meta"))
    assert np.array_equal(st.vander(st.tensor([1, 2, 3])).numpy(), np.vander([1, 2, 3]))


def test_large_zeros_are_zero() -> None:
    assert not st.zeros(1 << 23, dtype=st.float32).any().item()


@pytest.mark.parametrize(
    "call",
    [
        lambda **kw: st.arange(3, **kw),
        lambda **kw: st.eye(2, **kw),
        lambda **kw: st.linspace(0, 1, 3, **kw),
        lambda **kw: st.randn(2, **kw),
        lambda **kw: st.zeros(2, **kw),
    ],
    ids=["arange", "eye", "linspace", "randn", "zeros"],
)
def test_a_factory_with_out_of_another_dtype_than_asked_for_is_refused(call: Any) -> None:
    out = st.empty(0, dtype=st.float64)
    with pytest.raises(RuntimeError, match="does not match dtype of out parameter"):
        call(dtype=st.float32, out=out)
    assert call(dtype=st.float64, out=out) is out
    assert call(out=out).dtype is st.float64


def test_eye_of_the_largest_number_of_columns() -> None:
    assert st.eye(0, 2**63 - 1).shape == (0, 2**63 - 1)


@pytest.mark.parametrize(
    "fill",
    [
        lambda out: st.arange(0, 4, out=out),
        lambda out: st.range(0, 3, out=out),
        lambda out: st.linspace(0, 3, 4, out=out),
        lambda out: st.logspace(0, 3, 4, 2, out=out).log2_(),
    ],
    ids=["arange", "range", "linspace", "logspace"],
)
@pytest.mark.filterwarnings("ignore")
def test_ranges_keep_the_shape_and_strides_of_an_out_of_their_size(
    fill: Callable[[Any], Any],
) -> None:
    whole = st.full((2, 3), 9.0)
    out = whole.narrow(1, 1, 2)
    assert fill(out) is out
    assert out.stride() == (3, 1)
    assert whole.tolist() == [[9.0, 0.0, 1.0], [9.0, 2.0, 3.0]]
    turned = st.zeros(2, 2).t()
    assert fill(turned).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert turned.stride() == (1, 2)
    assert fill(st.zeros(3)).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_full_of_a_number_has_no_half_complex_and_no_unsigned_dtype() -> None:
    st.set_default_dtype(st.float16)
    try:
        assert st.full((2,), 1j).dtype is st.complex64
        assert st.full((2,), 1.0).dtype is st.float16
    finally:
        st.set_default_dtype(st.float32)
    with pytest.raises(RuntimeError, match="int64_t without overflow"):
        st.full((1,), 2**63)


def test_meshgrid_wants_tensors_of_one_dtype_and_device() -> None:
    with pytest.raises(RuntimeError, match="meshgrid expects all tensors to have the same dtype"):
        st.meshgrid(st.ones(2), st.ones(2).long(), indexing="ij")
    with pytest.raises(RuntimeError, match="meshgrid expects all tensors to have the same device"):
        st.meshgrid(st.ones(2), st.ones(2, device="meta"), indexing="ij")


@pytest.mark.parametrize(
    "make",
    [
        lambda: st.ones(2, dtype=st.int64, requires_grad=True),
        lambda: st.tensor([1], requires_grad=True),
        lambda: st.arange(3, requires_grad=True),
        lambda: st.randperm(3, requires_grad=True),
        lambda: st.zeros(2, dtype=st.bool).new_ones(2, requires_grad=True),
    ],
)
def test_integers_are_not_made_to_require_grad(make: Callable[[], st.Tensor]) -> None:
    text = "Only Tensors of floating point and complex dtype can require gradients"
    with pytest.raises(RuntimeError, match=text):
        make()


def test_requires_grad_takes_a_bool() -> None:
    with pytest.raises(TypeError, match=r"\(position 1\) must be bool, not int"):
        st.ones(2).requires_grad_(1)
    assert st.ones(2).requires_grad_(requires_grad=True).requires_grad


def test_arange_says_that_an_out_has_another_number_of_elements() -> None:
    out = st.zeros(1, 49)
    with pytest.warns(UserWarning, match=r"The out tensor will be resized to a tensor of shape"):
        st.arange(-1, 1, 2.0 / 49, out=out)
    assert out.shape == (50,)
    for make in (st.linspace, st.logspace):
        out = st.zeros(1, 49)
        assert make(0, 1, 50, out=out).shape == (50,)  # no warning
