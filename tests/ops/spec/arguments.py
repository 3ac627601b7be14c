"""What operators are called with: tensors by shape and range, turned into values of a dtype."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import shmtensor as st

FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex32", "complex64", "complex128")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)


class _UnderTest:
    """Stands for the dtype under test where a dtype is an argument."""

    def __repr__(self) -> str:
        return "DTYPE"


DTYPE = _UnderTest()
#: Stands for a storage of 256 bytes.
STORAGE = object()


@dataclass(frozen=True)
class T:
    """A tensor argument.

    Attributes:
        shape: Its sizes.
        low: The least value.
        high: The greatest value.
        dtype: ``""`` is the dtype under test, ``"real"`` its real twin, anything else a dtype.
        given: Fixed values instead of random ones.
        shaped: Makes the random values what the operator needs, such as positive definite.
        layout: Gives the tensor another layout, such as a sparse one.
    """

    shape: tuple[int, ...]
    low: float = -3.0
    high: float = 3.0
    dtype: str = ""
    given: tuple[float, ...] | None = None
    shaped: Callable[[np.ndarray], np.ndarray] | None = None
    layout: Callable[[Any], Any] | None = None

    def dtype_for(self, name: str) -> str:
        """The dtype's name when *name* is under test."""
        if self.dtype == "real":
            return {"complex32": "float16", "complex64": "float32", "complex128": "float64"}.get(
                name, name
            )
        return self.dtype or name

    def values(self, name: str, seed: int) -> np.ndarray:
        """Values that dtype *name* holds exactly; bfloat16 as float32."""
        name = self.dtype_for(name)
        if self.given is not None:
            made = np.array(self.given, dtype=np.float64).reshape(self.shape)
        else:
            made = self._random(name, np.random.default_rng(seed))
        if self.shaped is not None:
            made = self.shaped(made)
        return rounded(made, name)

    def _random(self, name: str, rng: np.random.Generator) -> np.ndarray:
        low, high = self.low, self.high
        if name == "bool":
            return rng.integers(0, 2, self.shape)
        if name in INTEGERS:
            least = max(0, np.ceil(low)) if name.startswith("u") else np.ceil(low)
            return rng.integers(int(least), max(int(np.floor(high)), int(least)) + 1, self.shape)
        real = rng.uniform(low, high, self.shape)
        return real + 1j * rng.uniform(low, high, self.shape) if name in COMPLEX else real


def rounded(values: np.ndarray, name: str) -> np.ndarray:
    """*values* as dtype *name* holds them; bfloat16 as float32, complex32 as complex64."""
    if name == "bfloat16":
        bits = np.asarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32)
    if name == "complex32":
        short = np.asarray(values, np.complex64)
        parts = [
            np.asarray(part, np.float16).astype(np.float32) for part in (short.real, short.imag)
        ]
        return np.asarray(parts[0] + 1j * parts[1], np.complex64)
    with np.errstate(invalid="ignore"):  # an integer has no NaN
        return np.asarray(values).astype(name)


def _lower(a: np.ndarray) -> np.ndarray:
    return np.tril(a, -1) / 2 + np.eye(a.shape[-2], a.shape[-1]) * 2


def _upper(a: np.ndarray) -> np.ndarray:
    return np.triu(a, 1) / 2 + np.eye(a.shape[-2], a.shape[-1]) * 2


def t(*shape: int, low: float = -3.0, high: float = 3.0, dtype: str = "") -> T:
    """A tensor of random values between *low* and *high*."""
    return T(shape, low, high, dtype)


def pos(*shape: int) -> T:
    """A tensor of positive values."""
    return T(shape, 0.3, 3.0)


def unit(*shape: int) -> T:
    """A tensor of values inside (0, 1)."""
    return T(shape, 0.1, 0.9)


def idx(n: int, *shape: int, low: int = 0) -> T:
    """A tensor of indices in [*low*, *n*)."""
    return T(shape, low, n - 1, "int64")


def mask(*shape: int) -> T:
    """A tensor of bools."""
    return T(shape, 0, 1, "bool")


def fixed(values: Any, dtype: str = "") -> T:
    """A tensor of these values."""
    array = np.asarray(values, dtype=np.float64)
    return T(array.shape, dtype=dtype, given=tuple(array.reshape(-1).tolist()))


def _definite(a: np.ndarray) -> np.ndarray:
    square = a @ np.conj(np.swapaxes(a, -1, -2))
    return square / max(a.shape[-1], 1) + np.eye(a.shape[-1])


def _invertible(a: np.ndarray) -> np.ndarray:
    return a + 4 * np.eye(a.shape[-2], a.shape[-1])


def _hermitian(a: np.ndarray) -> np.ndarray:
    return (a + np.conj(np.swapaxes(a, -1, -2))) / 2 + np.diag(np.arange(a.shape[-1]) * 3.0)


def spd(*shape: int) -> T:
    """Symmetric (Hermitian) positive definite matrices."""
    return T(shape, -1, 1, shaped=_definite)


def herm(*shape: int) -> T:
    """Symmetric (Hermitian) matrices with eigenvalues that lie apart."""
    return T(shape, -1, 1, shaped=_hermitian)


def lower(*shape: int) -> T:
    """Lower triangular matrices, well-conditioned."""
    return T(shape, -1, 1, shaped=_lower)


def upper(*shape: int) -> T:
    """Upper triangular matrices, well-conditioned."""
    return T(shape, -1, 1, shaped=_upper)


def inv(*shape: int) -> T:
    """Well-conditioned matrices."""
    return T(shape, -1, 1, shaped=_invertible)


def _counted(layout: Callable[[Any], Any], shape: tuple[int, ...]) -> T:
    count = np.arange(1.0, np.prod(shape) + 1)
    return T(shape, given=tuple(count.tolist()), layout=layout)


def _indices(dense: Any) -> Any:
    return st.from_numpy(np.indices(dense.shape).reshape(dense.ndim, -1))


def coo(*shape: int, coalesced: bool = True) -> T:
    """Sparse tensors by coordinates, of numbers that are not 0."""

    def layout(dense: Any) -> Any:
        made = st.sparse_coo_tensor(_indices(dense), dense.reshape(-1), dense.shape)
        return made._coalesced_(coalesced)

    return _counted(layout, shape)


def csr(*shape: int) -> T:
    """Sparse matrices by rows, of numbers that are not 0."""

    def layout(dense: Any) -> Any:
        rows, columns = dense.shape
        starts = st.arange(0, rows * columns + 1, columns)
        places = st.arange(columns).repeat(rows)
        return st.sparse_csr_tensor(starts, places, dense.reshape(-1), dense.shape)

    return _counted(layout, shape)


def csc(*shape: int) -> T:
    """Sparse matrices by columns, of numbers that are not 0."""

    def layout(dense: Any) -> Any:
        rows, columns = dense.shape
        starts = st.arange(0, rows * columns + 1, rows)
        places = st.arange(rows).repeat(columns)
        return st.sparse_csc_tensor(starts, places, dense.T.reshape(-1), dense.shape)

    return _counted(layout, shape)


def ordered(*shape: int) -> T:
    """Values that ascend along the last dimension."""
    return T(shape, shaped=lambda a: np.sort(a, axis=-1))


def distinct(*shape: int) -> T:
    """Values that differ from each other in every dtype but bool."""
    n = int(np.prod(shape))
    order = np.random.default_rng(n).permutation(n) - n // 2
    return fixed(order.reshape(shape))


@dataclass(frozen=True)
class Case:
    """Arguments of one call, positional in the order of the schema."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    pointwise: bool = False

    def map(self, function: Callable[[T, int], Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with every T replaced by ``function(T, its number)``."""
        number = -1

        def visit(value: Any) -> Any:
            nonlocal number
            if isinstance(value, T):
                number += 1
                return function(value, number)
            if isinstance(value, list):
                return [visit(item) for item in value]
            return value

        args = [visit(value) for value in self.args]
        return args, {key: visit(value) for key, value in self.kwargs.items()}

    def reshaped(self, function: Callable[[T, int], T]) -> Case:
        """The same case with other tensors."""
        args, kwargs = self.map(function)
        return replace(self, args=tuple(args), kwargs=kwargs)

    @property
    def tensors(self) -> list[T]:
        """Every tensor, in order."""
        found: list[T] = []
        self.map(lambda a, _: found.append(a))
        return found


def case(*args: Any, **kwargs: Any) -> Case:
    """A case written as the call."""
    return Case(args, kwargs)


def seed_of(name: str, number: int) -> int:
    """The seed of tensor *number* of the operator *name*."""
    return zlib.crc32(f"{name}:{number}".encode())


def tensor(values: np.ndarray, name: str) -> Any:
    """A tensor of dtype *name* of its own memory."""
    if values.ndim and not values.size:
        return st.empty(values.shape, dtype=getattr(st, name))
    made = st.from_numpy(np.array(values, order="C")).clone()
    return made.to(getattr(st, name))


def arrays(name: str, one: Case, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with NumPy arrays; those of bfloat16 are float32."""
    return one.map(lambda a, i: a.values(dtype, seed_of(name, i)))


def arguments(
    name: str, one: Case, dtype: str, layout: Callable[[Any], Any] = lambda x: x
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with tensors, each passed through *layout*."""

    def make(a: T, i: int) -> Any:
        made = layout(tensor(a.values(dtype, seed_of(name, i)), a.dtype_for(dtype)))
        return made if a.layout is None else a.layout(made)

    args, kwargs = one.map(make)
    return [_special(a, dtype) for a in args], {k: _special(a, dtype) for k, a in kwargs.items()}


def _special(value: Any, name: str) -> Any:
    if value is STORAGE:
        return st.zeros(256, dtype=st.uint8).untyped_storage()
    return getattr(st, name) if value is DTYPE else value
