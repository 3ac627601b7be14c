"""Reads pickles: by a reader that runs no code of the file, or by the standard library's.

A pickle is a program. The first reader knows only the instructions that build plain values. It
calls only the functions and classes that `_names` lists or that the user has allowed, and does not
look up any other. A wrong file always ends in an exception: sizes are checked, and so are depths
where the interpreter would recurse without a limit. It ends soon: what instructions copy, or look
up by long keys, is paid from the file's `Budget`, and keys with equal hashes are few.
"""

from __future__ import annotations

import collections
import importlib
import os
import pickle
import struct
import sys
from collections.abc import Callable
from typing import IO, Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.serialization._budget import Budget, Forbidden, brief
from shmtensor.serialization._names import (
    CONTAINERS,
    REBUILDS,
    allowed,
    is_blocked,
    name_of_today,
    readable,
    user_globals,
)

__all__ = ["load_any", "load_weights"]

FindStorage = Callable[[tuple[Any, ...]], Any]

#: Parts of a key of a dictionary or a member of a set: hashes of tuples recurse without a limit.
_MOST_PARTS = 1000
#: The price of a part of a key, in bytes: looking at it takes as long as copying them.
_PART_BYTES = 64
#: Keys longer than this are paid for.
_SHORT_KEY = 100
#: From here on, many integers have one hash.
_LEAST_FOLDED = sys.hash_info.modulus
#: Most different keys with one hash: each is compared with the others.
_MOST_ALIKE = 100
#: Digits of an integer in decimals: reading more takes time that grows with their square.
_MOST_DIGITS = 4300

#: What makes a plain tensor or a parameter.
_MAKERS = [function for name, function in REBUILDS.items() if name.startswith("torch._utils.")]

_MARK = object()


class _Keys:
    """Checks that what becomes a key or a member of a set is found in little time."""

    def __init__(self, budget: Budget) -> None:
        self._spend = budget.spend
        self._first: dict[int, Any] = {}  # by hash
        self._others: dict[int, list[Any]] = {}

    def checked(self, key: Any) -> Any:
        """Return *key*.

        Raises:
            Forbidden: Its hash would take long, as that of nested tuples can, or is that of many.
        """
        kind = type(key)
        if kind is str or kind is bytes:
            if len(key) > _SHORT_KEY:
                self._spend(len(key))
        elif kind is not int or not -_LEAST_FOLDED < key < _LEAST_FOLDED:
            self._spend(self._n_bytes(key))
            if kind in (int, tuple, frozenset, range):
                self._count_alike(key)
        return key

    @staticmethod
    def _n_bytes(key: Any) -> int:
        """About how many bytes are hashed."""
        pending, n_parts, n_bytes = [key], 0, 0
        while pending:
            part = pending.pop()
            n_parts += 1
            if n_parts > _MOST_PARTS:
                raise Forbidden(f"a key or a member of a set has more than {_MOST_PARTS} parts")
            if type(part) in (tuple, frozenset):
                pending += part
            elif type(part) in (str, bytes):
                n_bytes += len(part)
            elif type(part) is int:
                n_bytes += part.bit_length() // 8
        return _PART_BYTES * n_parts + n_bytes

    def _count_alike(self, key: Any) -> None:
        # Of texts nobody knows the hashes, and small integers are their own.
        value = hash(key)
        first = self._first.setdefault(value, key)
        if first is key or first == key:
            return
        others = self._others.setdefault(value, [])
        if key not in others:
            others.append(key)
        if len(others) > _MOST_ALIKE:
            raise Forbidden(f"more than {_MOST_ALIKE} keys or members of sets have the same hash")


#: Bytes that a container takes for each item that it copies.
_ITEM_BYTES: dict[Any, int] = {
    collections.Counter: 150,
    collections.OrderedDict: 150,
    collections.deque: 8,
    _C.Size: 8,
    bytearray: 1,
    frozenset: 64,
    set: 64,
}


def _attribute_bytes(state: Any) -> int:
    """Bytes that a tensor or container takes for attributes: a dictionary, or a pair of them."""
    parts = state if type(state) is tuple else (state,)
    return sum(150 * len(part) for part in parts if type(part) is dict)


def _n_bytes_of(function: Any, arguments: tuple[Any, ...]) -> int:
    """About how many bytes a function of `CONTAINERS` or `REBUILDS` copies or looks at."""
    if function is REBUILDS["torch._utils._rebuild_sparse_tensor"]:
        parts = arguments[1] if len(arguments) > 1 and type(arguments[1]) is tuple else ()
        tensors = [part for part in parts[:4] if isinstance(part, Tensor)]
        return sum(8 * part.numel() * part.element_size() for part in tensors)
    item_bytes = _ITEM_BYTES.get(function, 1)
    n_items = sum(len(a) for a in arguments[:2] if type(a) in (list, tuple, dict, str, bytes))
    return item_bytes * n_items + sum(map(_attribute_bytes, arguments[3:]))


def _is_short(number: Any) -> bool:
    return number is None or (type(number) is int and number.bit_length() < 64)


def _checked(kind: Any, arguments: tuple[Any, ...], keys: _Keys) -> tuple[Any, ...]:
    """Return the arguments for a class of `CONTAINERS` if they are plain and no larger than it."""
    first = arguments[0] if arguments else ()
    if kind in (set, frozenset, collections.deque):
        fits = type(first) in (list, tuple)
        if fits and kind is not collections.deque:
            collections.deque(map(keys.checked, first), maxlen=0)
    elif kind is collections.OrderedDict:
        fits = type(first) in (list, tuple) and all(
            type(pair) in (list, tuple) and len(pair) == 2 and keys.checked(pair[0]) is pair[0]
            for pair in first
        )
    elif kind is collections.Counter:
        fits = not arguments or type(first) is dict
    elif kind is bytearray:
        fits = not arguments or type(first) is bytes or arguments[1:] == ("latin-1",)
    elif kind in (slice, range):
        fits = all(map(_is_short, arguments))
    else:
        fits = True
    if not fits:
        raise Forbidden(f"{kind.__name__} of {type(first).__name__}")
    return arguments


class _Reader:
    """Runs one pickle with the instructions of protocols 1 to 5 that need no code of the file."""

    def __init__(
        self,
        file: IO[bytes],
        find_storage: FindStorage | None,
        encoding: str,
        n_bytes: int,
        budget: Budget,
    ) -> None:
        self._n_bytes = n_bytes
        self._spend = budget.spend
        self._keys = _Keys(budget)
        self._read = file.read
        self._readline = file.readline
        self._find_storage = find_storage
        self._encoding = encoding
        self._known = readable()
        self._users = {id(allowed(item)[0]) for item in user_globals}
        self._calls = self._users | {id(f) for f in (*REBUILDS.values(), *CONTAINERS.values())}
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._protocol = 0

    # --- bytes ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._protocol = self._number(1)

    def _take(self, size: int) -> bytes:
        data = self._read(size) if size <= self._n_bytes else b""
        if len(data) != size:
            raise pickle.UnpicklingError("pickle data was truncated")
        return data

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _line(self) -> str:
        line = self._readline()
        if line[-1:] != b"\n":
            raise pickle.UnpicklingError("pickle data was truncated")
        return line[:-1].decode()

    # --- the stack ------------------------------------------------------------------------------

    def _to_mark(self) -> list[Any]:
        """Pop the objects above the last mark, and the mark."""
        stack = self._stack
        for at in range(len(stack) - 1, -1, -1):
            if stack[at] is _MARK:
                above = stack[at + 1 :]
                del stack[at:]
                return above
        raise pickle.UnpicklingError("a mark is missing")

    def _top(self, *kinds: type) -> Any:
        """Return the top of the stack, which must be of one of the types."""
        top = self._stack[-1]
        if type(top) not in kinds:
            raise Forbidden(f"items for an object of type {type(top).__name__}")
        return top

    # --- instructions ---------------------------------------------------------------------------

    def _global(self, module: str, name: str) -> None:
        if self._protocol <= 2 and f"{module}.{name}" not in self._known:
            module, name = name_of_today(module, name)
        full = f"{module}.{name}"
        if is_blocked(module):
            raise Forbidden(
                f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked."
            )
        found = self._known.get(full)
        if found is None:
            full = full.removeprefix("builtins.")
            raise Forbidden(
                f"Unsupported global: GLOBAL {full} was not an allowed global by default. Please "
                f"use `shmtensor.serialization.add_safe_globals([{full}])` or the "
                f"`shmtensor.serialization.safe_globals([{full}])` context manager to allowlist "
                "this global if you trust this class/function."
            )
        self._stack.append(found)

    def _call(self, make: bool) -> None:
        arguments = self._stack.pop()
        function = self._stack[-1]
        if type(arguments) is not tuple:
            raise Forbidden("arguments that are not a tuple")
        if id(function) not in self._calls:
            name = getattr(function, "__name__", None)
            raise Forbidden(f"Trying to call {name if type(name) is str else brief(function)}")
        if id(function) not in self._users:
            if function is REBUILDS["torch._tensor._rebuild_from_type_v2"] and (
                not arguments or arguments[0] not in _MAKERS
            ):
                raise Forbidden("a tensor made by something else than a known function")
            self._spend(_n_bytes_of(function, arguments))
            arguments = _checked(function, arguments, self._keys)
        self._stack[-1] = (
            function.__new__(function, *arguments)
            if make and isinstance(function, type)
            else function(*arguments)
        )

    def _build(self) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        kind = type(target)
        if id(kind) in self._users:
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
                return
            attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
            target.__dict__.update(attributes or {})
            for name, value in (slots or {}).items():
                setattr(target, name, value)
        elif kind in (collections.OrderedDict, collections.Counter) or issubclass(kind, Tensor):
            if type(state) is not dict:
                raise Forbidden(f"attributes of {kind.__name__} that are not a dictionary")
            self._spend(_attribute_bytes(state))
            target.__dict__.update(state)
        elif state is not None:
            raise Forbidden(f"attributes of an object of type {kind.__name__}")

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        kind = type(target)
        if kind not in (dict, collections.OrderedDict, collections.Counter) and not (
            id(kind) in self._users and issubclass(kind, dict)
        ):
            raise Forbidden(f"items for an object of type {kind.__name__}")
        for at in range(0, len(items), 2):
            target[self._keys.checked(items[at])] = items[at + 1]

    def _dict(self) -> None:
        items = self._to_mark()
        self._stack.append({})
        self._set_items(items)

    def _append(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) not in (list, collections.deque) and id(type(target)) not in self._users:
            raise Forbidden(f"items for an object of type {type(target).__name__}")
        target.extend(items)

    def _persistent(self) -> None:
        reference = self._stack.pop()
        if self._find_storage is None:
            raise pickle.UnpicklingError("a reference to a storage where none can be")
        self._stack.append(self._find_storage(reference))

    def _text(self, size: int) -> None:
        self._stack.append(self._take(size).decode("utf-8", "surrogatepass"))

    def _bytes_of_two(self, size: int) -> None:
        """A string of Python 2."""
        data = self._take(size)
        self._stack.append(data if self._encoding == "bytes" else data.decode(self._encoding))

    def _tuple(self, size: int) -> None:
        if size > len(self._stack):
            raise pickle.UnpicklingError("the stack is empty")
        values = tuple(self._stack[len(self._stack) - size :])
        del self._stack[len(self._stack) - size :]
        self._stack.append(values)

    def _int(self) -> None:
        line = self._line()
        known = {"00": False, "01": True}
        self._stack.append(known[line] if line in known else _decimal(line))

    def _put(self, key: int) -> None:
        self._memo[key] = self._stack[-1]

    def _get(self, key: int) -> None:
        self._stack.append(self._memo[key])

    def _stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if type(name) is not str or type(module) is not str:
            raise Forbidden("a global name that is not a string")
        self._global(module, name)

    def _add(self) -> None:
        members = self._to_mark()
        self._top(set).update(map(self._keys.checked, members))

    def run(self) -> Any:
        """Read up to the end of the pickle and return its value.

        Raises:
            EOFError: There is nothing to read.
            pickle.UnpicklingError: An instruction is not allowed, or makes no sense.
        """
        first = True
        while True:
            code = self._read(1)
            if code == pickle.STOP:
                return self._stack.pop()
            instruction = _INSTRUCTIONS.get(code)
            if instruction is None:
                if not code:
                    if first:
                        raise EOFError("Ran out of input")
                    raise pickle.UnpicklingError("pickle data was truncated")
                raise Forbidden(f"Unsupported operand {code[0]}")
            first = False
            instruction(self)


def _push(value: Callable[[_Reader], Any]) -> Callable[[_Reader], None]:
    return lambda reader: reader._stack.append(value(reader))


def _decimal(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise Forbidden(f"an integer of {len(text)} decimal digits")
    return int(text)


def _frozen_set(reader: _Reader) -> frozenset[Any]:
    return frozenset(map(reader._keys.checked, reader._to_mark()))


def _signed(reader: _Reader, size: int) -> int:
    return int.from_bytes(reader._take(size), "little", signed=True)


_INSTRUCTIONS: dict[bytes, Callable[[_Reader], Any]] = {
    pickle.PROTO: _Reader._begin,
    pickle.FRAME: lambda r: r._take(8),
    pickle.MARK: _push(lambda r: _MARK),
    pickle.POP: lambda r: r._stack.pop(),
    pickle.POP_MARK: _Reader._to_mark,
    pickle.DUP: _push(lambda r: r._stack[-1]),
    pickle.NONE: _push(lambda r: None),
    pickle.NEWTRUE: _push(lambda r: True),
    pickle.NEWFALSE: _push(lambda r: False),
    pickle.INT: _Reader._int,
    pickle.LONG: _push(lambda r: _decimal(r._line().removesuffix("L"))),
    pickle.BININT: _push(lambda r: _signed(r, 4)),
    pickle.BININT1: _push(lambda r: r._number(1)),
    pickle.BININT2: _push(lambda r: r._number(2)),
    pickle.LONG1: _push(lambda r: _signed(r, r._number(1))),
    pickle.LONG4: _push(lambda r: _signed(r, r._number(4))),
    pickle.BINFLOAT: _push(lambda r: struct.unpack(">d", r._take(8))[0]),
    pickle.BINUNICODE: lambda r: r._text(r._number(4)),
    pickle.SHORT_BINUNICODE: lambda r: r._text(r._number(1)),
    pickle.BINUNICODE8: lambda r: r._text(r._number(8)),
    pickle.BINSTRING: lambda r: r._bytes_of_two(r._number(4)),
    pickle.SHORT_BINSTRING: lambda r: r._bytes_of_two(r._number(1)),
    pickle.BINBYTES: _push(lambda r: r._take(r._number(4))),
    pickle.SHORT_BINBYTES: _push(lambda r: r._take(r._number(1))),
    pickle.BINBYTES8: _push(lambda r: r._take(r._number(8))),
    pickle.BYTEARRAY8: _push(lambda r: bytearray(r._take(r._number(8)))),
    pickle.EMPTY_TUPLE: _push(lambda r: ()),
    pickle.EMPTY_LIST: _push(lambda r: []),
    pickle.EMPTY_DICT: _push(lambda r: {}),
    pickle.EMPTY_SET: _push(lambda r: set()),
    pickle.TUPLE: _push(lambda r: tuple(r._to_mark())),
    pickle.TUPLE1: lambda r: r._tuple(1),
    pickle.TUPLE2: lambda r: r._tuple(2),
    pickle.TUPLE3: lambda r: r._tuple(3),
    pickle.LIST: _push(lambda r: r._to_mark()),
    pickle.DICT: lambda r: r._dict(),
    pickle.FROZENSET: _push(_frozen_set),
    pickle.APPEND: lambda r: r._append([r._stack.pop()]),
    pickle.APPENDS: lambda r: r._append(r._to_mark()),
    pickle.SETITEM: lambda r: r._set_items([r._stack.pop(-2), r._stack.pop()]),
    pickle.SETITEMS: lambda r: r._set_items(r._to_mark()),
    pickle.ADDITEMS: _Reader._add,
    pickle.PUT: lambda r: r._put(_decimal(r._line())),
    pickle.BINPUT: lambda r: r._put(r._number(1)),
    pickle.LONG_BINPUT: lambda r: r._put(r._number(4)),
    pickle.MEMOIZE: lambda r: r._put(len(r._memo)),
    pickle.GET: lambda r: r._get(_decimal(r._line())),
    pickle.BINGET: lambda r: r._get(r._number(1)),
    pickle.LONG_BINGET: lambda r: r._get(r._number(4)),
    pickle.GLOBAL: lambda r: r._global(r._line(), r._line()),
    pickle.STACK_GLOBAL: _Reader._stack_global,
    pickle.REDUCE: lambda r: r._call(make=False),
    pickle.NEWOBJ: lambda r: r._call(make=True),
    pickle.BUILD: _Reader._build,
    pickle.BINPERSID: _Reader._persistent,
}


def load_weights(
    file: IO[bytes], find_storage: FindStorage | None, encoding: str, budget: Budget
) -> Any:
    """Read one pickle at the position of *file*, without running code of it.

    Args:
        file: Has ``read`` and ``readline``. Afterwards its position is after the pickle.
        find_storage: Returns the storage for a reference.
        encoding: Encoding of Python 2 strings, or ``"bytes"``.
        budget: Pays for what the pickle asks for.

    Raises:
        EOFError: There is nothing to read.
        pickle.UnpicklingError: The pickle is damaged, or uses something that is not allowed.
        RuntimeError: A storage or a tensor cannot be made.
    """
    here = file.tell()
    file.seek(0, os.SEEK_END)
    n_bytes = file.tell() - here
    file.seek(here)
    reader = _Reader(file, find_storage, encoding, n_bytes, budget)
    try:
        return reader.run()
    except pickle.UnpicklingError as error:
        reason: Exception = error
    except (
        IndexError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        reason = error
    raise pickle.UnpicklingError(
        "Weights only load failed. If you trust the file, load(..., weights_only=False) reads it, "
        f"and runs whatever code is in it.\n\tWeightsUnpickler error: {reason}"
    ) from reason


# --- everything ---------------------------------------------------------------------------------


def load_any(
    file: IO[bytes], find_storage: FindStorage, pickle_module: Any, arguments: dict[str, Any]
) -> Any:
    """Read one pickle with the standard library's reader, which runs any code in it.

    Names of torch are resolved to ours where there is one.
    """
    known = readable()

    class Unpickler(pickle_module.Unpickler):  # type: ignore[misc]
        def find_class(self, module: str, name: str) -> Any:
            found = known.get(f"{module}.{name}")
            if found is None and module.partition(".")[0] == "torch":
                found = _our_counterpart(module, name)
            return super().find_class(module, name) if found is None else found

        def persistent_load(self, reference: Any) -> Any:
            return find_storage(reference)

    return Unpickler(file, **arguments).load()


#: Modules of torch whose functions are elsewhere here.
_MOVED = {
    "torch._C._fft": "torch._C._nn",
    "torch._C._linalg": "torch._C._nn",
    "torch._C._special": "torch._C._nn",
}

#: Where pickles of torch's functions and methods find them, by getattr.
_HOLDERS = {
    "torch._C._VariableFunctionsClass": _C,
    "torch._C.TensorBase": _C._TensorBase,
}


def _our_counterpart(module: str, name: str) -> Any:
    """Return this package's counterpart of *name* in torch's *module*.

    Torch's own class would not work even where it is installed, since the tensors become ours.
    """
    if f"{module}.{name}" in _HOLDERS:
        return _HOLDERS[f"{module}.{name}"]
    ours = _C.__name__.partition(".")[0] + _MOVED.get(module, module).removeprefix("torch")
    try:
        found: Any = importlib.import_module(ours)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        raise pickle.UnpicklingError(
            f"the file uses {module}.{name}, which shmtensor does not have"
        ) from None
    return found
