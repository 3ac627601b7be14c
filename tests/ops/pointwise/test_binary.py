"""Arithmetic on two tensors: values in every dtype, promotion, wrap-around, division by 0."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from ops.samples import BAREBONES_UNSIGNED, COMPLEX, FLOATS, INTS, array, check, tensor, values

import shmtensor


def exact(dtype: str) -> str:
    """The dtype NumPy calculates in for *dtype*: bfloat16 in float32."""
    return "float32" if dtype == "bfloat16" else dtype


@pytest.mark.parametrize("dtype", INTS + FLOATS + COMPLEX)
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
@pytest.mark.filterwarnings("ignore:overflow")
def test_arithmetic_equals_numpy_and_wraps(name: str, dtype: str) -> None:
    a, b = values(dtype), values(dtype, seed=1)
    with np.errstate(all="ignore"):
        want = getattr(np, {"add": "add", "sub": "subtract", "mul": "multiply"}[name])(a, b)
    got = getattr(shmtensor, name)(tensor(a, dtype), tensor(b, dtype))
    check(got, want, dtype)


@pytest.mark.parametrize("dtype", BAREBONES_UNSIGNED)
def test_wide_unsigned_have_products_and_bits_only(dtype: str) -> None:
    a, b = values(dtype), values(dtype, seed=1)
    with np.errstate(all="ignore"):
        check(tensor(a) * tensor(b), a * b)
    check(tensor(a) ^ tensor(b), a ^ b)
    with pytest.raises(NotImplementedError, match='"add" not implemented for \'UInt'):
        tensor(a) + tensor(b)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_true_division_equals_numpy(dtype: str) -> None:
    a, b = values(dtype), values(dtype, seed=1)
    b[b == 0] = 3
    check(tensor(a, dtype) / tensor(b, dtype), a / b, dtype)


@pytest.mark.parametrize("dtype", INTS)
def test_integers_divide_to_the_default_dtype(dtype: str) -> None:
    a, b = values(dtype), values(dtype, seed=1)
    with np.errstate(all="ignore"):
        want = a.astype(np.float32) / b.astype(np.float32)
    check(tensor(a) / tensor(b), want, "float32")


@pytest.mark.check
@pytest.mark.parametrize("dtype", [*INTS, "float32", "float64"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_rounded_division_equals_numpy(name: str, dtype: str) -> None:
    a, b = values(dtype), values(dtype, seed=1)
    b[b == 0] = 7
    with np.errstate(all="ignore"):
        want = getattr(np, name)(a, b)
    check(getattr(shmtensor, name)(tensor(a), tensor(b)), want, dtype, rtol=1e-6)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integer_division_by_zero_is_an_error(name: str, dtype: str) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        getattr(shmtensor, name)(tensor(np.ones(5, dtype)), tensor(np.zeros(5, dtype)))


def test_smallest_integer_by_minus_one_wraps() -> None:
    low = shmtensor.tensor([-(2**63)])
    assert (low // -1).item() == -(2**63)
    assert (low % -1).item() == 0
    assert shmtensor.fmod(low, -1).item() == 0
    assert (-low).item() == -(2**63)
    assert shmtensor.abs(low).item() == -(2**63)


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
def test_division_mode_rounds(mode: str | None) -> None:
    a, b = np.array([7.0, -7.0, 7.0, -7.0]), np.array([2.0, 2.0, -2.0, -2.0])
    want = {None: a / b, "trunc": np.trunc(a / b), "floor": np.floor(a / b)}[mode]
    check(shmtensor.div(tensor(a), tensor(b), rounding_mode=mode), want)


def test_division_mode_of_another_name_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="but found 'up'"):
        shmtensor.div(shmtensor.ones(2), shmtensor.ones(2), rounding_mode="up")


def test_floor_division_of_floats_is_pythons() -> None:
    assert (shmtensor.tensor(1.0, dtype=shmtensor.float64) // 0.1).item() == 1.0 // 0.1


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_maximum_and_minimum_treat_nan_as_numpy(name: str) -> None:
    a = np.array([1.0, np.nan, 2.0, np.nan, -0.5], np.float32)
    b = np.array([2.0, 1.0, np.nan, np.nan, -0.5], np.float32)
    check(getattr(shmtensor, name)(tensor(a), tensor(b)), getattr(np, name)(a, b))


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "float64", "complex64"])
def test_powers_equal_numpy(dtype: str) -> None:
    a = np.abs(values(dtype)).astype(dtype) if dtype not in COMPLEX else values(dtype)
    b = np.arange(a.size).astype(dtype) % 4 if dtype not in COMPLEX else np.full(a.size, 2, dtype)
    with np.errstate(all="ignore"):
        check(tensor(a) ** tensor(b), a**b, rtol=1e-5 if dtype[0] in "fc" else 0.0)


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -0.5, -1, 1.7, 0])
def test_power_by_a_number_equals_numpy(exponent: float) -> None:
    a = np.abs(values("float64")) + 0.1
    check(tensor(a) ** exponent, a**exponent)


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, *COMPLEX, *BAREBONES_UNSIGNED])
def test_powers_zero_and_one_are_exact_in_every_dtype(dtype: str) -> None:
    a = shmtensor.tensor([0, 1, 3], dtype=getattr(shmtensor, dtype))
    assert (a**1).tolist() == [0, 1, 3]
    assert (a**0).tolist() == [1, 1, 1]
    assert (a**0).dtype == (a**1).dtype == a.dtype
    assert shmtensor.pow(a, 0, out=shmtensor.empty_like(a)).tolist() == [1, 1, 1]
    b = a.clone()
    assert b.pow_(0) is b
    assert b.tolist() == [1, 1, 1]
    assert (a**1).data_ptr() != a.data_ptr()


def test_power_zero_of_nan_is_one_and_has_no_slope() -> None:
    a = tensor(np.array([np.nan, np.inf, 0.0], np.float32)).requires_grad_()
    (a**0).sum().backward()
    assert (a**0).tolist() == [1, 1, 1]
    assert a.grad is not None
    assert a.grad.tolist() == [0, 0, 0]


def test_negative_integer_powers_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        shmtensor.ones(2, dtype=shmtensor.int64) ** -1


@pytest.mark.check
@pytest.mark.parametrize(
    "name", ["atan2", "hypot", "logaddexp", "logaddexp2", "copysign", "nextafter"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_two_equal_numpy(name: str, dtype: str) -> None:
    a, b = values(dtype), values(dtype, seed=1)
    want = getattr(np, {"atan2": "arctan2"}.get(name, name))(a, b)
    check(
        getattr(shmtensor, name)(tensor(a), tensor(b)),
        want,
        rtol=3e-6 if dtype == "float32" else 1e-14,
    )


@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_divisors_equal_numpy(name: str) -> None:
    a, b = np.arange(-20, 20), np.arange(-3, 37)
    check(getattr(shmtensor, name)(tensor(a), tensor(b)), getattr(np, name)(a, b))


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor])
@pytest.mark.parametrize("dtype", ["bool", *INTS])
def test_bits_equal_numpy(op: Any, dtype: str) -> None:
    a, b = values(dtype), values(dtype, seed=1)
    check(op(tensor(a), tensor(b)), op(a, b))


@pytest.mark.parametrize("op", [operator.lshift, operator.rshift])
@pytest.mark.parametrize("dtype", INTS)
def test_shifts_equal_numpy(op: Any, dtype: str) -> None:
    a = values(dtype)
    b = np.arange(a.size).astype(dtype) % (8 * a.itemsize)
    check(op(tensor(a), tensor(b)), op(a, b))


def test_shift_by_the_width_leaves_nothing() -> None:
    a = shmtensor.tensor([-5, 5], dtype=shmtensor.int32)
    assert (a << 32).tolist() == [0, 0]
    assert (a >> 40).tolist() == [-1, 0]
    full = shmtensor.full((20,), 255, dtype=shmtensor.uint8)
    assert (full >> shmtensor.full((20,), 8, dtype=shmtensor.uint8)).tolist() == [0] * 20
    assert (full >> 200).tolist() == [0] * 20


def test_alpha_scales_the_second_operand() -> None:
    a, b = shmtensor.tensor([1, 2]), shmtensor.tensor([3, 4])
    assert shmtensor.add(a, b, alpha=10).tolist() == [31, 42]
    assert shmtensor.sub(a, b, alpha=2).tolist() == [-5, -6]
    assert shmtensor.rsub(a, b, alpha=2).tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="alpha must not be a floating point"):
        shmtensor.add(a, b, alpha=1.5)


def test_bool_subtraction_and_negation_are_refused() -> None:
    a = shmtensor.tensor([True])
    with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with two bool tensors"):
        a - a
    with pytest.raises(RuntimeError, match="Negation, the `-` operator, on a bool tensor"):
        -a


# torch's promotion: what it says for (tensor, tensor), (tensor, 0-d tensor), (tensor, number)
PROMOTIONS = [
    ("int32", "dim", "float32", "dim", "float32"),
    ("uint8", "dim", "int8", "dim", "int16"),
    ("float16", "dim", "bfloat16", "dim", "float32"),
    ("int64", "dim", "float32", "zero", "float32"),
    ("float32", "dim", "float64", "zero", "float32"),
    ("float32", "zero", "float64", "zero", "float64"),
    ("int8", "dim", "int64", "zero", "int8"),
    ("bool", "dim", "int64", "zero", "int64"),
    ("float32", "dim", "complex128", "zero", "complex64"),
]


@pytest.mark.parametrize("row", PROMOTIONS, ids=lambda row: "-".join(row))
def test_promotion_follows_torchs_categories(row: tuple[str, str, str, str, str]) -> None:
    first, first_kind, second, second_kind, want = row

    def make(dtype: str, kind: str) -> Any:
        return shmtensor.ones((3,) if kind == "dim" else (), dtype=getattr(shmtensor, dtype))

    a, b = make(first, first_kind), make(second, second_kind)
    assert (a + b).dtype == getattr(shmtensor, want)
    assert (b * a).dtype == getattr(shmtensor, want)


@pytest.mark.parametrize(
    ("dtype", "number", "want"),
    [
        ("int32", 2, "int32"),
        ("int32", 2.0, "float32"),
        ("float16", 2.0, "float16"),
        ("float64", 2, "float64"),
        ("bool", 2, "int64"),
        ("bool", True, "bool"),
        ("int8", 1j, "complex64"),
        ("float64", 1j, "complex128"),
    ],
)
def test_numbers_are_weakest_in_promotion(dtype: str, number: complex, want: str) -> None:
    a = shmtensor.ones(3, dtype=getattr(shmtensor, dtype))
    assert (a * number).dtype == getattr(shmtensor, want)
    assert (number * a).dtype == getattr(shmtensor, want)


def test_number_keeps_its_precision_beside_float64() -> None:
    a = np.array([1.0, 2.0])
    check(tensor(a) * 0.1, a * 0.1, rtol=0.0)
    check(shmtensor.rsub(tensor(a), 0.1), 0.1 - a, rtol=0.0)


def test_wide_unsigned_do_not_promote() -> None:
    with pytest.raises(
        RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"
    ):
        shmtensor.ones(2, dtype=shmtensor.uint16) + shmtensor.ones(2, dtype=shmtensor.int32)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_quotients_of_any_magnitude(dtype: str) -> None:
    rng = np.random.default_rng(4)
    parts = rng.normal(size=(4, 500)) * 10.0 ** rng.integers(-15, 15, (4, 500))
    a, b = (parts[0] + 1j * parts[1]).astype(dtype), (parts[2] + 1j * parts[3]).astype(dtype)
    got = array(tensor(a, dtype) / tensor(b, dtype))
    want = a.astype("clongdouble") / b.astype("clongdouble")
    assert np.max(np.abs(got - want) / np.abs(want)) < 4 * np.finfo(dtype).eps
    zero = array(tensor(np.array([1 - 2j, 0, complex(0, 3)], dtype), dtype) / 0j)
    assert (zero[0].real, zero[0].imag) == (np.inf, -np.inf)
    assert np.isnan(zero[1].real) and np.isnan(zero[1].imag)
    assert np.isnan(zero[2].real) and zero[2].imag == np.inf
    assert array(tensor(np.array([1 + 1j], dtype), dtype) / complex(0, -2)).tolist() == [
        -0.5 + 0.5j
    ]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int64"])
def test_lcm_of_every_small_number_equals_numpy(dtype: str) -> None:
    """255 is the largest uint8, not the -1 whose multiple is 0 in signed dtypes."""
    info = np.iinfo(dtype)
    a = np.arange(max(info.min + 1, -300), min(info.max, 300) + 1).astype(dtype)
    exact = np.lcm(a[:, None].astype(np.int64), a.astype(np.int64))
    found = shmtensor.lcm(tensor(a[:, None]), tensor(a)).numpy()
    fits = exact <= info.max
    np.testing.assert_array_equal(found[fits], exact[fits])
    if dtype == "uint8":
        np.testing.assert_array_equal(found, exact.astype(np.uint8))
