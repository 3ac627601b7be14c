"""Where functions of the array API differ from shmtensor's own, which are torch's."""

from __future__ import annotations

import math
from typing import Any

import pytest

import shmtensor as T
from shmtensor import array_api as xp

inf, nan = math.inf, math.nan


def signs(x: T.Tensor) -> list[float]:
    return [math.copysign(1.0, n) for n in x.tolist()]


# --- elements ----------------------------------------------------------------------------------


@pytest.mark.check
def test_quotients_of_infinities_are_not_nan() -> None:
    x1 = xp.asarray([inf, inf, -inf, -inf, 3.0, -3.0, 7.0, -7.0, inf])
    x2 = xp.asarray([2.0, -2.0, 2.0, -2.0, -inf, inf, 2.0, 2.0, inf])
    got = xp.floor_divide(x1, x2)
    assert got.tolist()[:8] == [inf, -inf, -inf, inf, 0.0, 0.0, 3.0, -4.0]
    assert math.isnan(got[8].item())
    assert signs(got[4:6]) == [-1.0, -1.0]
    assert float(xp.floor_divide(xp.asarray(1.0, dtype=xp.float64), 0.1)) == 9.0


def test_remainder_zero_has_the_sign_of_the_divisor() -> None:
    got = xp.remainder(xp.asarray([-0.0, 0.0, 4.0, -4.0]), xp.asarray([2.0, -2.0, -2.0, 2.0]))
    assert got.tolist() == [0.0] * 4
    assert signs(got) == [1.0, -1.0, -1.0, 1.0]


def test_sign_of_nan_is_nan_and_of_complex_numbers_on_the_circle() -> None:
    got = xp.sign(xp.asarray([nan, -2.0, 0.0]))
    assert math.isnan(got[0].item())
    assert got[1:].tolist() == [-1.0, 0.0]
    assert xp.sign(xp.asarray([3 + 4j, 0j], dtype=xp.complex128)).tolist() == [0.6 + 0.8j, 0j]


def test_complex_parts_round_each() -> None:
    assert xp.round(xp.asarray([1.5 + 2.5j, -0.5 - 3.5j])).tolist() == [2 + 2j, -4j]
    assert xp.round(xp.conj(xp.asarray([1.5 + 2.6j]))).tolist() == [2 - 3j]
    assert xp.imag(xp.ones(2)).tolist() == [0.0, 0.0]
    assert xp.real(xp.ones(2)).tolist() == [1.0, 1.0]


def test_complex_zeros_have_the_standards_signs() -> None:
    small = xp.expm1(xp.asarray([complex(-0.0, 0.0), complex(0.0, -0.0), 1e-9 + 0j]))
    assert signs(xp.real(small)) == [1.0, 1.0, 1.0]
    assert signs(xp.imag(small))[:2] == [1.0, -1.0]
    limits = xp.tanh(xp.asarray([complex(inf, 2.0), complex(inf, -2.0), complex(-inf, 2.0)]))
    assert xp.real(limits).tolist() == [1.0, 1.0, -1.0]
    assert signs(xp.imag(limits)) == [1.0, -1.0, 1.0]
    exact = xp.asarray([1 + 1j], dtype=xp.complex128)
    assert xp.tanh(exact).tolist() == T.tanh(exact).tolist()
    assert xp.expm1(exact).tolist() == T.expm1(exact).tolist()


def test_clip_takes_numbers_arrays_and_nan() -> None:
    x = xp.asarray([1.0, 5.0, 9.0])
    assert xp.clip(x, 2, 6).tolist() == [2.0, 5.0, 6.0]
    assert xp.clip(x, xp.asarray([[0.0], [6.0]]), None).tolist() == [
        [1.0, 5.0, 9.0],
        [6.0, 6.0, 9.0],
    ]
    assert all(map(math.isnan, xp.clip(x, nan).tolist()))
    small = xp.asarray([1, -5, 100], dtype=xp.int8)
    assert xp.clip(small, -1000, 3).tolist() == [1, -5, 3]
    assert xp.clip(small, xp.asarray(-300), xp.asarray([300, 300, 44])).tolist() == [1, -5, 44]
    assert xp.clip(small, xp.asarray(0, dtype=xp.uint64)).tolist() == [1, 0, 100]
    copied = xp.clip(x)
    copied[0] = 7.0
    assert x[0].item() == 1.0


def test_gradients_flow_through_the_namespace() -> None:
    x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = xp.sum(xp.multiply(xp.pow(x, 2.0), xp.clip(x, 1.5, 2.5)))
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 4.0 * 2.0 + 4.0, 15.0]


# --- making ------------------------------------------------------------------------------------


def test_arange_away_from_the_end_is_empty() -> None:
    assert xp.arange(0, 5, -1).shape == (0,)
    assert xp.arange(5, 0, 1, dtype=xp.uint8).shape == (0,)
    assert xp.arange(0, step=1.0).dtype is xp.float32
    assert xp.arange(5, 0, -2).tolist() == [5, 3, 1]
    with pytest.raises(ValueError, match="step must not be 0"):
        xp.arange(0, 5, 0)


def test_linspace_without_its_end() -> None:
    assert xp.linspace(0, 4, 4, endpoint=False).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert xp.linspace(0, 4, 0).shape == (0,)
    assert xp.linspace(0, 1j, 2).dtype is xp.complex64
    with pytest.raises(ValueError, match="got -1"):
        xp.linspace(0, 1, -1)


def test_eye_has_its_ones_on_any_diagonal() -> None:
    assert xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert xp.eye(2, 3, k=-1, dtype=xp.int8).tolist() == [[0, 0, 0], [1, 0, 0]]
    for k in (-2, 3, 10**30):
        assert not xp.any(xp.eye(2, 3, k=k))


def test_shapes_may_be_integers() -> None:
    assert xp.zeros(3).shape == xp.full(3, 1).shape == xp.empty((3,)).shape == (3,)


def test_asarray_copies_only_when_asked() -> None:
    x = xp.ones(2)
    assert xp.asarray(x).data_ptr() == x.data_ptr()
    assert xp.asarray(x, copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError):
        xp.asarray([1, 2], copy=False)


def test_meshgrid_is_a_list_in_xy_order() -> None:
    grid = xp.meshgrid(xp.asarray([1, 2]), xp.asarray([3, 4, 5]))
    assert isinstance(grid, list)
    assert grid[0].tolist() == [[1, 2]] * 3
    assert xp.meshgrid(xp.asarray([1, 2]), xp.asarray([3]), indexing="ij")[0].tolist() == [[1], [2]]
    with pytest.raises(ValueError, match="'yx'"):
        xp.meshgrid(xp.ones(1), indexing="yx")


# --- reducing ----------------------------------------------------------------------------------


def test_no_axes_reduce_nothing() -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    for function in (xp.sum, xp.prod, xp.mean, xp.max, xp.min):
        along: Any = function
        assert along(x, axis=()).tolist() == x.tolist()
    assert xp.all(x, axis=()).tolist() == [[True, True], [True, True]]
    assert xp.var(x, axis=()).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert xp.linalg.vector_norm(-x, axis=()).tolist() == x.tolist()


def test_several_axes_and_kept_ones() -> None:
    x = xp.reshape(xp.arange(24), (2, 3, 4))
    assert xp.prod(x + 1, axis=(0, 2)).tolist() == [
        math.prod([1, 2, 3, 4, 13, 14, 15, 16]),
        math.prod([5, 6, 7, 8, 17, 18, 19, 20]),
        math.prod([9, 10, 11, 12, 21, 22, 23, 24]),
    ]
    assert xp.any(x, axis=(-1, 0), keepdims=True).shape == (1, 3, 1)
    assert xp.all(x).item() is False
    assert xp.count_nonzero(x, axis=(0, 1), keepdims=True).tolist() == [[[5, 6, 6, 6]]]
    assert xp.argmax(x, keepdims=True).tolist() == [[[23]]]
    with pytest.raises(IndexError, match="axis 3 is out of range"):
        xp.sum(x, axis=3)
    with pytest.raises(ValueError, match="given twice"):
        xp.sum(x, axis=(0, -3))


def test_all_and_any_are_bool_for_every_dtype() -> None:
    assert xp.all(xp.ones(2, dtype=xp.uint8)).dtype is xp.bool
    assert xp.any(xp.zeros((2, 2), dtype=xp.complex64), axis=0).tolist() == [False, False]


def test_sums_widen_integers_only() -> None:
    assert xp.sum(xp.ones(2, dtype=xp.int8)).dtype is xp.int64
    assert xp.prod(xp.ones(2, dtype=xp.float32)).dtype is xp.float32
    assert xp.sum(xp.ones(2, dtype=xp.int8), dtype=xp.int16).dtype is xp.int16
    assert xp.sum(xp.ones((2, 2), dtype=xp.int8), axis=()).dtype is xp.int64


def test_running_sums_may_begin_with_nothing() -> None:
    x = xp.asarray([[1, 2], [3, 4]])
    assert xp.cumulative_sum(x, axis=0, include_initial=True).tolist() == [[0, 0], [1, 2], [4, 6]]
    assert xp.cumulative_prod(x[1], include_initial=True).tolist() == [1, 3, 12]
    with pytest.raises(ValueError, match="axis must be given"):
        xp.cumulative_sum(x)


@pytest.mark.check
def test_deviations_take_a_correction() -> None:
    x = xp.asarray([1.0, 3.0])
    assert float(xp.std(x)) == 1.0
    assert float(xp.var(x, correction=1)) == 2.0
    assert float(xp.var(x, correction=0.5)) == pytest.approx(2 / 1.5)


def test_diff_with_ends_and_repetition() -> None:
    x = xp.asarray([1, 4, 9])
    assert xp.diff(x, n=2).tolist() == [2]
    assert xp.diff(x, n=9).tolist() == []
    assert xp.diff(x, prepend=xp.asarray([0]), append=xp.asarray([16])).tolist() == [1, 3, 5, 7]
    assert xp.diff(x, n=0).tolist() == [1, 4, 9]
    with pytest.raises(ValueError, match="got -1"):
        xp.diff(x, n=-1)


# --- shapes ------------------------------------------------------------------------------------


def test_joining_needs_equal_numbers_of_axes() -> None:
    with pytest.raises(ValueError, match="as many axes"):
        xp.concat([xp.ones((2, 2)), xp.ones((0,))])
    assert xp.concat([xp.ones((2, 2)), xp.ones(3)], axis=None).shape == (7,)
    with pytest.raises(ValueError, match="at least one"):
        xp.stack([])
    assert [row.tolist() for row in xp.unstack(xp.eye(2), axis=1)] == [[1, 0], [0, 1]]


def test_squeeze_refuses_longer_axes() -> None:
    x = xp.ones((1, 2, 1))
    assert xp.squeeze(x, (0, -1)).shape == (2,)
    with pytest.raises(ValueError, match="axis 1 has length 2"):
        xp.squeeze(x, 1)
    assert xp.expand_dims(x, -1).shape == (1, 2, 1, 1)
    with pytest.raises(IndexError):
        xp.expand_dims(x, 4)


def test_reshape_says_when_it_would_copy() -> None:
    x = xp.ones((2, 3))
    assert xp.reshape(x, (3, 2), copy=False).data_ptr() == x.data_ptr()
    assert xp.reshape(x, (3, 2), copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="needs a copy"):
        xp.reshape(x.T, (6,), copy=False)


def test_roll_flip_and_move() -> None:
    x = xp.reshape(xp.arange(6), (2, 3))
    assert xp.roll(x, 1).tolist() == [[5, 0, 1], [2, 3, 4]]
    assert xp.roll(x, 1, axis=(0, 1)).tolist() == [[5, 3, 4], [2, 0, 1]]
    assert xp.roll(x, (1, 1), axis=1).tolist() == [[1, 2, 0], [4, 5, 3]]
    assert xp.flip(x).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert xp.flip(x, axis=()).tolist() == x.tolist()
    assert xp.moveaxis(x, 0, -1).shape == (3, 2)
    with pytest.raises(ValueError, match="2 shifts do not go with 3 axes"):
        xp.roll(x, (1, 2), axis=(0, 1, 0))


def test_taking_counts_from_the_end_and_takes_any_integers() -> None:
    x = xp.reshape(xp.arange(6), (2, 3))
    indices = xp.asarray([0, 2], dtype=xp.uint8)
    assert xp.take(x, indices, axis=1).tolist() == [[0, 2], [3, 5]]
    assert xp.take(x[0], xp.asarray([-1, 0])).tolist() == [2, 0]
    assert xp.take_along_axis(x, xp.asarray([[-1], [0]]), axis=1).tolist() == [[2], [3]]
    assert xp.repeat(x, xp.asarray([1, 2], dtype=xp.int8), axis=0).shape == (3, 3)
    with pytest.raises(IndexError):
        xp.take(x, xp.asarray([3]), axis=1)


# --- searching, sorting, sets ------------------------------------------------------------------


def test_equal_elements_keep_their_order_both_ways() -> None:
    x = xp.asarray([2, 1, 2, 1])
    assert xp.argsort(x).tolist() == [1, 3, 0, 2]
    assert xp.argsort(x, descending=True).tolist() == [0, 2, 1, 3]


def test_nonzero_needs_an_axis() -> None:
    assert [i.tolist() for i in xp.nonzero(xp.asarray([[0, 3], [4, 0]]))] == [[0, 1], [1, 0]]
    with pytest.raises(ValueError, match="without axes"):
        xp.nonzero(xp.asarray(1))


def test_searchsorted_with_a_sorter() -> None:
    x = xp.asarray([3.0, 1.0, 2.0])
    order = xp.argsort(x)
    at = xp.searchsorted(x, xp.asarray([[2.0, 9.0]]), sorter=order)
    assert at.tolist() == [[1, 3]]
    assert xp.searchsorted(x, xp.asarray([2.0]), side="right", sorter=order).tolist() == [2]
    with pytest.raises(ValueError, match="'middle'"):
        xp.searchsorted(x, x, side="middle")


def test_sets_tell_where_and_how_often() -> None:
    x = xp.asarray([[3, 1], [3, 2]])
    values, indices, inverse, counts = xp.unique_all(x)
    assert values.tolist() == [1, 2, 3]
    assert indices.tolist() == [1, 3, 0]
    assert inverse.tolist() == [[2, 0], [2, 1]]
    assert counts.tolist() == [1, 1, 2]
    assert xp.unique_counts(x).counts.tolist() == [1, 1, 2]
    assert xp.unique_inverse(x).inverse_indices.shape == (2, 2)
    assert xp.unique_all(xp.empty((0, 2))).inverse_indices.shape == (0, 2)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "complex64"])
def test_all_functions_of_sets_agree(dtype: str) -> None:
    x = xp.reshape(xp.astype(xp.asarray([3, 1, 0, 3, 1, 1]), getattr(xp, dtype)), (2, 3))
    values, indices, inverse, counts = xp.unique_all(x)
    assert xp.unique_values(x).tolist() == values.tolist() == x.reshape(-1)[indices].tolist()
    assert xp.unique_counts(x)[0].tolist() == values.tolist()
    assert xp.unique_counts(x)[1].tolist() == counts.tolist()
    assert xp.unique_inverse(x)[0].tolist() == values.tolist()
    assert xp.unique_inverse(x)[1].tolist() == inverse.tolist()
    assert values[inverse].tolist() == x.tolist()


def test_every_nan_is_an_element_and_zeros_are_one() -> None:
    result = xp.unique_all(xp.asarray([nan, -0.0, 1.0, nan, 0.0]))
    assert result.values.tolist()[:2] == [0.0, 1.0]
    assert len(result.values) == 4
    assert result.counts.tolist() == [2, 1, 1, 1]
    assert sorted(result.indices.tolist()) == [0, 1, 2, 3]
    assert xp.unique_counts(xp.asarray([nan, -0.0, 1.0, nan, 0.0])).counts.tolist() == [2, 1, 1, 1]


def test_complex_numbers_make_sets() -> None:
    result = xp.unique_all(xp.asarray([1 + 1j, 1j, 1 + 1j, 1 - 1j]))
    assert result.values.tolist() == [1j, 1 - 1j, 1 + 1j]
    assert result.inverse_indices.tolist() == [2, 0, 2, 1]


# --- linear algebra and transforms -------------------------------------------------------------


def test_solve_takes_only_one_axis_for_a_vector() -> None:
    a = xp.stack([2 * xp.eye(2), 4 * xp.eye(2)])
    b = xp.asarray([[2.0, 4.0], [6.0, 8.0]])
    assert xp.linalg.solve(a, b[0]).tolist() == [[1.0, 2.0], [0.5, 1.0]]
    assert xp.linalg.solve(xp.ones((1, 1, 1)), xp.ones(1)).shape == (1, 1)
    assert xp.linalg.solve(a, b).tolist() == [[[1.0, 2.0], [3.0, 4.0]], [[0.5, 1.0], [1.5, 2.0]]]


def test_products_conjugate_and_broadcast() -> None:
    x = xp.asarray([1j, 2.0], dtype=xp.complex64)
    assert xp.vecdot(x, x).item() == 5
    assert xp.vecdot(xp.ones((3, 2)), xp.asarray([[1.0], [2.0], [3.0]]), axis=0).tolist() == [
        6.0,
        6.0,
    ]
    assert xp.linalg.cross(xp.ones((2, 3)), xp.asarray([1.0, 2.0, 3.0])).shape == (2, 3)
    with pytest.raises(ValueError, match="differ along axis -1"):
        xp.vecdot(xp.ones(2), xp.ones(1))
    with pytest.raises(ValueError, match="3 elements"):
        xp.linalg.cross(xp.ones(2), xp.ones(2))
    with pytest.raises(ValueError, match="must have an axis"):
        xp.matmul(xp.asarray(1.0), xp.ones(1))


def test_results_have_the_standards_names() -> None:
    x = xp.asarray([[2.0, 0.0], [0.0, 3.0]])
    assert xp.linalg.eigh(x).eigenvalues.tolist() == [2.0, 3.0]
    assert xp.linalg.svd(x).S.tolist() == [3.0, 2.0]
    assert xp.linalg.qr(x).R.shape == (2, 2)
    assert xp.linalg.slogdet(x).sign.item() == 1.0
    assert float(xp.linalg.vector_norm(x, ord=1)) == 5.0
    assert xp.linalg.matrix_norm(x, keepdims=True).shape == (1, 1)
    with pytest.raises(ValueError, match="'raw'"):
        xp.linalg.qr(x, mode="raw")


def test_transforms_take_axes_by_the_standards_names() -> None:
    x = xp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert xp.fft.fft(x, axis=0).tolist()[1] == [-3, -3, -3]
    again = xp.fft.irfft(xp.fft.rfft(x, axis=1), n=3, axis=1)
    assert xp.reshape(again, (6,)).tolist() == pytest.approx([1, 2, 3, 4, 5, 6])
    assert xp.fft.fftn(x, axes=(0,), norm="forward").tolist()[0] == [2.5, 3.5, 4.5]
    assert xp.fft.fftshift(xp.arange(4), axes=0).tolist() == [2, 3, 0, 1]
    assert xp.fft.fftfreq(4, d=0.5).tolist() == [0.0, 0.5, -1.0, -0.5]
