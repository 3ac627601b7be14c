"""Functions with a derivative that you write."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor.autograd.grad_mode import no_grad

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]

FunctionCtx = _C._FunctionBase


class BackwardCFunction(_C._FunctionBase):  # type: ignore[misc]
    """Base of the classes that contexts are of, one per Function: ``<name>Backward``.

    Source:
        torch.autograd.function.BackwardCFunction.
    """


class FunctionMeta(type):
    """Gives each Function the class of its contexts, ``<name>Backward``."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._backward_cls = type(f"{name}Backward", (BackwardCFunction,), {"_forward_cls": cls})

    @property
    def _user_backward(cls) -> Callable[..., Any]:
        backward = cls.backward  # type: ignore[attr-defined]
        vjp = cls.vjp  # type: ignore[attr-defined]
        if vjp is Function.vjp:
            return backward  # type: ignore[no-any-return]
        if backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
                "should only implement one of them."
            )
        return vjp  # type: ignore[no-any-return]

    @property
    def _user_setup_context(cls) -> Callable[..., Any] | None:
        setup = cls.setup_context  # type: ignore[attr-defined]
        return None if setup is Function.setup_context else setup


class Function(metaclass=FunctionMeta):
    """Base of operations with a derivative written in Python.

    Subclasses define static ``forward(ctx, *args)`` and ``backward(ctx, *grads)``; or
    ``forward(*args)`` and ``setup_context(ctx, inputs, output)``. Call ``apply``.

    Attributes:
        clear_saved_tensors_on_access: ``ctx.saved_tensors`` lets go of the tensors, so that
            backward can free each when it is done with it; a second look raises.
        boxed_grads_call: ``backward(ctx, grads)`` gets one list, which it may empty.

    Source:
        torch.autograd.Function.
    """

    #: Under vmap, forward and backward are the vmap of the ones that are written.
    generate_vmap_rule = False
    clear_saved_tensors_on_access = False
    boxed_grads_call = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: functions are applied by ``apply``."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the operation. Must be overridden."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save for backward, when ``forward`` does not take the context itself."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of forward's arguments. Must be overridden to differentiate."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name of ``backward``."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Compute the tangents of forward's results from those of its arguments.

        Must be overridden to use the Function in forward mode. A result that ``forward`` changed
        in place needs its tangent changed in place, and one that is a view needs a view.
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Compute all examples at once: what the Function does under vmap.

        Args:
            info: ``batch_size`` and ``randomness`` of the vmap.
            in_dims: For each argument where its batch is, or None.
            *args: What ``forward`` takes, with the batches.

        Returns:
            A pair: the outputs, and for each where its batch is.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and record it.

        Args:
            *args: What ``forward`` takes; tensors among them may require grad.
            **kwargs: Further arguments of ``forward``. With ``setup_context`` they take their
                places among the others, and defaults are filled in; else they are constants.

        Returns:
            What ``forward`` returns; its tensors have this Function as grad_fn.

        Raises:
            RuntimeError: A leaf that requires grad was marked dirty.
        """
        if cls._user_setup_context is not None:
            if kwargs or len(args) != _n_arguments(cls.forward):
                import inspect  # only for what is rarely asked for

                bound = inspect.signature(cls.forward).bind(*args, **kwargs)
                bound.apply_defaults()
                args = bound.args
        elif kwargs:
            return _C._function_apply(cls, args, kwargs)
        return _C._function_apply(cls, args)


def _n_arguments(function: Callable[..., Any]) -> int:
    """How many arguments a plain function names; -1 for other callables."""
    code = getattr(function, "__code__", None)
    return -1 if code is None else int(code.co_argcount)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` that cannot be differentiated itself.

    It runs without recording; differentiating its results raises.

    Source:
        torch.autograd.function.once_differentiable.
    """

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            results = backward(ctx, *grads)
        if not _C.is_grad_enabled():
            return results
        if not any(isinstance(g, _C._TensorBase) and g.requires_grad for g in grads):
            return results
        several = isinstance(results, tuple)
        outputs = results if several else (results,)
        refused = tuple(_refuse(out) for out in outputs)
        return refused if several else refused[0]

    return wrapper


def _refuse(out: Any) -> Any:
    if not isinstance(out, _C._TensorBase):
        return out
    return _Refuse.apply(out.detach().requires_grad_())


class _Refuse(Function):
    """The identity with a derivative that raises."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def _flatten(value: Any, into: list[Any]) -> Any:
    """Append the tensors of nested lists, tuples and dicts; return the structure with indices."""
    if isinstance(value, _C._TensorBase):
        into.append(value)
        return _Slot(len(into) - 1)
    if isinstance(value, (list, tuple)):
        return type(value)(_flatten(item, into) for item in value)
    if isinstance(value, dict):
        return {key: _flatten(item, into) for key, item in value.items()}
    return value


def _unflatten(structure: Any, tensors: Any) -> Any:
    if isinstance(structure, _Slot):
        return tensors[structure.index]
    if isinstance(structure, (list, tuple)):
        return type(structure)(_unflatten(item, tensors) for item in structure)
    if isinstance(structure, dict):
        return {key: _unflatten(item, tensors) for key, item in structure.items()}
    return structure


class _Slot:
    """The place of a tensor in a nested structure."""

    def __init__(self, index: int) -> None:
        self.index = index


class InplaceFunction(Function):
    """A Function of the old style, whose instances say whether they work in place.

    Source:
        torch.autograd.function.InplaceFunction.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A Function with nested lists, tuples and dicts of tensors as arguments and results.

    Subclasses define ``forward_extended(ctx, *args)`` and ``backward_extended(ctx, *grads)``.

    Source:
        torch.autograd.function.NestedIOFunction.
    """

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward_extended`` and record it."""
        if kwargs:
            raise TypeError("apply() takes no keyword arguments")
        tensors: list[Any] = []
        structure = _flatten(args, tensors)
        shape: dict[str, Any] = {}
        flat = _C._function_apply(cls, (structure, shape, *tensors))
        return _unflatten(shape["output"], flat)

    @staticmethod
    def forward(ctx: Any, structure: Any, shape: dict[str, Any], *tensors: Any) -> Any:
        """Unpack the arguments, pack the results."""
        ctx._nested_input = structure
        cls = type(ctx)._forward_cls
        output = cls.forward_extended(ctx, *_unflatten(structure, tensors))
        flat: list[Any] = []
        shape["output"] = ctx._nested_output = _flatten(output, flat)
        return tuple(flat)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Unpack the gradients, pack those of the arguments."""
        cls = type(ctx)._forward_cls
        outputs = ctx._nested_output
        nested = _unflatten(outputs, grads)
        several = isinstance(outputs, tuple)
        given = cls.backward_extended(ctx, *(nested if several else (nested,)))
        flat: list[Any] = []
        _collect(ctx._nested_input, given if isinstance(given, tuple) else (given,), flat)
        return (None, None, *flat)

    @staticmethod
    def forward_extended(ctx: Any, *args: Any) -> Any:
        """Compute the operation on nested arguments. Must be overridden."""
        raise NotImplementedError("forward_extended must be implemented")

    @staticmethod
    def backward_extended(ctx: Any, *grads: Any) -> Any:
        """Compute the gradients, nested as the arguments were. Must be overridden."""
        raise NotImplementedError("backward_extended must be implemented")


def _collect(structure: Any, gradients: Any, into: list[Any]) -> None:
    """The gradients at the places of the arguments' tensors, in order."""
    if isinstance(structure, _Slot):
        into.append(gradients)
    elif isinstance(structure, (list, tuple)):
        for i, item in enumerate(structure):
            _collect(item, None if gradients is None else gradients[i], into)
    elif isinstance(structure, dict):
        for key, item in structure.items():
            _collect(item, None if gradients is None else gradients[key], into)
