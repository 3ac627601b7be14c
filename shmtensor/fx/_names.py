"""Names of functions and types in the text of graphs and in generated code.

Note [Names in generated code]
Generated code calls functions of this package by the names that torch has for them, such as
``torch.relu`` and ``torch._C._nn.gelu``. In the code's globals ``torch`` is this package, so a
name is only given when looking it up there gives the very function; everything else is put into
the globals as an object of its own.
"""

from __future__ import annotations

import builtins
import re
import typing
from functools import cache
from types import ModuleType
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._ops import OpOverload, OpOverloadPacket
from shmtensor.overrides import is_tensor_method_or_property

__all__ = ["is_own", "name_for_node", "printed_target", "qualified_name", "type_name"]

_PACKAGE = "shmtensor"


#: Functions that torch keeps in `functional`.
_OF_FUNCTIONAL = frozenset(
    """
    align_tensors atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors
    cartesian_prod cdist chain_matmul einsum istft lu meshgrid norm pca_lowrank split stft
    svd_lowrank tensordot unique unique_consecutive unravel_index
    """.split()
)


@cache
def _homes() -> tuple[tuple[str, Any], ...]:
    """Where functions are looked for by their names, in torch's order of preference."""
    t = shmtensor
    return (
        ("torch", t),
        ("torch._C._nn", _C._nn),
        ("torch.nn.functional", t.nn.functional),
        ("torch.nn.init", t.nn.init),
        ("torch.linalg", t.linalg),
        ("torch.fft", t.fft),
        ("torch.special", t.special),
        ("torch._C", _C),
    )


def _home(function: Any) -> str | None:
    """The qualified name of a function of this package, None for others."""
    name = getattr(function, "__name__", None)
    module = str(getattr(function, "__module__", None))
    if not isinstance(name, str) or module.partition(".")[0] not in (_PACKAGE, "torch"):
        return None
    if name in _OF_FUNCTIONAL and getattr(shmtensor.functional, name, None) is function:
        return f"torch.functional.{name}"
    for prefix, module in _homes():
        if getattr(module, name, None) is function:
            # Functions of linalg, fft and special are better known by their own module.
            if prefix == "torch._C._nn" and (short := _public_name(function, name)) is not None:
                return short
            return f"{prefix}.{name}"
    return _public_name(function, name)


def _public_name(function: Any, name: str) -> str | None:
    for prefix, module in (
        ("linalg", shmtensor.linalg),
        ("fft", shmtensor.fft),
        ("special", shmtensor.special),
    ):
        short = name.removeprefix(f"{prefix}_")
        if getattr(module, short, None) is function:
            return f"torch.{prefix}.{short}"
    return None


def _as_torch(module: str) -> str:
    """A module's name as generated code knows it."""
    first, dot, rest = module.partition(".")
    return f"torch{dot}{rest}" if first == _PACKAGE else module


def qualified_name(function: Any) -> str:
    """Return the name by which generated code and the text of graphs know a function or class.

    Raises:
        RuntimeError: It has no name.
    """
    if isinstance(function, OpOverload):
        return f"torch.ops.{function}"
    if isinstance(function, OpOverloadPacket):
        return f"torch.ops.{function._overloads[0].namespace}.{function.__name__}"
    name = getattr(function, "__name__", None)
    if name is not None and getattr(builtins, name, None) is function:
        return str(name)
    if is_tensor_method_or_property(function) and getattr(shmtensor.Tensor, name or "", None):
        return f"torch.Tensor.{name}"
    if (found := _home(function)) is not None:
        return found
    module = getattr(function, "__module__", None)
    if name is None:
        found = getattr(function, "_name", None) or type(function).__name__
        return f"{_as_torch(type(function).__module__)}.{found}"
    if module is None:
        owner = getattr(function, "__self__", None) or getattr(function, "__objclass__", None)
        if owner is None:
            raise RuntimeError(f"cannot find module for {function}")
        if not isinstance(owner, type | ModuleType):
            owner = type(owner)
        holder = getattr(owner, "__qualname__", owner.__name__)
        return f"{_as_torch(getattr(owner, '__module__', owner.__name__))}.{holder}.{name}"
    module = _as_torch(module)
    return f"{module}.{name}"


def is_own(obj: Any) -> bool:
    """Return whether generated code can say an object as a name below ``torch``."""
    try:
        name = qualified_name(obj)
    except RuntimeError:
        return False
    if not name.startswith("torch.") or is_tensor_method_or_property(obj):
        return False
    found: Any = shmtensor
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found is obj or (isinstance(obj, OpOverloadPacket) and found == obj)


def printed_target(target: Any) -> str:
    """Return a node's target as the text of a graph has it."""
    if isinstance(target, str):
        return target
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
    if module in ("builtins", "_operator") and name is not None:
        return f"{module.removeprefix('_')}.{name}"
    return qualified_name(target)


def name_for_node(target: Any) -> str:
    """Return what a node is called after, before that is made an identifier."""
    name = target.__name__ if callable(target) else str(target)
    if not callable(target) and name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def type_name(annotation: Any) -> str:
    """Return the text of a type."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        if annotation.__module__ == "builtins":
            return annotation.__qualname__
        if annotation is shmtensor.Tensor:
            return "torch.Tensor"
        name = f"{annotation.__module__}.{annotation.__qualname__}"
        return _as_torch(name)
    if annotation is ...:
        return "..."
    if callable(annotation) and hasattr(annotation, "__code__"):
        return str(annotation.__name__)
    return repr(annotation).replace(f"{_PACKAGE}.", "torch.")
