"""Functions on lists of tensors, ``_foreach_add(tensors, 1)``: one call for all of them.

The table of them is csrc/spec/foreach.yaml. Each calls its operator for every tensor, in C. Where
the tensors are dense, of one floating dtype and not recorded, one loop does them all instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from shmtensor import _C

__all__ = ["functions"]

_ABSENT = object()
_Tensors = tuple[Any, ...]
_numbers = (int, float, complex, bool)


def _tensors(function: str, name: str, value: Any, position: int = 1) -> _Tensors:
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be tuple of Tensors, not "
            f"{type(value).__name__}"
        )
    for i, item in enumerate(value):
        if not isinstance(item, _C._TensorBase):
            raise TypeError(
                f"expected Tensor as element {i} in argument {position - 1}, but got "
                f"{type(item).__name__}"
            )
    if not value:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return tuple(value)


def _same_length(first: _Tensors, *others: _Tensors) -> None:
    for other in others:
        if len(other) != len(first):
            raise RuntimeError(
                "Tensor lists must have the same number of tensors, got "
                f"{len(first)} and {len(other)}"
            )


def _scalars(first: _Tensors, scalars: Any) -> tuple[Any, ...]:
    if len(scalars) != len(first):
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return tuple(scalars)


def _are_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(v, _C._TensorBase) for v in value)


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python, in lists too; anything else as it is."""
    numpy = sys.modules.get("numpy")  # who has a number of NumPy's has loaded it
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _are_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(v, _numbers) for v in value)


class _Function:
    """One function: a row of the table, and whether it changes its first list.

    Args:
        row: From the C core.
        in_place: Change the tensors, and return the list that was given.
    """

    def __init__(self, row: tuple[Any, ...], in_place: bool) -> None:
        name, self.takes, alpha, operators, self.loop = row
        self.name = f"_foreach_{name}_" if in_place else f"_foreach_{name}"
        self.in_place = in_place
        self.alpha = alpha.split()
        own = operators[4:] if in_place else operators[:4]
        forms = ("list", "scalar", "tensor", "reverse")
        self.operators = {f: name for f, name in zip(forms, own, strict=True) if name}
        self._handles: dict[str, Any] = {}

    def _run(self, form: str, tensors: _Tensors, *more: Any, **named: Any) -> _Tensors:
        """The operator of a form for each tensor; tuples among the rest have one for each."""
        handle = self._handles.get(form)
        if handle is None:
            handle = self._handles[form] = _C._find_operator(self.operators[form])._handle
        results: _Tensors = _C._map_operator(handle, len(tensors), tensors, *more, **named)
        return results

    def _flat(self, *lists: _Tensors) -> _Tensors | None:
        if self.loop < 0:
            return None
        results: _Tensors | None = _C._foreach_flat(self.loop, self.in_place, *lists)
        return results

    def _refuse(self, *given: Any) -> TypeError:
        kinds = ", ".join(type(value).__name__ for value in given if value is not _ABSENT)
        return TypeError(
            f"{self.name}() received an invalid combination of arguments - got ({kinds}); it takes "
            f"a tuple of Tensors and {' or '.join(self.operators)} operands"
        )

    # --- by what they take ----------------------------------------------------------------

    def unary(self, tensors: Any) -> _Tensors:
        own = _tensors(self.name, "self", tensors)
        if self.name == "_foreach_max" and any(t.numel() == 0 for t in own):
            raise RuntimeError(
                "_foreach_max cannot compute the maximum of an empty tensor; max over zero "
                "elements is undefined."
            )
        flat = self._flat(own)
        return self._run("list", own) if flat is None else flat

    def binary(self, tensors: Any, other: Any, alpha: Any) -> _Tensors:
        if "reverse" in self.operators and isinstance(tensors, _numbers):
            exponents = _tensors(self.name, "exponent", other, 2)
            handle = _C._find_operator(self.operators["reverse"])._handle
            results: _Tensors = _C._map_operator(handle, len(exponents), tensors, exponents)
            return results
        if not isinstance(tensors, (list, tuple)):
            raise self._refuse(tensors, other)
        own = _tensors(self.name, "self", tensors)
        form: str
        operand: Any
        if _are_tensors(other):
            form, operand = "list", _tensors(self.name, "other", other, 2)
            _same_length(own, operand)
        elif _are_numbers(other):
            form, operand = "scalar", _scalars(own, other)
        elif isinstance(other, _C._TensorBase):
            if other.dim() != 0:
                raise RuntimeError(
                    f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and "
                    f"{other.numel()} elements."
                )
            if "tensor" in self.operators:
                form, operand = "tensor", other
            else:
                form, operand = "scalar", other.item()
        elif isinstance(other, _numbers):
            form, operand = "scalar", other
        else:
            raise self._refuse(tensors, other)
        if form not in self.operators or (alpha is not _ABSENT and form not in self.alpha):
            raise self._refuse(tensors, other, alpha)
        if form == "list":
            flat = self._flat(own, operand)
            if flat is not None:
                return flat
        named = {} if alpha is _ABSENT else {"alpha": alpha}
        return self._run(form, own, operand, **named)

    def pointwise(self, tensors: Any, tensor1: Any, tensor2: Any, value: Any) -> _Tensors:
        own = _tensors(self.name, "self", tensors)
        first = _tensors(self.name, "tensor1", tensor1, 2)
        second = _tensors(self.name, "tensor2", tensor2, 3)
        _same_length(own, first, second)
        if isinstance(value, _C._TensorBase):
            if value.dim() != 1 or value.numel() != len(own):
                raise RuntimeError(
                    f"Expected length of scalars to match input of length {len(own)} but got "
                    f"{value.numel()} instead."
                )
            value = tuple(value.tolist())
        elif isinstance(value, (list, tuple)):
            value = _scalars(own, value)
        return self._run("list", own, first, second, value=value)

    def lerp(self, tensors: Any, ends: Any, weight: Any) -> _Tensors:
        own = _tensors(self.name, "self", tensors)
        other = _tensors(self.name, "tensors1", ends, 2)
        _same_length(own, other)
        if _are_tensors(weight):
            weights = _tensors(self.name, "weights", weight, 3)
            _same_length(own, weights)
            return self._run("list", own, other, weights)
        if isinstance(weight, (list, tuple)):
            weight = _scalars(own, weight)
        return self._run("scalar", own, other, weight)

    def norm(self, tensors: Any, ord: Any, dtype: Any) -> _Tensors:
        own = _tensors(self.name, "self", tensors)
        if self.name == "_foreach_norm":
            return self._run("list", own, ord, dtype=dtype)
        if dtype is not None:
            own = tuple(t.to(dtype) for t in own)
        powers = self._run("list", self._run("scalar", own), ord)
        return self._run("tensor", powers)

    def copy(self, tensors: Any, src: Any, non_blocking: Any) -> _Tensors:
        own = _tensors(self.name, "self", tensors)
        sources = _tensors(self.name, "src", src, 2)
        _same_length(own, sources)
        return self._run("list", own, sources, non_blocking)

    def clone(self, tensors: Any, memory_format: Any) -> _Tensors:
        own = _tensors(self.name, "self", tensors)
        return self._run("list", own, memory_format=memory_format)


def _second(values: dict[str, Any], other: Any) -> Any:
    """The second operand, by whatever name it was given."""
    for name in ("scalar", "scalars", "exponent"):
        if name in values:
            other = values.pop(name)
    if values:
        raise TypeError(f"unexpected keyword arguments: {', '.join(values)}")
    return other


def _callable(f: _Function) -> Callable[..., Any]:
    """A plain function with torch's signature."""
    function: Callable[..., Any]
    if f.takes == "unary":

        def function(self: Any) -> Any:
            results = f.unary(self)
            return self if f.in_place else results

    elif f.takes == "binary":

        def function(self: Any, other: Any = _ABSENT, *, alpha: Any = _ABSENT, **named: Any) -> Any:
            results = f.binary(_plain(self), _plain(_second(named, other)), _plain(alpha))
            return self if f.in_place else results

    elif f.takes == "pointwise":

        def function(
            self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = _ABSENT
        ) -> Any:
            factor = _plain(value if scalars is _ABSENT else scalars)
            results = f.pointwise(self, tensor1, tensor2, factor)
            return self if f.in_place else results

    elif f.takes == "lerp":

        def function(
            self: Any, tensors1: Any, weight: Any = _ABSENT, *, weights: Any = _ABSENT
        ) -> Any:
            amount = _plain(weight if weights is _ABSENT else weights)
            results = f.lerp(self, tensors1, amount)
            return self if f.in_place else results

    elif f.takes == "norm":

        def function(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
            return f.norm(self, ord, dtype)

    elif f.takes == "copy":

        def function(self: Any, src: Any, non_blocking: Any = False) -> Any:
            f.copy(self, src, non_blocking)
            return self

    else:

        def function(self: Any, *, memory_format: Any = None) -> Any:
            return f.clone(self, memory_format)

    function.__name__ = function.__qualname__ = f.name
    forms = ", ".join(f"{form}: {name}" for form, name in f.operators.items())
    ending = " The tensors are changed in place; the list is returned." if f.in_place else ""
    function.__doc__ = f"Call an operator for each tensor of a list ({forms}).{ending}"
    return function


def functions() -> dict[str, Callable[..., Any]]:
    """All of them, by name."""
    made: dict[str, Callable[..., Any]] = {}
    for row in _C._foreach_rows():
        for in_place in (False, True):
            function = _Function(row, in_place)
            if function.operators:
                made[function.name] = _callable(function)
    return made
