"""The encoding of published values: JSON that refers to storages by number.

Reading it executes nothing. `None`, booleans, strings, integers and finite floats
are written as they are. Everything else is a list whose first item says what it is:

    ["l", ...] list   ["u", ...] tuple   ["d", [key, value], ...] dict   ["o", ...] OrderedDict
    ["f", text] infinity or NaN   ["b", base64] bytes
    ["t", storage, dtype, offset, sizes, strides, requires_grad] tensor   ["p", ...] parameter
    ["x", library, dtype, tensor] of a dtype that only NumPy or torch has
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import shmtensor
from shmtensor._boundary.storage import StorageRef
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor._core._tensor import Tensor
from shmtensor.errors import HandleError
from shmtensor.multiprocessing.adoption import loaded
from shmtensor.service._libraries import (
    DTYPES,
    Foreign,
    Importer,
    is_parameter,
    numpy_dtype,
    parameter,
)
from shmtensor.storage import UntypedStorage

__all__ = ["Document", "encode", "read", "to_text"]

_MAX_DEPTH = 200
_MAX_TEXT = 1 << 28
_MAX_INT = (1 << 63) - 1
_MAX_DIMS = 64
_MANY_NODES = 10_000  # until then nobody looks whether the text has an end
_MAX_PATH = 4096


class _Writer:
    """Collects a value's tensors, then places their storages."""

    def __init__(
        self,
        owns: Callable[[int], bool],
        make: Callable[[int], StorageRef],
        most_bytes: int = _MAX_TEXT,
    ) -> None:
        self._owns = owns
        self._make = make
        self._most_bytes = most_bytes
        self._importer = Importer()
        self._tensors: list[Tensor] = []
        self._n_nodes = 0

    def structure(self, value: Any) -> Any:
        """Return *value* as JSON; tensors are ``["t", number]``; `_fill` replaces the number.

        Raises:
            TypeError: It contains something else.
            ValueError: It is nested too deep, or the text would be longer than *most_bytes*.
        """
        self._value = value
        return self._node(value, 0)

    def _node(self, value: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError(
                f"publish(): the value is nested deeper than {_MAX_DEPTH}, or in itself"
            )
        self._n_nodes += 1
        if self._n_nodes == _MANY_NODES:
            self._check_length()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else ["f", repr(value)]
        if isinstance(value, bytes):
            return ["b", base64.b64encode(value).decode()]
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            kind = "o" if isinstance(value, OrderedDict) else "d"
            pairs = [[self._key(k), self._node(v, depth + 1)] for k, v in value.items()]
            return [kind, *pairs]
        if type(value) is Foreign:  # as a reader shows it that asks for no library's
            return ["x", value.library, value.dtype, self._tensor(value.carrier)]
        if isinstance(value, (list, tuple)):
            kind = "l" if isinstance(value, list) else "u"
            return [kind, *(self._node(v, depth + 1) for v in value)]
        imported = self._importer.tensor(value)
        if isinstance(imported, Foreign):
            return ["x", imported.library, imported.dtype, self._tensor(imported.carrier)]
        if imported is not None:
            return self._tensor(imported)
        raise TypeError(
            f"publish(): expected tensors or arrays in dicts, lists and tuples, or a module; got "
            f"{type(value).__name__}"
        )

    def _check_length(self) -> None:
        """Refuse a value whose parts are in it so often that nobody could write them out."""
        n = _n_nodes(self._value, {})
        if 2 * n > self._most_bytes:  # a character and a comma at least
            raise ValueError(
                f"publish(): the value has {n} parts, counted as often as they occur in it; the "
                f"description has at most {self._most_bytes} bytes"
            )

    def _key(self, key: Any) -> Any:
        if key is None or isinstance(key, (bool, int, str)):
            return key
        raise TypeError(f"publish(): keys must be str or int, got {type(key).__name__}")

    def _tensor(self, tensor: Tensor) -> list[Any]:
        if type(tensor) not in (Tensor, loaded("shmtensor.nn", "Parameter")):
            raise TypeError(f"publish(): expected Tensor or Parameter, got {type(tensor).__name__}")
        if tensor.is_meta:
            raise NotImplementedError("publish(): a meta tensor has no data to publish")
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError(
                "publish(): a tensor requires grad and is not a leaf; publish tensor.detach()"
            )
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        self._tensors.append(tensor)
        kind = "p" if is_parameter(tensor) else "t"
        return [kind, len(self._tensors) - 1]

    def place(self) -> tuple[list[UntypedStorage], list[list[Any]]]:
        """Put the storages into the service; return them, and a row for each tensor."""
        users: dict[int, list[int]] = {}
        for number, tensor in enumerate(self._tensors):
            users.setdefault(tensor.untyped_storage()._cdata, []).append(number)
        storages: list[UntypedStorage] = []
        rows: list[list[Any]] = [[] for _ in self._tensors]
        for numbers in users.values():
            shown = [self._tensors[n] for n in numbers]
            storage, shown = self._in_service(shown)
            for number, tensor in zip(numbers, shown, strict=True):
                rows[number] = [
                    len(storages),
                    str(tensor.dtype).rpartition(".")[2],
                    tensor.storage_offset(),
                    list(tensor.shape),
                    list(tensor.stride()),
                    self._tensors[number].requires_grad,
                ]
            storages.append(storage)
        return storages, rows

    def _in_service(self, shown: list[Tensor]) -> tuple[UntypedStorage, list[Tensor]]:
        """Return a storage of the service with these tensors' bytes, and tensors that show it."""
        source = shown[0].untyped_storage()
        if self._owns(source._cdata):
            return source, shown
        if len(shown) == 1:
            # A single tensor that shows a part of its storage: publish only that part.
            tensor = shown[0].detach()
            nbytes = tensor.numel() * tensor.element_size()
            if nbytes < source.nbytes():
                target = UntypedStorage._own(self._make(nbytes))
                copy = shmtensor.empty(0, dtype=tensor.dtype)
                copy.set_(target, 0, tensor.shape)  # type: ignore[call-overload]
                return target, [copy.copy_(tensor)]
        target = UntypedStorage._own(self._make(source.nbytes()))
        target.copy_(source)
        return target, shown


def _n_nodes(value: Any, known: dict[int, int], depth: int = 0) -> int:
    """Return how many parts a value has, counted as often as they occur."""
    if not isinstance(value, (list, tuple, dict)) or depth > _MAX_DEPTH:
        return 1
    n = known.get(id(value))
    if n is None:
        known[id(value)] = 1  # if it is in itself, its depth is refused
        items = value.values() if isinstance(value, dict) else value
        n = known[id(value)] = 1 + sum(_n_nodes(item, known, depth + 1) for item in items)
    return n


def encode(
    value: Any, owns: Callable[[int], bool], make: Callable[[int], StorageRef]
) -> tuple[list[UntypedStorage], Any]:
    """Put a value's bytes into a service.

    Args:
        value: Tensors, arrays, plain values, and dicts, lists and tuples of them.
        owns: Whether the storage at a C address is in the service; then it is not copied.
        make: Makes a storage of that many bytes in the service.

    Returns:
        The storages, and the structure, which `json` can write.

    Raises:
        TypeError: *value* contains something else.
        RuntimeError: A tensor requires grad and is not a leaf.
    """
    writer = _Writer(owns, make)
    structure = writer.structure(value)
    storages, rows = writer.place()
    return storages, _fill(structure, rows)


def _fill(structure: Any, rows: list[list[Any]]) -> Any:
    if not isinstance(structure, list):
        return structure
    kind, *items = structure
    if kind in ("t", "p"):
        return [kind, *rows[items[0]]]
    if kind == "x":
        library, dtype, carrier = items
        return [kind, library, dtype, _fill(carrier, rows)]
    if kind in ("d", "o"):
        return [kind, *([key, _fill(item, rows)] for key, item in items)]
    return [kind, *(_fill(item, rows) for item in items)]


# --- reading ------------------------------------------------------------------------------------

#: Note [What another process wrote]: everything that comes out of a service is checked here before
#: it is used, against this one schema. Whatever the bytes are, `read` returns a document that
#: `encode` and `to_text` could have written, or raises `HandleError`, at once.
_KINDS = ("value", "module", "file")
_NOT_FINITE = {repr(number): number for number in (math.inf, -math.inf, math.nan)}


class Document(NamedTuple):
    """What a publisher wrote.

    Attributes:
        kind: "value", "module" or "file".
        value: The value over its storages.
        skeleton: Of a module: a pickle of the rest, as text. It is not read here.
        file: Of a file: its path and identity.
    """

    kind: str
    value: Any
    skeleton: str | None
    file: dict[str, Any] | None


class _Damage(Exception):
    """The schema does not fit; the text says where."""


def _need(good: bool, what: str) -> None:
    if not good:
        raise _Damage(what)


def _is_count(value: Any, most: int = _MAX_INT) -> bool:
    return type(value) is int and 0 <= value <= most


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    _need(len(made) == len(pairs), "a key occurs twice")
    return made


def _no_constant(text: str) -> None:
    raise _Damage(f"the constant {text}")


class _Reader:
    """Checks a structure and makes the value."""

    def __init__(self, storages: list[UntypedStorage]) -> None:
        self._storages = storages

    def value(self, node: Any, depth: int = 0) -> Any:
        """Return the value of a node."""
        _need(depth <= _MAX_DEPTH, f"it is nested deeper than {_MAX_DEPTH}")
        if node is None or type(node) in (bool, int, str):
            return node
        if type(node) is float:
            _need(math.isfinite(node), "a number is not finite")
            return node
        _need(type(node) is list and len(node) > 0, f"an item of type {type(node).__name__}")
        kind, *items = node
        _need(type(kind) is str and kind in self._MAKERS, f"an item of kind {_short(kind)}")
        return self._MAKERS[kind](self, items, depth + 1)

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        return [self.value(item, depth) for item in items]

    def _tuple(self, items: list[Any], depth: int) -> tuple[Any, ...]:
        return tuple(self.value(item, depth) for item in items)

    def _dict(self, items: list[Any], depth: int) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for item in items:
            _need(type(item) is list and len(item) == 2, "an entry of a dict is not a pair")
            key = item[0]
            _need(key is None or type(key) in (bool, int, str), f"a key {_short(key)}")
            _need(key not in made, f"the key {_short(key)} occurs twice")
            made[key] = self.value(item[1], depth)
        return made

    def _ordered(self, items: list[Any], depth: int) -> OrderedDict[Any, Any]:
        return OrderedDict(self._dict(items, depth))

    def _bytes(self, items: list[Any], depth: int) -> bytes:
        _need(len(items) == 1 and type(items[0]) is str, "bytes that are not text")
        try:
            return base64.b64decode(items[0], validate=True)
        except ValueError as error:
            raise _Damage(f"bytes: {error}") from None

    def _float(self, items: list[Any], depth: int) -> float:
        good = len(items) == 1 and type(items[0]) is str and items[0] in _NOT_FINITE
        _need(good, f"the number {_short(items)}")
        return _NOT_FINITE[items[0]]

    def _parameter(self, items: list[Any], depth: int) -> Tensor:
        tensor = self._tensor(items, depth)
        return parameter(tensor.detach(), tensor.requires_grad)

    def _tensor(self, items: list[Any], depth: int) -> Tensor:
        _need(len(items) == 6, f"a tensor of {len(items)} fields")
        number, name, offset, sizes, strides, requires_grad = items
        _need(_is_count(number, len(self._storages) - 1), f"a tensor over storage {_short(number)}")
        _need(type(name) is str and name in DTYPES, f"a tensor of dtype {_short(name)}")
        dtype, storage = DTYPES[name], self._storages[number]
        _need(_is_shape(sizes) and _is_shape(strides), f"a tensor of sizes {_short(sizes)}")
        _need(len(sizes) == len(strides), "a tensor with strides of another length")
        _need(_is_count(offset, _MAX_INT // 16), f"a tensor at {_short(offset)}")
        _need(math.prod(n for n in sizes if n) <= _MAX_INT, f"a tensor of sizes {_short(sizes)}")
        last = offset + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
        fits = 0 in sizes or (last + 1) * dtype.itemsize <= storage.nbytes()
        _need(fits, f"a tensor of sizes {_short(sizes)} over {storage.nbytes()} bytes")
        has_grad = dtype.is_floating_point or dtype.is_complex
        _need(type(requires_grad) is bool and (has_grad or not requires_grad), "requires_grad")
        tensor: Any = shmtensor.empty(0, dtype=dtype)
        tensor.set_(storage, offset, sizes, strides)
        return tensor.requires_grad_(True) if requires_grad else tensor  # type: ignore[no-any-return]

    def _foreign(self, items: list[Any], depth: int) -> Foreign:
        _need(len(items) == 3, f"a value of another dtype with {len(items)} fields")
        library, dtype, node = items
        _need(library in ("numpy", "torch"), f"a value of the library {_short(library)}")
        _need(type(dtype) is str and len(dtype) <= _MAX_PATH, f"the dtype {_short(dtype)}")
        _need(type(node) is list and node[:1] == ["t"], "a value of another dtype is not a tensor")
        carrier = self._tensor(node[1:], depth)
        if library == "numpy":
            width = numpy_dtype(dtype).itemsize
            good = carrier.dtype is shmtensor.uint8 and carrier.dim() > 0
            good = good and (carrier.shape[-1], carrier.stride(-1)) == (width, 1)
            _need(good, f"a value of {width} bytes an element, as another tensor")
        return Foreign(library, dtype, carrier)

    _MAKERS: ClassVar[dict[str, Callable[[Any, list[Any], int], Any]]] = {
        "l": _list,
        "u": _tuple,
        "d": _dict,
        "o": _ordered,
        "b": _bytes,
        "f": _float,
        "t": _tensor,
        "p": _parameter,
        "x": _foreign,
    }


def _is_shape(sizes: Any) -> bool:
    return type(sizes) is list and len(sizes) <= _MAX_DIMS and all(_is_count(n) for n in sizes)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_encodable(path: str) -> bool:
    try:
        return bool(os.fsencode(path))
    except UnicodeEncodeError:
        return False


def _check_file(file: Any) -> None:
    keys = ("path", "device", "inode", "nbytes", "changed_ns")
    _need(type(file) is dict and set(file) == set(keys), "the facts of a file")
    path = file["path"]
    good = (
        type(path) is str and path.startswith("/") and len(path) <= _MAX_PATH and "\0" not in path
    )
    _need(good and _is_encodable(path), f"the path {_short(path)}")
    _need(all(type(file[key]) is int for key in keys[1:]), "the facts of a file are not integers")


def _check_state(state: Any) -> None:
    good = isinstance(state, dict) and all(type(key) is str for key in state)
    good = good and all(isinstance(tensor, Tensor) for tensor in state.values())
    _need(good, "a module is not a dict of tensors")


def _read(text: bytes, storages: list[UntypedStorage]) -> Document:
    _need(len(text) <= _MAX_TEXT, f"it has {len(text)} bytes, at most {_MAX_TEXT} are possible")
    found = json.loads(text.decode("ascii"), object_pairs_hook=_unique, parse_constant=_no_constant)
    _need(type(found) is dict and found.get("kind") in _KINDS, "it does not say what it is")
    kind = found["kind"]
    more = {"value": set(), "module": {"skeleton"}, "file": {"file"}}[kind]
    _need(set(found) == {"kind", "value", *more}, f"it has other parts than a {kind}")
    value = _Reader(storages).value(found["value"])
    skeleton, file = found.get("skeleton"), found.get("file")
    if kind == "module":
        _check_state(value)
        _need(skeleton is None or type(skeleton) is str, "the pickle of a module is not a string")
    if kind == "file":
        _check_file(file)
    return Document(kind, value, skeleton, file)


def read(text: bytes, storages: list[UntypedStorage]) -> Document:
    """Return the document that `to_text` wrote, with its value over these storages.

    Raises:
        HandleError: It is damaged; the text says what does not fit.
    """
    try:
        return _read(text, storages)
    except (_Damage, ValueError, RecursionError) as error:
        raise_of_handler(error)
        raise HandleError(
            f"the description of {len(text)} bytes of a published value is damaged: {error}"
        ) from None


def to_text(document: Any) -> bytes:
    """Return a JSON document as bytes.

    Raises:
        ValueError: They are too many.
    """
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    if len(text) > _MAX_TEXT:
        raise ValueError(
            f"publish(): the description has {len(text)} bytes, at most {_MAX_TEXT} are possible"
        )
    return text
