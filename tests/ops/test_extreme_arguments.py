"""Arguments near the ends of int64: a value or an error, never an endless loop or a wrapped sum."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as T
from shmtensor.nn import functional as F


@pytest.mark.parametrize("offset", [-(2**63), -7, -2, -1, 0, 1, 2, 7, 2**63 - 1])
@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (1, 1), (3, 5), (5, 3), (4, 4)])
def test_triangle_indices_are_numpys(rows: int, columns: int, offset: int) -> None:
    k = max(-100, min(offset, 100))
    lower = T.tril_indices(rows, columns, offset).numpy()
    upper = T.triu_indices(rows, columns, offset).numpy()
    assert np.array_equal(lower, np.array(np.tril_indices(rows, k, columns)))
    assert np.array_equal(upper, np.array(np.triu_indices(rows, k, columns)))


@pytest.mark.check
def test_triangle_of_many_rows_costs_only_its_elements() -> None:
    rows = 2**40
    assert T.tril_indices(rows, 3, -(2**41)).shape == (2, 0)
    assert T.tril_indices(rows, 1, 2 - rows).tolist() == [[rows - 2, rows - 1], [0, 0]]
    assert T.triu_indices(rows, 2, 1).tolist() == [[0], [1]]
    assert T.triu_indices(2**62, 3, 3).shape == (2, 0)


@pytest.mark.parametrize("function", [T.tril_indices, T.triu_indices])
def test_triangle_too_large_to_hold_is_an_error(function: Callable[..., object]) -> None:
    with pytest.raises(RuntimeError, match="4611686018427387904 rows and 4611686018427387903 col"):
        function(2**62, 2**62 - 1)


def test_triangle_beyond_the_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="52776558133200"):
        T.tril_indices(2**40, 3)


@pytest.mark.parametrize("argument", ["kernel_size", "stride", "padding", "dilation"])
@pytest.mark.parametrize("value", [2**31, 2**62, -(2**62)])
def test_pooling_refuses_what_does_not_fit_32_bits(argument: str, value: int) -> None:
    arguments = {"kernel_size": 2, argument: value}
    with pytest.raises(RuntimeError, match=f"{argument} {value}: value cannot be converted"):
        F.max_pool2d(T.ones(1, 1, 4, 4), **arguments)


def test_pooling_window_larger_than_the_image_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.max_pool2d(T.ones(1, 1, 4, 4), 2**31 - 1)


def test_dim_of_one_element_may_have_any_stride() -> None:
    t = T.ones(3).as_strided((1, 2), (2**62, 1))
    assert (t + t).tolist() == [[2.0, 2.0]]
    assert T.ones(3).as_strided((1,), (2**63 - 1,)).add(1).tolist() == [2.0]


@pytest.mark.parametrize("source", [T.empty(0), T.empty(0, 3)])
def test_take_along_dim_of_an_empty_tensor_finds_no_index(source: T.Tensor) -> None:
    assert T.take_along_dim(source, T.empty(0, dtype=T.int64)).shape == (0,)
    with pytest.raises(RuntimeError, match="index 2 is out of bounds for dimension 0 with size 0"):
        T.take_along_dim(source, T.tensor([2, 5]))


@pytest.mark.parametrize("padding", [(2**63 - 1, 100), (-(2**63), 2**63 - 1), (2**62, 2**62)])
@pytest.mark.parametrize("mode", ["constant", "replicate", "reflect", "circular"])
def test_padding_beyond_int64_is_an_error(mode: str, padding: tuple[int, int]) -> None:
    with pytest.raises(RuntimeError, match=f"{padding[0]}"):
        F.pad(T.ones(2, 3, 6), padding, mode=mode)
    if mode != "constant":
        with pytest.raises(RuntimeError, match="does not fit the input's"):
            T.ops.aten._pad_nonconstant_backward(T.ones(2, 3, 6), [2, 3, 4], padding, mode)


def test_averages_of_extreme_integers_wrap() -> None:
    low = T.full((1, 1, 4), -(2**63), dtype=T.int64)
    assert F.avg_pool1d(low, 2).tolist() == [[[0, 0]]]
    assert F.avg_pool2d(low[None], (1, 1), divisor_override=-1).tolist() == low[None].tolist()


def test_adaptive_pooling_into_more_than_int64_holds_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="9223372036854775807"):
        F.adaptive_avg_pool3d(T.ones(1, 1, 1, 7), (2**63 - 1, 64, 1))


def test_fold_into_more_than_int64_holds_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="9223372036854775807"):
        F.fold(T.ones(1, 8, 6), (2**63 - 1, 5), 2)


def test_more_combinations_than_can_be_counted() -> None:
    with pytest.raises(RuntimeError, match=f"{2**63 - 1} of 4"):
        T.combinations(T.arange(4), 2**63 - 1, True)
    with pytest.raises(RuntimeError, match="overflow"):
        T.combinations(T.arange(1), 2**63 - 1, True)
    assert T.combinations(T.arange(4), 2**63 - 1).shape == (0, 2**63 - 1)


def test_more_pieces_than_memory_holds_are_a_memory_error() -> None:
    for sections in (2**62, 2**50):
        with pytest.raises(MemoryError, match=r"\d{16}"):
            T.tensor_split(T.ones(2, 2), sections)


def test_zeta_of_large_arguments_takes_no_longer() -> None:
    s = T.linspace(1e4, 1e6, 10_000, dtype=T.float64)
    assert not T.special.zeta(s, 2.0).any()
    assert (T.special.zeta(s, 1.0) == 1).all()


def test_gradient_of_padding_beyond_int64_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="too large"):
        T.ops.aten._constant_pad_backward(T.ones(3), [-(2**63), 2])
    with pytest.raises(RuntimeError, match="Padding length"):
        T.ops.aten._constant_pad_backward(T.ones(3), [0] * 200)


@pytest.mark.check
def test_more_pivots_than_rows_are_an_error() -> None:
    pivots = T.ones(200, dtype=T.int32)
    with pytest.raises(RuntimeError, match="200 pivots are more than 3 rows"):
        T.lu_unpack(T.ones(3, 4), pivots)


def test_covariance_of_an_extreme_correction_is_none() -> None:
    assert abs(T.tensor([1.0, 2.0, 4.0]).cov(correction=-(2**63)).item()) < 1e-15


def test_more_bins_than_memory_holds_are_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="9223372036854775807"):
        T.ones(3, 4).histogram(2**63 - 1)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_gradient_of_another_shape_is_refused(device: str) -> None:
    grad = T.ones(2, device=device)
    with pytest.raises(RuntimeError, match=r"shape \[2\] for a result of shape \[0, 7\]"):
        T.ops.aten._as_strided_backward(grad, [3, 4], [4, 1], 3, [0, 7], [4, 1], 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.normalize(x),
        lambda x: T.block_diag(x),
        lambda x: x.numpy(),
        lambda x: x.sum(0, keepdim=True)[:, :0],
    ],
)
def test_sizes_of_an_empty_tensor_that_multiply_to_no_number_of_bytes(
    call: Callable[[T.Tensor], Any],
) -> None:
    x = T.empty(0, 2**62)
    with contextlib.suppress(RuntimeError, ValueError, MemoryError):
        assert 0 in call(x).shape


@pytest.mark.parametrize("shape", [(0, 2**62), (2**62, 0), (2**31, 2**31, 0), (0, 2**31, 2**31)])
def test_an_empty_tensor_of_huge_sizes_has_no_entries(shape: tuple[int, ...]) -> None:
    dense = T.empty(shape, dtype=T.complex64)
    for sparse_dim in range(1, len(shape)):
        sparse = dense.to_sparse(sparse_dim)
        assert sparse.shape == shape
        assert sparse._nnz() == 0
        assert sparse.values().shape == (0, *shape[sparse_dim:])
    assert dense.expand(1, *shape).shape == (1, *shape)


@pytest.mark.parametrize("offset", [-(2**63), -2, 2**63 - 1])
def test_a_tangent_is_not_viewed_outside_of_it(offset: int) -> None:
    with pytest.raises(RuntimeError, match=r"out of bounds|from the first of them|offset"):
        T.ops.aten._as_strided_tangent.default(T.zeros(4)[1:], [2], [1], offset)


def test_strides_of_an_empty_view_may_be_any() -> None:
    empty = T.empty(3, 0)
    strides = [2**63 - 1, 2**62]
    view = empty.as_strided((3, 0), strides)
    assert view.new_zeros(()).expand(view.shape).add_(view).shape == (3, 0)
    found = T.ops.aten._as_strided_forward.default(empty, strides, 0, [2, 0], [4, 1], 1)
    assert found.shape == (2, 0)


def test_sums_of_huge_meta_sizes_do_not_wrap() -> None:
    x = T.empty(2**63 - 1, dtype=T.int8, device="meta")
    assert (x + x).numel() == x.numel()
    with pytest.raises(OverflowError, match="nbytes"):
        T.ones((), device="meta").expand(2**62).nbytes


def test_half_spectrum_of_a_size_that_has_no_double_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        T.fft.irfftn(T.empty(2**63 - 1, dtype=T.int8, device="meta"))


@pytest.mark.parametrize("size", [2**62, 2**63 - 1])
def test_reductions_of_nothing_that_has_no_size(size: int) -> None:
    x = T.empty(0, size, dtype=T.int8)
    assert x.sum(1).shape == (0,)
    assert x.any(1, keepdim=True).shape == (0, 1)
    assert T.empty(0, 1, size, dtype=T.int8).amax(1).shape == (0, size)
    assert T.empty(1, 0, size, dtype=T.int8).sum((1, 2)).tolist() == [0]


def test_a_loss_of_an_unknown_reduction_is_not_reduced() -> None:
    loss = T.ops.aten.huber_loss.default(T.ones(3, 4), T.zeros(3, 4), 2**31)
    assert loss.shape == (3, 4)


def test_log_likelihood_of_an_unknown_reduction_is_summed() -> None:
    x, target = T.arange(8.0).reshape(4, 2), T.tensor([0, 1, 1, 0])
    loss, weight = T.ops.aten.nll_loss_forward.default(x, target, None, 5, -100)
    assert (loss.item(), weight.item()) == (-14, 4)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (1, 1, 3, 5, 5)])
def test_convolution_of_too_few_dims_is_refused_before_it_is_padded(shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match=r"3D \(unbatched\) or 4D"):
        T.conv2d(T.ones(shape), T.ones(2, 3, 2, 2), padding="same")


@pytest.mark.parametrize("dilation", [0, -1, 2**62, -(2**63)])
def test_padding_to_the_same_size_by_an_extreme_dilation_is_an_error(dilation: int) -> None:
    with pytest.raises(RuntimeError, match=r"dilation should be greater|longer than int64"):
        T.conv2d(T.ones(1, 3, 5, 5), T.ones(2, 3, 3, 4), padding="same", dilation=dilation)


def test_gradient_of_the_angle_at_the_origin_is_nothing() -> None:
    x = T.tensor([0.0, -0.0, 1e-40, 3.0], requires_grad=True)
    y = T.tensor([0.0, 0.0, 0.0, 4.0], requires_grad=True)
    T.atan2(x, y).sum().backward()
    np.testing.assert_allclose(x.grad, [0, 0, 0, 0.16])
    np.testing.assert_allclose(y.grad, [0, 0, 0, -0.12])


NAN = float("nan")


@pytest.mark.parametrize("dtype", [T.float32, T.float64, T.bfloat16])
@pytest.mark.parametrize("limits", [(NAN, 2), (0, NAN), (NAN, NAN)])
def test_limits_that_are_nan_make_all_nan(limits: tuple[float, float], dtype: T.dtype) -> None:
    x = T.arange(-20, 20, dtype=dtype)
    for got in (x.clamp(*limits), T.nn.functional.hardtanh(x, *limits)):
        assert got.isnan().all()
    low, high = limits
    assert x.clamp(min=low).isnan().all().item() is (low != low)
    assert x.clamp(max=high).isnan().all().item() is (high != high)


@pytest.mark.parametrize("dtype", [T.float32, T.float16, T.int16, T.uint8])
def test_the_upper_limit_counts_where_the_lower_one_is_higher(dtype: T.dtype) -> None:
    x = T.arange(0, 40, dtype=dtype)
    for got in (x.clamp(3, 2), T.ops.aten.hardtanh.default(x, 3, 2)):
        assert got.tolist() == [2] * 40
