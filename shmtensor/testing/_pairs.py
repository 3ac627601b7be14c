"""Two values that `assert_close` compares: None, bools, numbers, tensors and arrays.

A class of pairs takes the values it is for, and says of others that it does not; so the first class
of a list that takes them decides what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.testing._mismatch import mismatch_of_numbers, mismatch_of_tensors

__all__ = [
    "BooleanPair",
    "ErrorMeta",
    "Message",
    "NonePair",
    "NumberPair",
    "ObjectPair",
    "Pair",
    "Path",
    "TensorLikePair",
    "UnsupportedInputs",
    "default_tolerances",
    "get_tolerances",
]

Message = str | Callable[[str], str] | None
Path = tuple[Any, ...]

#: Relative and absolute tolerance of a dtype; those that are absent must be equal.
_TOLERANCES = {
    _C.float16: (1e-3, 1e-5),
    _C.bfloat16: (1.6e-2, 1e-5),
    _C.float32: (1.3e-6, 1e-5),
    _C.float64: (1e-7, 1e-7),
    _C.complex32: (1e-3, 1e-5),
    _C.complex64: (1.3e-6, 1e-5),
    _C.complex128: (1e-7, 1e-7),
}
_NUMBER_DTYPES = {bool: _C.bool, int: _C.int64, float: _C.float64, complex: _C.complex128}


#: Dtypes that promote with no other; they are compared with others as int64.
_NOT_PROMOTED = (_C.uint16, _C.uint32, _C.uint64)


def _comparable(first: _C.dtype, second: _C.dtype) -> _C.dtype:
    """The dtype in which two tensors of different dtypes are compared."""
    ours, theirs = (_C.int64 if each in _NOT_PROMOTED else each for each in (first, second))
    return _C.promote_types(ours, theirs)


def default_tolerances(
    *inputs: Tensor | _C.dtype,
    dtype_precisions: Mapping[_C.dtype, tuple[float, float]] = _TOLERANCES,
) -> tuple[float, float]:
    """Return the relative and the absolute tolerance for values of some dtypes: the largest.

    Args:
        *inputs: Tensors or dtypes.
        dtype_precisions: Both tolerances by dtype; a dtype that is absent has zeros.

    Raises:
        TypeError: An argument is neither.
    """
    dtypes = []
    for each in inputs:
        if isinstance(each, Tensor):
            dtypes.append(each.dtype)
        elif isinstance(each, _C.dtype):
            dtypes.append(each)
        else:
            raise TypeError(
                f"Expected a torch.Tensor or a torch.dtype, but got {type(each)} instead."
            )
    rtols, atols = zip(*(dtype_precisions.get(each, (0.0, 0.0)) for each in dtypes), strict=True)
    return max(rtols), max(atols)


def get_tolerances(
    *inputs: Tensor | _C.dtype, rtol: float | None, atol: float | None, id: Path = ()
) -> tuple[float, float]:
    """Return what is given, or the defaults for the dtypes.

    Raises:
        ErrorMeta: Only one is given.
    """
    if (rtol is None) != (atol is None):
        absent = "rtol" if rtol is None else "atol"
        raise ErrorMeta(
            ValueError,
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {absent}.",
            id=id,
        )
    if rtol is not None and atol is not None:
        return rtol, atol
    return default_tolerances(*inputs)


class ErrorMeta(Exception):
    """What is wrong with a pair, and where it stands in the collections.

    Args:
        type: The exception that the user is to see.
        msg: Its text, without the place.
        id: The keys and indices that lead to the pair.
    """

    def __init__(self, type: type[Exception], msg: str, *, id: Path = ()) -> None:
        super().__init__(msg)
        self.type = type
        self.msg = msg
        self.id = id

    def to_error(self, msg: Message = None) -> Exception:
        """Return the user's exception; *msg* replaces its text, or is called with it."""
        if isinstance(msg, str):
            return self.type(msg)
        place = "".join(f"[{each!r}]" for each in self.id)
        text = f"{self.msg}\n\nThe failure occurred for item {place}" if self.id else self.msg
        return self.type(text if msg is None else msg(text))


class UnsupportedInputs(Exception):
    """A class of pairs does not take these two values; another may."""


# --- pairs ---------------------------------------------------------------------------------------


class Pair:
    """Two values that are compared.

    Args:
        actual: The value that was computed.
        expected: The value that it should be.
        id: The keys and indices that lead to the pair.
        **options: Those of `assert_close`; each class takes its own.

    Raises:
        UnsupportedInputs: They are not for this class.
        ErrorMeta: They are, and cannot be compared.
    """

    def __init__(self, actual: Any, expected: Any, *, id: Path = (), **options: Any) -> None:
        self.actual = actual
        self.expected = expected
        self.id = id
        self._options = options

    @staticmethod
    def _inputs_not_supported() -> NoReturn:
        raise UnsupportedInputs

    def _fail(self, type: type[Exception], text: str) -> NoReturn:
        raise ErrorMeta(type, text, id=self.id)

    def compare(self) -> None:
        """Compare the two.

        Raises:
            ErrorMeta: They differ.
        """
        raise NotImplementedError


class NonePair(Pair):
    """None, and None again. Takes pairs with at least one None."""

    def __init__(self, actual: Any, expected: Any, **options: Any) -> None:
        if actual is not None and expected is not None:
            self._inputs_not_supported()
        super().__init__(actual, expected, **options)

    def compare(self) -> None:
        """See `Pair`."""
        if not (self.actual is None and self.expected is None):
            self._fail(AssertionError, f"None mismatch: {self.actual} is not {self.expected}")


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or (
        type(value).__module__ == "numpy" and (type(value).__name__ in ("bool", "bool_"))
    )


class ObjectPair(Pair):
    """Values of any kind, which must be equal by ``==``.

    For what no other pair takes; `assert_close` refuses such values, test cases compare them.
    """

    def compare(self) -> None:
        """See `Pair`."""
        if self.actual != self.expected:
            self._fail(AssertionError, f"{self.actual} != {self.expected}")


class BooleanPair(Pair):
    """Two bools, Python's or NumPy's."""

    def __init__(self, actual: Any, expected: Any, **options: Any) -> None:
        if not (_is_bool(actual) and _is_bool(expected)):
            self._inputs_not_supported()
        super().__init__(bool(actual), bool(expected), **options)

    def compare(self) -> None:
        """See `Pair`."""
        if self.actual is not self.expected:
            self._fail(AssertionError, f"Booleans mismatch: {self.actual} is not {self.expected}")


def _as_number(value: Any) -> int | float | complex | None:
    """A number of Python's or NumPy's as one of Python's, None for anything else."""
    if (
        type(value).__module__ == "numpy"
        and hasattr(value, "item")
        and not hasattr(value, "__len__")
    ):
        value = value.item()  # also of float64 and complex128, which are subclasses of Python's
    return value if isinstance(value, (int, float, complex)) else None


class NumberPair(Pair):
    """Two numbers, Python's or NumPy's.

    Options: ``rtol``, ``atol``, ``equal_nan``, and ``check_dtype``, for the types of the numbers.
    """

    def __init__(
        self,
        actual: Any,
        expected: Any,
        *,
        id: Path = (),
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        check_dtype: bool = False,
        **other_options: Any,
    ) -> None:
        numbers = _as_number(actual), _as_number(expected)
        if numbers[0] is None or numbers[1] is None:
            self._inputs_not_supported()
        super().__init__(*numbers, id=id, **other_options)
        self.check_dtype = check_dtype
        self.equal_nan = equal_nan
        dtypes = [_NUMBER_DTYPES[type(each)] for each in numbers if type(each) in _NUMBER_DTYPES]
        dtypes = dtypes if len(dtypes) == 2 else [_C.complex128]  # a subclass of a number's class
        self.rtol, self.atol = get_tolerances(*dtypes, rtol=rtol, atol=atol, id=id)

    def compare(self) -> None:
        """See `Pair`."""
        kinds = type(self.actual), type(self.expected)
        if self.check_dtype and kinds[0] is not kinds[1]:
            self._fail(AssertionError, f"The (d)types do not match: {kinds[0]} != {kinds[1]}.")
        text = mismatch_of_numbers(
            self.actual, self.expected, self.rtol, self.atol, equal_nan=self.equal_nan
        )
        if text is not None:
            self._fail(AssertionError, text)


class TensorLikePair(Pair):
    """Two tensors, or two arrays of another library.

    Options: those of `assert_close`.
    """

    def __init__(
        self,
        actual: Any,
        expected: Any,
        *,
        id: Path = (),
        allow_subclasses: bool = True,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        check_device: bool = True,
        check_dtype: bool = True,
        check_layout: bool = True,
        check_stride: bool = False,
        **other_options: Any,
    ) -> None:
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or (not allow_subclasses and type(actual) is not type(expected)):
            self._inputs_not_supported()
        super().__init__(self._as_tensor(actual), self._as_tensor(expected), id=id, **other_options)
        self.rtol, self.atol = get_tolerances(
            self.actual, self.expected, rtol=rtol, atol=atol, id=id
        )
        self.equal_nan = equal_nan
        self.check_device = check_device
        self.check_dtype = check_dtype
        self.check_layout = check_layout
        self.check_stride = check_stride

    def _as_tensor(self, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value
        if isinstance(value, (str, bytes, Sequence, Mapping)):
            self._inputs_not_supported()
        try:
            made: Tensor = _C.as_tensor(value)
        except Exception:
            self._inputs_not_supported()
        return made

    def compare(self) -> None:
        """See `Pair`."""
        actual, expected = self.actual, self.expected
        self._compare_attributes(actual, expected)
        if any(each.device.type == "meta" for each in (actual, expected)):
            return
        actual, expected = self._alike(actual, expected)
        self._compare_values(actual, expected)

    def _compare_attributes(self, actual: Tensor, expected: Tensor) -> None:
        def differ(name: str, ours: Any, theirs: Any) -> None:
            if ours != theirs:
                self._fail(
                    AssertionError,
                    f"The values for attribute '{name}' do not match: {ours} != {theirs}.",
                )

        differ("shape", actual.shape, expected.shape)
        if self.check_layout:
            differ("layout", actual.layout, expected.layout)
        if actual.layout is expected.layout is _C.strided and self.check_stride:
            differ("stride()", actual.stride(), expected.stride())
        if self.check_device:
            differ("device", actual.device, expected.device)
        if self.check_dtype:
            differ("dtype", actual.dtype, expected.dtype)

    @staticmethod
    def _alike(actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
        """Both with one dtype and one layout."""
        if actual.dtype is not expected.dtype:
            both = _comparable(actual.dtype, expected.dtype)
            actual, expected = actual.to(both), expected.to(both)
        if actual.layout is not expected.layout:
            actual = actual if actual.layout is _C.strided else actual.to_dense()
            expected = expected if expected.layout is _C.strided else expected.to_dense()
        return actual, expected

    def _compare_values(self, actual: Tensor, expected: Tensor) -> None:
        if actual.layout is _C.strided:
            self._compare_dense(actual, expected)
        elif actual.layout is _C.sparse_coo:
            self._compare_sparse(actual, expected, "COO", ("_indices",), "_values")
        else:
            name = str(actual.layout).rpartition("_")[2].upper()
            by_rows = name in ("CSR", "BSR")
            indices = (
                ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
            )
            self._compare_sparse(actual, expected, name, indices, "values")

    def _compare_sparse(
        self, actual: Any, expected: Any, name: str, indices: tuple[str, ...], values: str
    ) -> None:
        if actual._nnz() != expected._nnz():
            self._fail(
                AssertionError,
                f"The number of specified values in sparse {name} tensors does not match: "
                f"{actual._nnz()} != {expected._nnz()}",
            )
        for method in indices:
            what = f"Sparse {name} {method.lstrip('_')}"
            ours, theirs = getattr(actual, method)(), getattr(expected, method)()
            text = mismatch_of_tensors(ours, theirs, 0, 0, equal_nan=False, what=what)
            if text is not None:
                self._fail(AssertionError, text)
        self._compare_dense(
            getattr(actual, values)(), getattr(expected, values)(), f"Sparse {name} values"
        )

    def _compare_dense(self, actual: Tensor, expected: Tensor, what: str = "") -> None:
        text = mismatch_of_tensors(
            actual, expected, self.rtol, self.atol, equal_nan=self.equal_nan, what=what
        )
        if text is not None:
            self._fail(AssertionError, text)
