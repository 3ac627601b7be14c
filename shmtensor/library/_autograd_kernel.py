"""The kernel at Autograd of an operator that has a Python function as derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor._core._ops import OpOverload
from shmtensor.autograd.function import Function, _flatten, _Slot, _unflatten

__all__ = ["AutogradKernel"]


class _Call:
    """One call on its way through `autograd.Function`, which takes a flat row of tensors."""

    def __init__(self, structure: Any, kwargs: dict[str, Any]) -> None:
        self.structure = structure
        self.kwargs = kwargs
        self.output: Any = None


def _flat(result: Any) -> tuple[Any, ...]:
    """The result's tensors, in a row."""
    row: list[Any] = []
    _flatten(result, row)
    return tuple(row)


def _flags_like(structure: Any, flags: tuple[bool, ...]) -> Any:
    """Which tensors of an argument need a gradient: a flag, or a list of them."""
    if isinstance(structure, _Slot):
        return flags[structure.index]
    if isinstance(structure, (list, tuple)):
        return [_flags_like(part, flags) for part in structure]
    return False


class AutogradKernel:
    """Records a call as one node, and runs the operator below Autograd.

    Args:
        overload: The operator.
    """

    def __init__(self, overload: OpOverload) -> None:
        self._overload = overload
        rows = _C._operator_arguments(overload._handle)
        self.names: list[str] = [row[0] for row in rows]
        self.mutated = [i for i, row in enumerate(rows) if row[2]]
        self._has_keyword_only = any(row[1] for row in rows)
        self._n_positional = sum(not row[1] for row in rows)
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._function = self._make_function()

    def register(
        self, backward: Callable[..., Any], setup_context: Callable[..., Any] | None
    ) -> None:
        """Set the derivative. Raises RuntimeError when the operator cannot have one."""
        text = self._overload._schema
        if self.mutated or text.rstrip().endswith("-> ()"):
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self._overload} "
                f"with schema {text}. Please create a functional operator and register an autograd "
                "formula for that."
            )
        self._backward, self._setup = backward, setup_context

    def mutated_values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call that the operator changes."""
        return [args[i] if i < len(args) else kwargs.get(self.names[i]) for i in self.mutated]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors: list[Any] = []
        structure = _flatten(args, tensors)
        recorded = _C.is_grad_enabled() and any(t.requires_grad for t in tensors)
        if not recorded:
            return self._below(args, kwargs)
        call = _Call(structure, kwargs)
        flat = self._function.apply(call, *tensors)
        return _unflatten(call.output, flat if isinstance(flat, tuple) else (flat,))

    def _below(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before = _C._change_keys(False, "Autograd", True)
        try:
            return self._overload(*args, **kwargs)
        finally:
            _C._change_keys(False, "Autograd", before)

    def _set_up(self, ctx: Any, call: _Call, tensors: tuple[Any, ...], output: Any) -> None:
        if self._setup is None:
            return
        inputs = tuple(_unflatten(call.structure, tensors))
        if self._has_keyword_only:
            self._setup(ctx=ctx, inputs=inputs, keyword_only_inputs=call.kwargs, output=output)
        else:
            self._setup(ctx=ctx, inputs=inputs, output=output)

    def _gradients(self, ctx: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._backward is None:
            raise RuntimeError(
                f"Trying to backward through {self._overload} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        call = ctx._call
        nested = _unflatten(call.output, grads)
        given = self._backward(ctx, *(nested if isinstance(nested, tuple) else (nested,)))
        given = given if isinstance(given, tuple) else (given,)
        if len(given) != self._n_positional:
            raise RuntimeError(
                f"{self._overload}: the registered backward returned {len(given)} gradients, "
                f"expected one for each of the {self._n_positional} positional arguments"
            )
        row: list[Any] = []
        for structure, gradient in zip(call.structure, given, strict=True):
            self._spread(structure, gradient, row)
        return tuple(row)

    def _spread(self, structure: Any, gradient: Any, into: list[Any]) -> None:
        """Put an argument's gradients in the places of its tensors."""
        if isinstance(structure, (list, tuple)):
            items = gradient if gradient is not None else [None] * len(structure)
            for part, each in zip(structure, items, strict=True):
                self._spread(part, each, into)
        elif isinstance(structure, _Slot):
            into.append(gradient)
        elif gradient is not None:
            raise RuntimeError(
                f"{self._overload}: the registered backward returned a gradient for an argument "
                "that is not a tensor"
            )

    def _make_function(self) -> type[Function]:
        kernel = self

        def forward(ctx: Any, call: _Call, *tensors: Any) -> Any:
            output = kernel._below(tuple(_unflatten(call.structure, tensors)), call.kwargs)
            ctx._call = call
            kernel._set_up(ctx, call, tensors, output)
            call.output = _flatten(output, [])
            return _flat(output)

        def backward(ctx: Any, *grads: Any) -> Any:
            return (None, *kernel._gradients(ctx, grads))

        def needs_input_grad(ctx: Any) -> tuple[Any, ...]:
            flags = vars(_C._FunctionBase)["needs_input_grad"].__get__(ctx)[1:]
            return tuple(_flags_like(part, flags) for part in ctx._call.structure)

        name = f"GeneratedBackwardFor_{str(self._overload).replace('.', '_')}"
        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        made = type(name, (Function,), members)
        # By the operator's arguments, as both of the user's functions count.
        made._backward_cls.needs_input_grad = property(needs_input_grad)  # type: ignore[attr-defined]
        return made
