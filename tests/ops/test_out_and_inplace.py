"""out= and in-place forms: scalars, overlapping elements, refused overlaps, layouts of results.

The tests of the families check the values of the functional forms.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import pytest

import shmtensor as T

NAN, INF = math.nan, math.inf


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("fmod", 3, [2, 1]),
        ("remainder", 3, [2, 1]),
        ("bitwise_left_shift", 1, [10, 14]),
        ("bitwise_right_shift", 1, [2, 3]),
        ("greater", 5, [0, 1]),
        ("greater_equal", 7, [0, 1]),
        ("less", 7, [1, 0]),
        ("less_equal", 5, [1, 0]),
        ("not_equal", 5, [0, 1]),
    ],
)
def test_out_takes_the_result_with_a_number(name: str, number: int, expected: list[int]) -> None:
    out = T.empty(0, dtype=T.int64)
    result = getattr(T, name)(T.tensor([5, 7]), number, out=out)
    assert result is out
    assert out.tolist() == expected


def test_out_of_a_number_to_a_power() -> None:
    out = T.empty(2)
    assert T.pow(2, T.tensor([1.0, 3.0]), out=out).tolist() == [2.0, 8.0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        T.pow(2.5, T.tensor([1.0]), out=T.empty(1, dtype=T.int64))


@pytest.mark.parametrize(
    "name", ["greater_", "greater_equal_", "less_", "less_equal_", "not_equal_"]
)
def test_other_names_of_comparisons_work_in_place_with_a_number(name: str) -> None:
    x = T.tensor([1.0, 2.0, 3.0])
    same = getattr(operator, {"gr": "gt", "le": "lt", "no": "ne"}[name[:2]])
    if "equal" in name and name != "not_equal_":
        same = {"gr": operator.ge, "le": operator.le}[name[:2]]
    expected = [float(same(v, 2)) for v in (1, 2, 3)]
    assert getattr(x, name)(2) is x
    assert x.tolist() == expected


def test_clip_by_tensors_writes_into_out() -> None:
    out = T.empty(3)
    T.clip(T.tensor([1.0, 5.0, 9.0]), T.tensor(2.0), T.tensor(6.0), out=out)
    assert out.tolist() == [2.0, 5.0, 6.0]


def test_threshold_works_in_place_of_elements_that_share_memory() -> None:
    x = T.tensor([0.5, 2.0])
    wide = x.expand(3, 2)
    assert T.nn.functional.threshold_(wide, 1.0, -9.0) is wide
    assert x.tolist() == [-9.0, 2.0]
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        T.threshold(T.ones(3, 2), 1.0, 0.0, out=wide)


def test_running_sums_are_made_in_the_dtype_of_out() -> None:
    out = T.empty(2, dtype=T.int64)
    assert T.cumsum(T.tensor([1.5, 2.5]), 0, out=out).tolist() == [1, 3]
    assert T.cumprod(T.tensor([1.5, 2.5]), 0, out=out).tolist() == [1, 2]


def test_comparison_in_place_reads_what_it_has_written() -> None:
    base = T.tensor([0.0, 3.0, 0.0])
    x = base.as_strided((2, 2), (1, 1))  # the element in the middle is twice in it
    x.gt_(T.tensor([[1.0, 1.0], [2.0, -1.0]]))
    # (0, 0) and (0, 1) first; then (1, 0) sees the 1 that (0, 1) made of 3.
    assert base.tolist() == [0.0, 0.0, 1.0]


def test_cat_refuses_to_write_into_what_it_reads() -> None:
    x, y = T.zeros(0), T.ones(4, 6)
    for out in (x, y, y[:2]):
        with pytest.raises(RuntimeError, match="single memory location"):
            T.cat((x, y), out=out)
    out = T.empty(0, dtype=T.float64)
    assert T.cat((T.ones(2), T.zeros(1)), out=out).tolist() == [1.0, 1.0, 0.0]


def test_gather_refuses_an_out_that_grows_over_its_index() -> None:
    index = T.tensor([2, 1, 0])
    with (
        pytest.raises(RuntimeError, match="single memory location"),
        pytest.warns(UserWarning, match="resized"),
    ):
        T.gather(T.arange(3), 0, index[1:], out=index[:1])


def test_aminmax_wants_its_own_dtype_in_out() -> None:
    out = T.empty(0, dtype=T.float64), T.empty(0)
    with pytest.raises(
        RuntimeError, match="Expected out tensor to have dtype float, but got double"
    ):
        T.aminmax(T.ones(3), out=out)


def test_steps_that_vanish_in_an_integral_range_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="step must be nonzero"):
        T.arange(0, 6, 0.5, out=T.empty(0, dtype=T.int64))


def test_roll_of_a_number_has_no_dimensions() -> None:
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        T.roll(T.tensor(1.0), 1, 0)


@pytest.mark.check
@pytest.mark.parametrize("make", [T.complex, T.polar])
def test_complex_numbers_lie_in_memory_as_their_parts(make: Callable[..., T.Tensor]) -> None:
    a = T.arange(12.0).reshape(3, 4).t()
    made = make(a, T.zeros(4, 3).t().contiguous().t())
    assert made.stride() == (1, 4)
    assert made.real.tolist() == a.tolist()
    meta = make(a.to(device="meta"), a.to(device="meta"))
    assert meta.stride() == make(a, a).stride()


def test_unique_slices_lie_along_the_dim() -> None:
    x = T.arange(60).reshape(3, 4, 5)
    for function in (T.unique, T.unique_consecutive):
        result = function(x, dim=1)
        assert result.stride() == (5, 15, 1)
        assert result.tolist() == x.tolist()


def test_a_conversion_to_the_format_it_has_is_the_tensor_itself() -> None:
    x = T.arange(24.0).reshape(4, 6)[::2, ::2]
    assert x.float(memory_format=T.contiguous_format).data_ptr() == x.data_ptr()


def test_isreal_of_nan() -> None:
    assert T.isreal(T.tensor([NAN, 1.0, INF])).tolist() == [True, True, True]


def test_nextafter_has_no_gradient_by_its_direction() -> None:
    x, y = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([1.0, 3.0], requires_grad=True)
    T.nextafter(x, y).sum().backward()
    assert x.grad is not None and y.grad is not None
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0, 1.0], [0.0, 0.0])


@pytest.mark.parametrize("function", [T.logaddexp, T.logaddexp2])
def test_gradient_of_logaddexp_at_infinity(function: Callable[..., T.Tensor]) -> None:
    x = T.tensor([INF, 0.0], requires_grad=True)
    y = T.tensor([-INF, INF], requires_grad=True)
    function(x, y).sum().backward()
    assert x.grad is not None and y.grad is not None
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0, 0.0], [0.0, 1.0])


def test_incomplete_gamma_functions_at_their_limits() -> None:
    a = T.tensor([NAN, NAN, INF, 1e20, 2.0, 0.0])
    x = T.tensor([0.0, INF, 1.0, 501.0, INF, 1.0])
    assert T.igamma(a, x).tolist() == [0.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    assert T.igammac(a, x).tolist() == [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_polygamma_at_its_ends_and_in_place() -> None:
    ends = T.polygamma(2, T.tensor([INF, -INF]))
    assert math.isnan(ends[0].item()) and ends[1].item() == -INF
    assert T.polygamma(1, T.tensor([INF])).item() == 0.0
    x = T.tensor([1.5, 2.0], requires_grad=True)
    y = x * 1
    assert y.polygamma_(1) is y
    y.sum().backward()
    assert x.grad is not None
    assert T.allclose(x.grad, T.polygamma(2, x.detach()))


def test_hash_is_the_exclusive_or_of_the_bits() -> None:
    x = T.tensor([[1, 2], [3, -4]])
    assert T.hash_tensor(x).item() == (1 ^ 2 ^ 3 ^ -4) % 2**64
    assert x.hash_tensor(0).tolist() == [1 ^ 3, (2 ^ -4) % 2**64]
    assert x.hash_tensor(1, keepdim=True).shape == (2, 1)
    same = x.double().contiguous().view(T.int64)
    assert T.hash_tensor(x.half()).item() == T.hash_tensor(same).item()
    with pytest.raises(IndexError, match="non-zero size"):
        T.hash_tensor(T.empty(0, 3), 0)
    out = T.empty(0, dtype=T.uint64)
    assert T.hash_tensor(x, out=out) is out and out.dtype is T.uint64
    assert T.hash_tensor(x.to(device="meta"), 1).shape == (2,)
    with pytest.raises(NotImplementedError, match="ComplexFloat"):
        T.hash_tensor(T.ones(2, dtype=T.complex64))
    with pytest.raises(RuntimeError, match="mode 3"):
        T.hash_tensor(x, mode=3)


def test_numbers_of_the_namespace() -> None:
    assert (T.pi, T.e, T.inf) == (math.pi, math.e, math.inf)
    assert math.isnan(T.nan)
    assert T.ones(2)[:, T.newaxis].shape == (2, 1)


def test_the_derivative_of_a_power_of_a_number_is_as_exact_as_the_exponent() -> None:
    for base in (2.0, 2):
        x = T.tensor(3.0, dtype=T.float64, requires_grad=True)
        (base**x).backward()
        assert x.grad.item() == pytest.approx(8 * math.log(2), rel=1e-15)


def test_names_from_before_python_3_and_of_sparse_tensors() -> None:
    x = T.tensor([2.0, 4.0])
    assert x.__rdiv__(8).tolist() == [4.0, 2.0]
    assert x.__div__(2).tolist() == [1.0, 2.0]
    assert x.to_dense() is x
    assert x.to_dense(T.int32).dtype is T.int32


def test_no_dims_are_given_by_none_too() -> None:
    x = T.arange(4).view(2, 2)
    assert T.roll(x, 1, dims=None).tolist() == [[3, 0], [1, 2]]
    assert x.roll(1, None).tolist() == [[3, 0], [1, 2]]
    assert (x.amax(dim=None).item(), x.amin(None).item()) == (3, 0)
    assert x.amax(dim=None, keepdim=True).tolist() == [[3]]
    assert T.nn.functional.max_pool2d(T.ones(1, 1, 4, 4), 2, None).shape == (1, 1, 2, 2)
    with pytest.raises(TypeError, match="must be tuple of ints, not NoneType"):
        x.flip(None)
