"""Tensors from Python data: inferred dtypes, shapes, torch's texts for data that does not fit."""

from __future__ import annotations

import array
import ctypes
import re
from typing import Any

import numpy as np
import pytest

import shmtensor as T

GOOD: list[tuple[Any, T.dtype, Any]] = [
    (1, T.int64, 1),
    (True, T.bool, True),
    (1.5, T.float32, 1.5),
    (1j, T.complex64, 1j),
    ([], T.float32, []),
    ([[]], T.float32, [[]]),
    ([[], [1]], T.float32, [[], []]),
    ([1, 2.5], T.float32, [1.0, 2.5]),
    ([True, 1], T.int64, [1, 1]),
    ([1, 1j], T.complex64, [1 + 0j, 1j]),
    (range(3), T.int64, [0, 1, 2]),
    ([[1, 2], (3, 4)], T.int64, [[1, 2], [3, 4]]),
    (np.float64(2), T.float64, 2.0),
    (np.float32(2), T.float32, 2.0),
    (np.int8(2), T.int8, 2),
    (np.bool_(True), T.bool, True),
    ([np.float32(2), 1], T.float32, [2.0, 1.0]),
    ([np.int32(1), 2], T.int64, [1, 2]),
    (np.array([[1, 2]], dtype=np.int16), T.int16, [[1, 2]]),
    ([np.ones(2), np.ones(2)], T.float64, [[1.0, 1.0], [1.0, 1.0]]),
    (bytearray(b"ab"), T.int64, [97, 98]),
    (memoryview(b"ab"), T.int64, [97, 98]),
]


@pytest.mark.parametrize(("data", "dtype", "values"), GOOD, ids=[type(g[0]).__name__ for g in GOOD])
def test_data_becomes_torchs_dtype_and_values(data: Any, dtype: T.dtype, values: Any) -> None:
    t = T.tensor(data)
    assert t.dtype is dtype
    assert t.tolist() == values


@pytest.mark.check
def test_zero_dim_tensors_are_elements() -> None:
    assert T.tensor([T.tensor(1), T.tensor(2.0)]).tolist() == [1.0, 2.0]


BAD: list[tuple[Any, type[Exception], str]] = [
    ([1, [2]], TypeError, "'list' object cannot be interpreted as an integer"),
    ([[1], 2], TypeError, "not a sequence"),
    ([[1, 2, 3], [4, 5]], ValueError, "expected sequence of length 3 at dim 1 (got 2)"),
    ("x", TypeError, "new(): invalid data type 'str'"),
    (["x"], ValueError, "too many dimensions 'str'"),
    (None, RuntimeError, "Could not infer dtype of NoneType"),
    ([None], RuntimeError, "Could not infer dtype of NoneType"),
    ({1}, RuntimeError, "Could not infer dtype of set"),
    ({1: 2}, RuntimeError, "Could not infer dtype of dict"),
    (b"ab", TypeError, "new(): invalid data type 'bytes'"),
    ([object()], RuntimeError, "Could not infer dtype of object"),
    (2**63, ValueError, "Overflow when unpacking long long"),
    ([2**70], ValueError, "Overflow when unpacking long long"),
    (np.array(["a"]), TypeError, "can't convert np.ndarray of type numpy.str_."),
    (np.array([1], dtype=">i4"), ValueError, "byte order different from the native byte order"),
    ([T.ones(2)], ValueError, "only one element tensors can be converted to Python scalars"),
]


@pytest.mark.parametrize(("data", "kind", "text"), BAD, ids=[type(b[0]).__name__ for b in BAD])
def test_data_that_does_not_fit_says_why(data: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        T.tensor(data)


def test_endless_nesting_ends_in_an_error() -> None:
    data: list[Any] = []
    data.append(data)
    with pytest.raises(ValueError, match="too many dimensions"):
        T.tensor(data)


def test_list_that_changes_while_it_is_read_is_an_error() -> None:
    data: list[Any] = [0, 0, 0]

    class Shrinks(float):
        pass

    class Index:
        def __index__(self) -> int:
            del data[:]
            return 1

    data[0] = Index()
    with pytest.raises((RuntimeError, TypeError)):
        T.tensor(data, dtype=T.int64)


@pytest.mark.parametrize(
    ("data", "dtype", "values"),
    [
        ([1.5], T.int32, [1]),
        ([-1], T.uint8, [255]),
        (1, T.bool, True),
        ([1e40], T.float32, [float("inf")]),
        ([1], T.complex128, [1 + 0j]),
        ([3], T.bfloat16, [3.0]),
    ],
    ids=repr,
)
def test_given_dtype_converts(data: Any, dtype: T.dtype, values: Any) -> None:
    t = T.tensor(data, dtype=dtype)
    assert t.dtype is dtype
    assert t.tolist() == values


def test_value_out_of_range_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="without overflow"):
        T.tensor([300], dtype=T.uint8)
    with pytest.raises(TypeError, match="must be real number, not complex"):
        T.tensor([1j], dtype=T.float32)


def test_tensor_of_tensor_copies_and_warns() -> None:
    a = T.ones(2)
    with pytest.warns(UserWarning, match="copy construct"):
        b = T.tensor(a)
    b[0] = 5
    assert a.tolist() == [1.0, 1.0]


def test_tensor_copies_arrays() -> None:
    array = np.ones(2)
    t = T.tensor(array)
    array[0] = 5
    assert t.tolist() == [1.0, 1.0]


def test_default_dtype_decides_for_floats() -> None:
    T.set_default_dtype(T.float64)
    try:
        assert T.tensor(1.5).dtype is T.float64
        assert T.tensor(1j).dtype is T.complex128
        assert T.zeros(1).dtype is T.float64
    finally:
        T.set_default_dtype(T.float32)
    with pytest.raises(TypeError):
        T.set_default_dtype(T.int64)


def test_as_tensor_shares_where_it_can() -> None:
    a = T.ones(2)
    assert T.as_tensor(a) is a
    assert T.as_tensor(a, dtype=T.float64) is not a
    array = np.ones(2)
    T.as_tensor(array)[0] = 7
    assert array[0] == 7
    assert T.as_tensor([1, 2], dtype=T.int8).tolist() == [1, 2]


def test_asarray_honours_copy() -> None:
    array = np.ones(2)
    T.asarray(array, copy=False)[0] = 7
    assert array[0] == 7
    copied = T.asarray(array, copy=True)
    copied[0] = 1
    assert array[0] == 7
    with pytest.raises(ValueError, match="can't alias"):
        T.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="can't alias"):
        T.asarray(array, dtype=T.int8, copy=False)


def test_old_style_constructor_takes_sizes_or_data() -> None:
    assert T.Tensor().shape == (0,)
    assert T.Tensor(2, 3).shape == (2, 3)
    assert T.Tensor(T.Size([2, 3])).shape == (2, 3)
    assert T.Tensor([1, 2]).tolist() == [1.0, 2.0]
    assert T.Tensor((2, 3)).tolist() == [2.0, 3.0]
    with pytest.raises(TypeError, match=re.escape("new(): data must be a sequence (got float)")):
        T.Tensor(2.5)
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        T.Tensor(-1)


def test_typed_constructors_and_isinstance() -> None:
    t = T.IntTensor([1, 2])
    assert t.dtype is T.int32
    assert isinstance(t, T.IntTensor)
    assert not isinstance(t, T.FloatTensor)
    assert T.LongTensor([1.5]).tolist() == [1]
    assert T.DoubleTensor(2, 2).shape == (2, 2)


@pytest.mark.check
def test_new_tensor_keeps_the_dtype() -> None:
    t = T.zeros(1, dtype=T.float64)
    assert t.new_tensor([1, 2]).dtype is T.float64
    assert t.new_tensor([1, 2], dtype=T.int8).dtype is T.int8


def test_asarray_keeps_the_history_unless_told_otherwise() -> None:
    made = T.ones(2, requires_grad=True).add(2)
    assert T.asarray(made) is made
    assert T.asarray(made, copy=True).grad_fn is not None
    assert not T.asarray(made, requires_grad=False).requires_grad
    assert T.asarray(made, requires_grad=False).data_ptr() == made.data_ptr()
    assert T.asarray([1.0], requires_grad=True).requires_grad


def test_numbers_keep_their_digits_in_the_dtype_that_is_asked_for() -> None:
    for make in (T.tensor, T.as_tensor, T.asarray):
        assert make(0.3, dtype=T.float64).item() == 0.3
        assert make(-7.5e153, dtype=T.float64).item() == -7.5e153
        assert make([1e300, 0.1], dtype=T.float64).tolist() == [1e300, 0.1]
        assert make(0.1 + 1e200j, dtype=T.complex128).item() == 0.1 + 1e200j
        assert make(2**62 + 1, dtype=T.int64).item() == 2**62 + 1
        assert make(2**62, dtype=T.float16).item() == float("inf")
    assert T.asarray(np.float64(0.3)).item() == 0.3
    assert T.asarray(np.float64(0.3), dtype=T.complex128).item() == 0.3
    with pytest.raises(TypeError, match="must be real number, not complex"):
        T.asarray(1j, dtype=T.float64)


def test_asarray_of_a_capsule_shares_its_memory() -> None:
    x = T.ones(3)
    assert T.asarray(x.__dlpack__(), copy=False).data_ptr() == x.data_ptr()
    assert T.asarray(x.__dlpack__(), copy=True).data_ptr() != x.data_ptr()
    assert T.asarray(x.__dlpack__(), dtype=T.float64).tolist() == [1, 1, 1]


def test_asarray_does_not_share_numbers_of_numpy() -> None:
    for number in (np.float32(1), np.float64(1), np.int64(1)):
        with pytest.raises(RuntimeError, match="can't alias NumPy scalars"):
            T.asarray(number, copy=False)
        assert T.asarray(number).item() == 1
    with pytest.raises(ValueError, match="dtype 'Double' into dtype 'Float'"):
        T.asarray(np.ones(3), copy=False, dtype=T.float32)
    with pytest.raises(ValueError, match="from device 'cpu' to 'meta'"):
        T.asarray(T.ones(3), copy=False, device="meta")


def test_arrays_without_dimensions_are_elements() -> None:
    x = T.tensor(((7, np.array(5)), (1, 5.0)))
    assert (x.dtype, x.tolist()) == (T.float32, [[7, 5], [1, 5]])
    assert T.tensor([1, np.array(2.5)]).dtype is T.float64
    assert T.tensor([T.tensor(1), np.array(2)], dtype=T.int8).tolist() == [1, 2]
    with pytest.raises(TypeError, match="invalid data type"):
        T.tensor([1, np.array("a")])


def test_integers_beyond_64_bits() -> None:
    for number in (2**64, -(2**64), 2**63):
        assert T.tensor([number], dtype=T.bool).tolist() == [True]
        assert T.tensor(number, dtype=T.float64).item() == number
        assert T.tensor([number], dtype=T.complex128).tolist() == [number]
    for dtype in (None, T.int64, T.uint8):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            T.tensor([2**64], dtype=dtype)
    with pytest.raises(OverflowError, match="int too big to convert"):
        T.tensor([2**64], dtype=T.uint64)
    with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
        T.tensor([-1], dtype=T.uint64)
    assert T.tensor([2**63], dtype=T.uint64).tolist() == [2**63]


def test_list_that_holds_itself_is_refused() -> None:
    inner: list[Any] = [0]
    inner += [inner]
    with pytest.raises(TypeError, match="self-referential lists are incompatible"):
        T.tensor(inner)
    first: list[Any] = []
    first.append(first)
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        T.tensor(first)


class Failing:
    """A sequence of two that raises what it is given, from the index *fails*."""

    def __init__(self, error: BaseException, fails: int = 0) -> None:
        self.error, self.fails = error, fails

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> int:
        if i >= self.fails:
            raise self.error
        return i


@pytest.mark.parametrize("error", [TypeError("mine"), ValueError("mine"), IndexError("mine")])
@pytest.mark.parametrize("make", [T.tensor, T.as_tensor, T.FloatTensor])
def test_sequence_that_fails_is_named_with_its_reason(make: Any, error: Exception) -> None:
    with pytest.raises(
        ValueError, match="could not determine the shape of object type 'Failing'"
    ) as e:
        make(Failing(error))
    assert e.value.__cause__ is error


def test_sequence_that_fails_later_tells_why() -> None:
    with pytest.raises(KeyError, match="mine"):
        T.tensor(Failing(KeyError("mine"), fails=1))
    with pytest.raises(KeyboardInterrupt):
        T.tensor(Failing(KeyboardInterrupt()))


def test_sequence_without_end_gives_as_many_as_its_length() -> None:
    class Ones:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> int:
            return 1

    assert T.tensor(Ones()).tolist() == [1, 1]
    assert T.tensor([Ones(), Ones()]).tolist() == [[1, 1], [1, 1]]


def test_old_style_constructor_lists_its_forms() -> None:
    with pytest.raises(TypeError) as error:
        T.LongTensor((6, 0), 1, 1, 0)
    assert str(error.value).startswith(
        "new() received an invalid combination of arguments - got (tuple, int, int, int), but "
        "expected one of:\n * (*, torch.device device = None)\n"
    )


def test_asarray_takes_the_bytes_of_any_buffer() -> None:
    numbers = array.array("d", [1, 2])
    shared = T.asarray(numbers, dtype=T.float64, copy=False)
    shared[0] = 9
    assert numbers[0] == 9
    assert T.asarray(numbers).shape == (4,)  # the bytes of two doubles, as the default dtype
    assert T.asarray(numbers, dtype=T.float64, copy=True).data_ptr() != shared.data_ptr()
    whole = (ctypes.c_int * 2)(1, 2)
    T.asarray(whole, dtype=T.int32)[1] = 5
    assert list(whole) == [1, 5]


@pytest.mark.parametrize("kind", ["getitem", "__array__"])
def test_asarray_without_a_copy_refuses_what_has_no_memory_to_share(kind: str) -> None:
    class Numbers:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> int:
            return [3, 4][i]

    class Array:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.arange(2)

    given = Numbers() if kind == "getitem" else Array()
    with pytest.raises(ValueError, match="can't alias arbitrary sequence"):
        T.asarray(given, copy=False)
