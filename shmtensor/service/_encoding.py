"""The encoding of published values: JSON that refers to storages by number.

Reading it executes nothing, whoever wrote it. `None`, booleans, strings, integers and finite floats
are written as they are. Everything else is a list whose first item says what it is:

    ["l", ...] list   ["u", ...] tuple   ["d", [key, value], ...] dict   ["o", ...] OrderedDict
    ["f", text] infinity or NaN   ["b", base64] bytes
    ["t", storage, dtype, offset, sizes, strides, requires_grad] tensor   ["p", ...] parameter
"""

from __future__ import annotations

import base64
import json
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor import nn
from shmtensor._tensor import Tensor
from shmtensor.storage import UntypedStorage

__all__ = ["decode", "encode", "from_text", "to_text"]

_MAX_DEPTH = 200


class _Writer:
    """Collects a value's tensors, then places their storages."""

    def __init__(self, owns: Callable[[int], bool], make: Callable[[int], int]) -> None:
        self._owns = owns
        self._make = make
        self._tensors: list[Tensor] = []

    def structure(self, value: Any, depth: int = 0) -> Any:
        """Return *value* as JSON; tensors are ``["t", number]``; `_fill` replaces the number."""
        if depth > _MAX_DEPTH:
            raise ValueError(
                f"publish(): the value is nested deeper than {_MAX_DEPTH}, or in itself"
            )
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
            pairs = [[self._key(k), self.structure(v, depth + 1)] for k, v in value.items()]
            return [kind, *pairs]
        if isinstance(value, (list, tuple)):
            kind = "l" if isinstance(value, list) else "u"
            return [kind, *(self.structure(v, depth + 1) for v in value)]
        raise TypeError(
            f"publish(): expected tensors in dicts, lists and tuples, or a module; got "
            f"{type(value).__name__}"
        )

    def _key(self, key: Any) -> Any:
        if key is None or isinstance(key, (bool, int, str)):
            return key
        raise TypeError(f"publish(): keys must be str or int, got {type(key).__name__}")

    def _tensor(self, tensor: Tensor) -> list[Any]:
        if type(tensor) not in (Tensor, nn.Parameter):
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
        kind = "p" if isinstance(tensor, nn.Parameter) else "t"
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
                target = UntypedStorage._of_address(self._make(nbytes))
                copy = shmtensor.empty(0, dtype=tensor.dtype)
                copy.set_(target, 0, tensor.shape)  # type: ignore[call-overload]
                return target, [copy.copy_(tensor)]
        target = UntypedStorage._of_address(self._make(source.nbytes()))
        target.copy_(source)
        return target, shown


def encode(
    value: Any, owns: Callable[[int], bool], make: Callable[[int], int]
) -> tuple[list[UntypedStorage], Any]:
    """Put a value's bytes into a service.

    Args:
        value: Tensors, plain values, and dicts, lists and tuples of them.
        owns: Whether the storage at a C address is in the service; then it is not copied.
        make: Makes a storage of that many bytes in the service, and returns its C address with a
            new reference.

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
    if kind in ("d", "o"):
        return [kind, *([key, _fill(item, rows)] for key, item in items)]
    return [kind, *(_fill(item, rows) for item in items)]


# --- reading ------------------------------------------------------------------------------------


def _decode_tensor(row: list[Any], storages: list[UntypedStorage]) -> Tensor:
    number, dtype_name, offset, sizes, strides, requires_grad = row
    dtype = getattr(shmtensor, dtype_name)
    if not isinstance(dtype, shmtensor.dtype) or not 0 <= number < len(storages):
        raise ValueError(f"a tensor of dtype {dtype_name!r} over storage {number!r}")
    storage = storages[number]
    last = offset + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    negative = min([offset, *sizes, *strides], default=0) < 0
    if negative or (0 not in sizes and (last + 1) * dtype.itemsize > storage.nbytes()):
        raise ValueError(f"a tensor of sizes {sizes} over {storage.nbytes()} bytes")
    tensor: Any = shmtensor.empty(0, dtype=dtype)
    tensor.set_(storage, offset, sizes, strides)
    return tensor.requires_grad_(True) if requires_grad else tensor  # type: ignore[no-any-return]


def decode(structure: Any, storages: list[UntypedStorage]) -> Any:
    """Return the value that `encode` wrote, over these storages.

    Raises:
        ValueError: The structure is damaged.
    """
    if not isinstance(structure, list):
        return structure
    try:
        return _decode_list(structure, storages)
    except (TypeError, IndexError, AttributeError, KeyError, OverflowError) as error:
        raise ValueError(f"the description of a published value is damaged: {error}") from error


def _decode_list(structure: list[Any], storages: list[UntypedStorage]) -> Any:
    kind, *items = structure
    if kind == "t":
        return _decode_tensor(items, storages)
    if kind == "p":
        tensor = _decode_tensor(items, storages)
        return nn.Parameter(tensor.detach(), tensor.requires_grad)
    if kind == "d":
        return {key: decode(item, storages) for key, item in items}
    if kind == "o":
        return OrderedDict((key, decode(item, storages)) for key, item in items)
    if kind == "l":
        return [decode(item, storages) for item in items]
    if kind == "u":
        return tuple(decode(item, storages) for item in items)
    if kind == "b":
        return base64.b64decode(items[0])
    if kind == "f":
        return float(items[0])
    raise ValueError(f"the description of a published value has an item of kind {kind!r}")


def to_text(document: Any) -> bytes:
    """Return a JSON document as bytes."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def from_text(text: bytes) -> Any:
    """Parse the bytes of a JSON document.

    Raises:
        ValueError: They are not valid JSON.
    """
    return json.loads(text)
