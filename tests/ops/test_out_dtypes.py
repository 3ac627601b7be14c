"""Which dtypes of out= an operator accepts, casting its result, and which it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T

HALF, THIRD = 0.5, 0.25


def _matrix() -> T.Tensor:
    return T.tensor([[1.0, HALF], [HALF, 2.0]])


@pytest.mark.check
@pytest.mark.parametrize("dtype", [T.bool, T.int64, T.float16, T.float64])
def test_bernoulli_writes_its_zeros_and_ones_in_any_dtype(dtype: T.dtype) -> None:
    p = T.tensor([0.0, 1.0, 1.0])
    assert T.bernoulli(p, out=T.empty(0, dtype=dtype)).tolist() == [0, 1, 1]


def test_bernoulli_wants_probabilities_and_a_real_out() -> None:
    with pytest.raises(NotImplementedError, match="'Long'"):
        T.bernoulli(T.tensor([1]))
    with pytest.raises(NotImplementedError, match="'ComplexFloat'"):
        T.bernoulli(T.tensor([1.0]), out=T.empty(0, dtype=T.complex64))


@pytest.mark.parametrize("name", ["irfft", "hfft", "irfft2", "hfft2", "irfftn", "hfftn"])
def test_real_transforms_refuse_a_complex_out(name: str) -> None:
    transform = getattr(T.fft, name)
    spectrum = T.ones(3, 3, dtype=T.complex64)
    wide = transform(spectrum, out=T.empty(0, dtype=T.float64))
    assert T.equal(wide, transform(spectrum).double())
    with pytest.raises(RuntimeError, match="floating point output tensor, but got ComplexFloat"):
        transform(spectrum, out=T.empty(0, dtype=T.complex64))


@pytest.mark.parametrize("function", [T.var, T.std, T.nanmean])
def test_moments_of_real_numbers_refuse_a_complex_out(function: Callable[..., T.Tensor]) -> None:
    assert function(_matrix(), 0, out=T.empty(0, dtype=T.float64)).dtype is T.float64
    with pytest.raises(NotImplementedError, match="'ComplexDouble'"):
        function(_matrix(), 0, out=T.empty(0, dtype=T.complex128))


def test_the_inner_product_with_a_number_is_cast() -> None:
    wide = T.empty(0, dtype=T.float64)
    assert T.inner(T.tensor(2.0), T.tensor([1.0, HALF]), out=wide).tolist() == [2.0, 1.0]
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float"):
        T.inner(_matrix(), _matrix(), out=T.empty(0, dtype=T.float64))


def test_powers_of_matrices_are_cast_where_the_last_step_is_no_product() -> None:
    for n in (0, 1, 4, 8):
        wide = T.linalg.matrix_power(_matrix(), n, out=T.empty(0, dtype=T.float64))
        assert T.equal(wide, T.linalg.matrix_power(_matrix(), n).double())
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float"):
        T.linalg.matrix_power(_matrix(), 5, out=T.empty(0, dtype=T.float64))


def test_eigenvalues_and_norms_want_their_own_dtype() -> None:
    outs = T.empty(0, dtype=T.float64), T.empty(0, dtype=T.float64)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float"):
        T.linalg.eigh(_matrix(), out=outs)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float"):
        T.linalg.vector_norm(_matrix().cfloat(), out=T.empty(0, dtype=T.complex64))


def test_cummax_wants_int64_for_the_indices() -> None:
    with pytest.raises(RuntimeError, match="expected scalar_type Long but found Float"):
        T.cummax(_matrix(), 0, out=(T.empty(0), T.empty(0)))
    with pytest.raises(RuntimeError, match="expected scalar_type Float but found Short"):
        T.cummin(_matrix(), 0, out=(T.empty(0, dtype=T.int16), T.empty(0, dtype=T.int64)))
    with pytest.raises(RuntimeError, match="expected scalar_type Float but found Double"):
        T.logcumsumexp(_matrix(), 0, out=T.empty(0, dtype=T.float64))


def test_running_sums_of_one_number_are_taken_as_bool() -> None:
    assert T.cumsum(T.tensor(2.5), 0, dtype=T.bool).item() is True
    assert T.cumprod(T.empty(0), 0, out=T.empty(0, dtype=T.bool)).numel() == 0
    with pytest.raises(NotImplementedError, match="'Bool'"):
        T.cumsum(T.ones(2), 0, dtype=T.bool)


@pytest.mark.check
def test_normal_numbers_are_drawn_in_the_dtype_of_out() -> None:
    wide = T.normal(_matrix(), 0.0, out=T.empty(2, 2, dtype=T.float64))
    assert wide.dtype is T.float64
    assert T.equal(wide, _matrix().double())
    with pytest.raises(NotImplementedError, match="'Long'"):
        T.normal(_matrix(), 1.0, out=T.empty(2, 2, dtype=T.int64))


def test_lerp_promotes_a_weight_without_dimensions_only() -> None:
    start, end = T.zeros(2), T.ones(2)
    weight = T.tensor(THIRD, dtype=T.float64)
    assert T.lerp(start, end, weight).dtype is T.float32
    assert T.lerp(start[0], end[0], weight).dtype is T.float64
    assert T.lerp(start, end, weight, out=T.empty(0, dtype=T.float64)).tolist() == [THIRD, THIRD]
    with pytest.raises(
        RuntimeError, match="expected dtype float for `weight` but got dtype double"
    ):
        T.lerp(start, end, weight.expand(2))
    with pytest.raises(RuntimeError, match="expected dtype float for `end` but got dtype double"):
        T.lerp(start, end.double(), weight)
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        T.lerp(start, end, weight.float().expand(2), out=T.empty(0, dtype=T.float64))


def test_limits_without_dimensions_are_promoted_as_tensors() -> None:
    number, limit = T.tensor(HALF), T.tensor(THIRD, dtype=T.float64)
    for limited in (T.clamp(number, limit), number.clamp_max(limit), T.clamp_min(number, limit)):
        assert limited.dtype is T.float64
    assert number.clamp(0, limit).dtype is T.float32
    assert T.clamp(T.ones(2), limit, out=T.empty(0, dtype=T.float64)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("function", [T.var, T.std])
def test_a_single_moment_is_written_into_a_complex_out(function: Callable[..., T.Tensor]) -> None:
    out = T.empty(0, dtype=T.complex128)
    assert function(_matrix(), dim=None, out=out) is out
    assert out.real.item() == pytest.approx(function(_matrix()).item())


@pytest.mark.parametrize("function", [T.var, T.std])
def test_moments_of_nothing_are_nan_in_any_out(function: Callable[..., T.Tensor]) -> None:
    out = T.empty(0, dtype=T.complex128)
    assert function(T.empty(0, 3), 0, out=out).isnan().tolist() == [True] * 3
    assert T.bernoulli(T.empty(0, 3), out=T.empty(0, dtype=T.complex64)).shape == (0, 3)


def test_a_tuple_of_positions_takes_no_out() -> None:
    with pytest.raises(RuntimeError, match="as_tuple"):
        T.nonzero(T.ones(2), as_tuple=True, out=T.empty(0, dtype=T.int64))
    places: Any = (T.empty(0, dtype=T.int64),)
    with pytest.raises(TypeError, match="must be Tensor, not tuple"):
        T.nonzero(T.ones(2), as_tuple=True, out=places)


def test_indices_are_written_into_their_own_dtype_only() -> None:
    x, wrong = T.ones(2, 2), T.empty(0)
    calls = (
        lambda out: T.sort(x, 1, out=out),
        lambda out: T.topk(x, 1, out=out),
        lambda out: T.kthvalue(x, 1, out=out),
        lambda out: T.median(x, 1, out=out),
        lambda out: T.nanmedian(x, 1, out=out),
        lambda out: T.mode(x, 1, out=out),
        lambda out: T.max(x, 1, out=out),
        lambda out: T.min(x, 1, out=out),
        lambda out: T.frexp(x, out=out),
    )
    for call in calls:
        for given in ((wrong, wrong.clone()), (wrong.double(), wrong.long())):
            with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
                call(given)
    assert T.median(x, 1, out=(T.empty(0), wrong.long())).indices.tolist() == [0, 0]


def test_composites_in_place_do_not_cast_to_integers() -> None:
    for call in (lambda x: x.ldexp_(T.ones(2)), lambda x: x.mvlgamma_(1)):
        with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired"):
            call(T.ones(2, dtype=T.int32))


@pytest.mark.parametrize("name", ["sum", "nansum", "mean", "nanmean", "prod", "cumsum"])
def test_a_dtype_that_is_asked_for_is_that_of_out(name: str) -> None:
    function = getattr(T, name)
    wide = T.empty(2, dtype=T.float64)
    with pytest.raises(
        RuntimeError, match="Expected out tensor to have dtype float, but got double"
    ):
        function(T.ones(2, 2), 0, out=wide, dtype=T.float32)
    assert function(T.ones(2, 2), 0, out=wide, dtype=T.float64) is wide
    assert function(T.ones(2, 2), 0, out=T.empty(0, dtype=T.float64)).dtype is T.float64
