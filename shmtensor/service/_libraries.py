"""Values of NumPy and torch in services: published from their memory, and attached as theirs.

A value that is in this package's shared memory already (from `numpy_empty`, `torch_empty`, a
service or an adopting queue) is found there. Other values are shown as tensors, and the publisher
copies them. This module loads neither library, nor `shmtensor.nn`: a program that has a value of
one has loaded it.
"""

from __future__ import annotations

import ast
import importlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._core._torch_memory import carrier_of, holder_of, shown
from shmtensor.errors import HandleError
from shmtensor.multiprocessing.adoption import loaded
from shmtensor.multiprocessing.reductions import shared_bytes_below
from shmtensor.service._conversion import Conversion
from shmtensor.storage import UntypedStorage

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "DTYPES",
    "LIBRARIES",
    "Foreign",
    "Importer",
    "Library",
    "check_library",
    "dtype_of",
    "given",
    "is_module",
    "is_parameter",
    "is_torch_module",
    "itemsize_of",
    "numpy_dtype",
    "over",
    "parameter",
    "parameter_class",
]

Library = Literal["shmtensor", "numpy", "torch"]
LIBRARIES = ("shmtensor", "numpy", "torch")

#: Our dtypes by name; NumPy's and torch's have the same names.
DTYPES: dict[str, Any] = {
    str(dtype).rpartition(".")[2]: dtype
    for dtype in vars(_C).values()
    if isinstance(dtype, _C.dtype)
}


class Foreign(NamedTuple):
    """A value of a dtype that only one library has.

    Attributes:
        library: ``"numpy"`` or ``"torch"``.
        dtype: The dtype there. For torch, its name. For NumPy, what `numpy.lib.format` writes.
        carrier: Its bytes. For torch, integers of the same width. For NumPy, ``uint8`` with one
            more dimension: the bytes of an element.
    """

    library: str
    dtype: str
    carrier: Tensor


def check_library(library: str) -> None:
    """Refuse a library that is not known, and load torch where it is named.

    Raises:
        ValueError: It is another library.
        ModuleNotFoundError: torch is not installed.
    """
    if library not in LIBRARIES:
        raise ValueError(f"as_ must be one of {LIBRARIES}, got {library!r}")
    if library == "torch":
        _torch()


def _torch() -> Any:
    return importlib.import_module("torch")


def is_torch_module(value: object) -> bool:
    """Whether *value* is a module of torch."""
    return value is not None and isinstance(value, loaded("torch.nn", "Module"))


def is_module(value: object) -> bool:
    """Whether *value* is a module of this package."""
    return value is not None and isinstance(value, loaded("shmtensor.nn", "Module"))


def is_parameter(value: object) -> bool:
    """Whether *value* is a parameter of this package."""
    return value is not None and isinstance(value, loaded("shmtensor.nn", "Parameter"))


def parameter(tensor: Tensor, requires_grad: bool) -> Tensor:
    """Return a parameter of this package over the tensor's memory."""
    return parameter_class("shmtensor")(tensor, requires_grad)  # type: ignore[no-any-return]


# --- publishing ---------------------------------------------------------------------------------


class Importer:
    """Finds or makes our tensors over values of NumPy and torch.

    Values over one memory give tensors over one storage, as long as the importer lives.
    """

    def __init__(self) -> None:
        #: Storages by the address of torch's storage, or of the array that owns the memory; with
        #: that owner, which keeps the address.
        self._storages: dict[int, tuple[UntypedStorage, Any]] = {}

    def tensor(self, value: object) -> Tensor | Foreign | None:
        """Return a tensor over the memory of *value*; None: it is neither of NumPy nor of torch.

        Raises:
            TypeError: It is an array of objects or of a subclass, or a tensor not dense on the CPU.
            RuntimeError: It requires grad and is not a leaf.
        """
        if value is None:
            return None
        if isinstance(value, loaded("numpy", "ndarray")):
            return self._of_array(value)
        if isinstance(value, loaded("torch", "Tensor")):
            return self._of_torch(value)
        return None

    def _of_array(self, array: Any) -> Tensor | Foreign:
        import numpy as np  # it is loaded

        if type(array) is not np.ndarray or array.dtype.hasobject or array.dtype.itemsize == 0:
            raise TypeError(
                "publish(): expected arrays of numbers, texts or structures, got "
                f"{type(array).__name__} of {array.dtype}"
            )
        dtype = DTYPES.get(array.dtype.name)
        if dtype is not None:
            native = array.astype(array.dtype.newbyteorder("="), copy=False)
            return self._over_array(native, dtype)
        text = repr(np.lib.format.dtype_to_descr(array.dtype))
        elements = np.ascontiguousarray(array).reshape(array.shape)
        as_bytes = elements[..., None].view(np.uint8)
        return Foreign("numpy", text, self._over_array(as_bytes, _C.uint8))

    def _over_array(self, array: np.ndarray[Any, Any], dtype: Any) -> Tensor:
        import numpy as np

        if array.size == 0:
            return _C.empty(array.shape, dtype=dtype)  # type: ignore[no-any-return]
        below = shared_bytes_below(array)
        if below is not None:
            storage, begin = below[0].untyped_storage(), below[1]
        else:
            owner = array
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            if not owner.flags.forc:
                owner = array = np.ascontiguousarray(array).reshape(array.shape)
            storage = self._storage(id(owner), owner, owner.ravel(order="K").view(np.uint8))
            begin = _address(array) - _address(owner)
        itemsize = array.itemsize
        if begin % itemsize or any(step < 0 or step % itemsize for step in array.strides):
            return self._over_array(array.copy(), dtype)
        strides = [step // itemsize for step in array.strides]
        return _over(storage, dtype, begin // itemsize, array.shape, strides)

    def _of_torch(self, tensor: Any) -> Tensor | Foreign:
        torch = _torch()
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise TypeError(f"publish(): expected torch's Tensor, got {type(tensor).__name__}")
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            raise TypeError(
                f"publish(): expected dense tensors of the CPU, got one of {tensor.layout} on "
                f"{tensor.device}"
            )
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError(
                "publish(): a tensor requires grad and is not a leaf; publish tensor.detach()"
            )
        plain = tensor.detach().resolve_conj().resolve_neg()
        carrier = carrier_of(tensor.dtype)
        ours = self._over_torch(plain, DTYPES[str(carrier).rpartition(".")[2]])
        if carrier is not tensor.dtype:
            return Foreign("torch", str(tensor.dtype).rpartition(".")[2], ours)
        if isinstance(tensor, torch.nn.Parameter):
            return parameter(ours, tensor.requires_grad)
        return ours.requires_grad_(tensor.requires_grad)

    def _over_torch(self, tensor: Any, dtype: Any) -> Tensor:
        if tensor.numel() == 0:
            return _C.empty(tuple(tensor.shape), dtype=dtype)  # type: ignore[no-any-return]
        theirs = tensor.untyped_storage()
        holder = holder_of(theirs)
        if holder is not None:
            storage = holder.untyped_storage()
        else:
            torch = _torch()
            whole = torch.empty(0, dtype=torch.uint8).set_(theirs)
            storage = self._storage(theirs._cdata, theirs, whole)
        begin = (tensor.data_ptr() - storage.data_ptr()) // dtype.itemsize
        return _over(storage, dtype, begin, tuple(tensor.shape), tensor.stride())

    def _storage(self, key: int, owner: Any, as_bytes: Any) -> UntypedStorage:
        found = self._storages.get(key)
        if found is None:
            shown_bytes: Tensor = _C.from_dlpack(as_bytes)
            found = self._storages[key] = shown_bytes.untyped_storage(), owner
        return found[0]


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _over(storage: UntypedStorage, dtype: Any, begin: int, shape: Any, strides: Any) -> Tensor:
    made: Tensor = _C.empty(0, dtype=dtype)
    return made.set_(storage, begin, shape, strides)


# --- attaching ----------------------------------------------------------------------------------


def given(value: Any, library: Library) -> Any:
    """Return *value* with its tensors as those of *library*, over the same memory.

    What is in it several times is one object in the result, too.

    Args:
        value: A tensor, a `Foreign`, or dicts, lists and tuples of them and of plain values.
        library: Whose.

    Raises:
        TypeError: The library has no such dtype.
    """
    return _AsOfLibrary(library).of(value)


class _AsOfLibrary(Conversion):
    """Shows one value as a library's."""

    collections = (list, dict, OrderedDict)

    def __init__(self, library: Library) -> None:
        super().__init__()
        self._library = library

    def of_leaf(self, value: Any) -> Any:
        if isinstance(value, Foreign):
            return _foreign_given(value, self._library)
        if isinstance(value, Tensor):
            return value if self._library == "shmtensor" else _GIVERS[self._library](value)
        return self._of_subclass(value)

    def _of_subclass(self, value: Any) -> Any:
        """Return a value of a class that a pickle has named: with its class, if it is a collection.

        The value is a message's and nobody else has it, so dicts and lists keep theirs.
        """
        if isinstance(value, (dict, list)):
            self.note(value, value)
            for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
                shown_item = self.of(item)
                if shown_item is not item:
                    value[key] = shown_item
        elif isinstance(value, tuple):
            items = [self.of(item) for item in value]
            if any(item is not old for item, old in zip(items, value, strict=True)):
                return getattr(type(value), "_make", tuple)(items)
        return value


def _foreign_given(value: Foreign, library: str) -> Any:
    if value.library != library:
        raise TypeError(
            f"the value has the dtype {value.dtype} of {value.library}; attach it with "
            f"as_={value.library!r}"
        )
    if library == "torch":
        theirs = getattr(_torch(), value.dtype, None)
        if not isinstance(theirs, _torch().dtype):
            raise TypeError(f"this version of torch has no dtype {value.dtype!r}")
        if theirs.itemsize != value.carrier.element_size():
            raise HandleError(f"elements of {value.dtype} as those of {value.carrier.dtype}")
        return shown(value.carrier, value.dtype)
    elements = value.carrier.numpy().view(numpy_dtype(value.dtype))
    return elements[..., 0]


def _plain(tensor: Tensor) -> Tensor:
    """Return the tensor's memory as it reads: libraries know no bits for conjugates."""
    return tensor.detach().resolve_conj().resolve_neg()


def _as_array(tensor: Tensor) -> Any:
    if tensor.dtype in (_C.bfloat16, _C.complex32):
        raise TypeError(f"NumPy has no dtype {str(tensor.dtype).rpartition('.')[2]}")
    return _plain(tensor).numpy()


def _as_torch(tensor: Tensor) -> Any:
    made = shown(_plain(tensor))
    if is_parameter(tensor):
        return parameter_class("torch")(made, tensor.requires_grad)
    return made.requires_grad_() if tensor.requires_grad else made


_GIVERS = {"numpy": _as_array, "torch": _as_torch}


def parameter_class(library: str) -> Any:
    """Return the class of a module's parameters in a library that has modules."""
    if library == "torch":
        return _torch().nn.Parameter
    from shmtensor import nn

    return nn.Parameter


def numpy_dtype(text: str) -> np.dtype[Any]:
    """Return the dtype of a `Foreign` value of NumPy.

    Raises:
        ValueError: The text is that of no dtype, or of one with objects.
    """
    import numpy as np

    try:
        found = np.lib.format.descr_to_dtype(ast.literal_eval(text))
    except (LookupError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"no dtype of NumPy: {error}") from None
    if not isinstance(found, np.dtype) or found.hasobject or found.itemsize == 0:
        raise ValueError("no dtype of NumPy that can be in shared memory")
    return found


# --- new memory ---------------------------------------------------------------------------------


def dtype_of(dtype: Any, library: Library) -> tuple[Any, Any]:
    """Return our dtype for the elements of new memory, and the dtype of *library* to show it with.

    Args:
        dtype: Ours, NumPy's or torch's, or a NumPy scalar class; None: the default of the
            library.
        library: Whose value is wanted.

    Returns:
        The second is None where both are the same. For a dtype of NumPy that is none of ours, the
        first is ``uint8``.

    Raises:
        TypeError: It is not a dtype, or *library* has no such dtype.
    """
    if library == "numpy":
        return _numpy_dtype_of(dtype)
    if dtype is None and library == "torch":
        dtype = _torch().get_default_dtype()
    name = _dtype_name(dtype)
    if library == "torch" and name not in DTYPES and isinstance(dtype, _torch().dtype):
        return DTYPES[_dtype_name(carrier_of(dtype))], name
    try:
        return DTYPES.get(name) or _C.empty(0, dtype=dtype).dtype, None
    except TypeError:
        raise TypeError(
            "dtype must be a dtype such as shmtensor.uint8, numpy.uint8 or torch.uint8, "
            f"got {dtype!r}"
        ) from None


def _numpy_dtype_of(dtype: Any) -> tuple[Any, Any]:
    import numpy as np

    name = _dtype_name(dtype)
    if name and not hasattr(np, name):
        raise TypeError(f"NumPy has no dtype {name}")
    wanted = np.dtype(name or dtype)
    if wanted.hasobject or wanted.itemsize == 0:
        raise TypeError(f"objects cannot be in shared memory, got {wanted}")
    ours = DTYPES.get(wanted.name) if wanted.isnative else None
    return (_C.uint8, wanted) if ours is None else (ours, None)


def _dtype_name(dtype: Any) -> str:
    """Return the name of a dtype of ours, torch's or NumPy's; empty for anything else."""
    if isinstance(dtype, (_C.dtype, loaded("torch", "dtype"))) and dtype is not None:
        return str(dtype).rpartition(".")[2]
    of_numpy = loaded("numpy", "dtype")
    if isinstance(dtype, type) and issubclass(dtype, loaded("numpy", "generic")):
        dtype = of_numpy(dtype)
    is_of_numpy = isinstance(dtype, of_numpy) and dtype is not None
    return str(dtype.name) if is_of_numpy and dtype.name in DTYPES and dtype.isnative else ""


def itemsize_of(ours: Any, theirs: Any) -> int:
    """Return the bytes of an element, for what `dtype_of` gave."""
    return int(ours.itemsize if theirs is None or isinstance(theirs, str) else theirs.itemsize)


def over(
    storage: UntypedStorage,
    sizes: tuple[int, ...],
    ours: Any,
    theirs: Any,
    library: Library,
    begin: int = 0,
) -> Any:
    """Return a contiguous value of *library* over a storage, for what `dtype_of` gave.

    Args:
        storage: Has room for it.
        sizes: Its shape.
        ours: As from `dtype_of`.
        theirs: The same.
        library: Whose value.
        begin: Byte of the storage where it begins; a multiple of our dtype's size.
    """
    first = begin // ours.itemsize
    memory: Tensor = _C.empty(0, dtype=ours)
    if theirs is None:
        return given(memory.set_(storage, first, sizes), library)  # type: ignore[call-overload]
    if library == "torch":
        return shown(memory.set_(storage, first, sizes), theirs)  # type: ignore[call-overload]
    import numpy as np

    return np.ndarray(sizes, theirs, memory.set_(storage).numpy(), begin)
