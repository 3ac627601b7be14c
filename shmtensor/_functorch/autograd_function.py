"""Functions with a derivative of the user's (`shmtensor.autograd.Function`) under vmap.

A Function is recorded where its tensors are. Under vmap that is on what the batched tensors stand
for, so the Function is applied there: by its ``vmap`` staticmethod, or with ``generate_vmap_rule``
by a Function whose forward and backward are the vmap of the user's. Where a transform inside of the
vmap differentiates, a node with the user's backward is made for the batched tensors as well.

Source:
    torch._functorch.autograd_function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._functorch._levels import batched_parts
from shmtensor._functorch.vmap import restore_vmap
from shmtensor.autograd.function import Function
from shmtensor.utils._pytree import (
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_map_only,
    tree_unflatten,
)

__all__ = ["VmapInfo", "apply_under_vmap"]

_MORE = "https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What a ``vmap`` staticmethod is told.

    Attributes:
        batch_size: How many examples there are.
        randomness: ``"error"``, ``"same"`` or ``"different"``.
    """

    batch_size: int
    randomness: str


def _at_level(value: Any, level: int) -> tuple[Any, int | None]:
    """What *value* is below *level*, and where its batch is."""
    parts = batched_parts(value) if isinstance(value, Tensor) else None
    if parts is None or parts[2] != level:
        return value, None
    return parts[0], parts[1]


def apply_under_vmap(cls: Any, args: tuple[Any, ...]) -> Any:
    """Apply *cls* to arguments among which are tensors of the innermost vmap.

    Raises:
        RuntimeError: *cls* has no ``setup_context``, or nothing that says how it is batched.
    """
    if cls.setup_context is Function.setup_context:
        if not any(_has_batch(value) for value in tree_flatten(args)[0]):
            return _C._function_apply(_shared(cls), args)
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, "
            "jacrev, ...), it must override the setup_context staticmethod. For more details, "
            f"please see {_MORE}"
        )
    level = _C._vmap_level()
    recorded = shmtensor.is_grad_enabled()
    is_differentiated = any(
        parts[2] == level
        and ((recorded and value.requires_grad) or _C._has_tangents_inside(value, level))
        for value in tree_flatten(args)[0]
        if isinstance(value, Tensor) and (parts := batched_parts(value)) is not None
    )
    if is_differentiated:
        return _C._function_apply(_recorded(cls), args)
    return _batched(cls, args)


def _has_batch(value: Any) -> bool:
    parts = batched_parts(value) if isinstance(value, Tensor) else None
    return parts is not None and (parts[1] is not None or _has_batch(parts[0]))


def _shared(cls: Any) -> Any:
    """The same Function for tensors of a vmap that all examples share; tangents may differ."""
    if "_shared_form" not in cls.__dict__:
        cls._shared_form = type(cls.__name__, (cls,), {"_is_batched": True})
    return cls._shared_form


def _recorded(cls: Any) -> Any:
    """A Function for batched tensors that are differentiated: only forward goes below."""
    if "_recorded_form" in cls.__dict__:
        return cls._recorded_form

    def forward(*args: Any) -> Any:
        # What all examples share is a tensor of the vmap, too: there it is recorded.
        return tree_map_only(Tensor, _C._lift, _batched(cls, args))

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(cls.setup_context),
        "backward": staticmethod(cls._user_backward),
        "jvp": staticmethod(cls.jvp),
        "_is_batched": True,
    }
    cls._recorded_form = type(cls.__name__, (Function,), members)
    return cls._recorded_form


def _batched(cls: Any, args: tuple[Any, ...]) -> Any:
    """Apply *cls* below the innermost vmap, and wrap what comes back."""
    level = _C._vmap_level()
    batch_size, randomness = _C._vmap_facts(level)
    flat, spec = tree_flatten(args)
    pairs = [_at_level(value, level) for value in flat]
    values = tree_unflatten([value for value, _ in pairs], spec)
    dims = tree_unflatten([dim for _, dim in pairs], spec)

    def below() -> tuple[Any, Any]:
        if all(dim is None for _, dim in pairs):
            outputs = cls.apply(*values)
            return outputs, None
        if cls.generate_vmap_rule:
            if cls.vmap is not Function.vmap:
                raise RuntimeError(
                    f"You tried to vmap over {cls.__name__}, but it has both "
                    "generate_vmap_rule=True and an overridden vmap staticmethod. Please set "
                    "generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid "
                    f"ambiguity. For more details, please see {_MORE}"
                )
            return _generated(cls, values, dims, batch_size, randomness)
        if cls.vmap is Function.vmap:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
                "override and implement the vmap staticmethod or set generate_vmap_rule=True. For "
                f"more details, please see {_MORE}"
            )
        returned = cls.vmap(VmapInfo(batch_size, randomness), dims, *values)
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise RuntimeError(
                f"Expected the vmap staticmethod to have two returns, an output and out_dims with "
                f"pytree structure compatible with the output. Got {type(returned)} instead"
            )
        return returned

    outputs, out_dims = _C._call_below_level(level, below)
    flat_out, out_spec = tree_flatten(outputs)
    flat_dims = _broadcast_to_and_flatten(out_dims, out_spec)
    if flat_dims is None:
        raise RuntimeError(
            f"{cls.__name__}.vmap: out_dims {out_dims} do not fit outputs with the structure "
            f"{out_spec}"
        )
    wrapped = [
        value
        if dim is None or not isinstance(value, Tensor)
        else _C._add_batch_dim(value, dim, level)
        for value, dim in zip(flat_out, flat_dims, strict=True)
    ]
    return tree_unflatten(wrapped, out_spec)


class _Saved:
    """What a user's ``setup_context`` puts on its context, apart from the tensors' batches."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self._saved: tuple[Any, ...] = ()
        self._for_forward: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self._saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self._for_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._saved

    @property
    def needs_input_grad(self) -> Any:
        return self._ctx.needs_input_grad

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def _generated(
    cls: Any, values: tuple[Any, ...], dims: Any, batch_size: int, randomness: str
) -> tuple[Any, Any]:
    """Apply the vmap of *cls*, recorded as one Function below the level."""
    out_dims: Any = None

    def forward(*args: Any) -> Any:
        nonlocal out_dims
        outputs, out_dims = restore_vmap(cls.forward, dims, batch_size, randomness)(*args)
        return outputs

    def setup_context(ctx: Any, inputs: Any, outputs: Any) -> None:
        kept = _Saved(ctx)

        def inner(inputs: Any, outputs: Any) -> Any:
            cls.setup_context(kept, inputs, outputs)
            return kept._saved, kept._for_forward

        (saved, for_forward), (saved_dims, forward_dims) = restore_vmap(
            inner, (dims, out_dims), batch_size, randomness
        )(inputs, outputs)
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*for_forward)
        ctx._kept, ctx._saved_dims, ctx._forward_dims = kept, saved_dims, forward_dims
        kept._saved = kept._for_forward = ()

    def backward(ctx: Any, *grads: Any) -> Any:
        flat_dims = _out_dims_of_grads(grads, out_dims)

        def inner(saved: Any, *given: Any) -> Any:
            kept = ctx._kept
            kept._saved = saved
            found = cls._user_backward(kept, *given)
            kept._saved = ()
            return found if isinstance(found, tuple) else (found,)

        found, found_dims = restore_vmap(
            inner, (ctx._saved_dims, *flat_dims), batch_size, randomness
        )(ctx.saved_tensors, *grads)
        return tuple(
            _fit(grad, grad_dim, value, dim, batch_size)
            for grad, grad_dim, value, dim in zip(found, found_dims, values, dims, strict=True)
        )

    def jvp(ctx: Any, *tangents: Any) -> Any:
        def inner(saved: Any, *given: Any) -> Any:
            kept = ctx._kept
            kept._saved = saved
            found = cls.jvp(kept, *given)
            kept._saved = ()
            return found

        given_dims = tuple(
            None if tangent is None else dim for tangent, dim in zip(tangents, dims, strict=True)
        )
        found, found_dims = restore_vmap(
            inner, (ctx._forward_dims, *given_dims), batch_size, randomness
        )(ctx.saved_tensors, *tangents)
        several = isinstance(found, tuple)
        flat = found if several else (found,)
        flat_dims = found_dims if several else (found_dims,)
        fitted = tuple(
            _fit_tangent(tangent, tangent_dim, dim, batch_size)
            for tangent, tangent_dim, dim in zip(
                flat, flat_dims, _out_dims_of_grads(flat, out_dims), strict=True
            )
        )
        return fitted if several else fitted[0]

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "jvp": staticmethod(jvp),
        "generate_vmap_rule": True,
    }
    made = type(f"Vmapped{cls.__name__}", (Function,), members)
    outputs = made.apply(*values)  # type: ignore[attr-defined]
    return outputs, out_dims


def _out_dims_of_grads(grads: tuple[Any, ...], out_dims: Any) -> tuple[Any, ...]:
    flat = tree_flatten(out_dims, is_leaf=lambda x: x is None)[0]
    return tuple(flat) if len(flat) == len(grads) else (flat[0],) * len(grads)


def _fit(grad: Any, grad_dim: int | None, value: Any, dim: int | None, batch_size: int) -> Any:
    """The gradient of an argument, with the batch where the argument has its own, or summed."""
    if not isinstance(grad, Tensor) or not isinstance(value, Tensor):
        return None
    if dim is None:
        return grad if grad_dim is None else grad.sum(grad_dim)
    return _with_batch(grad, grad_dim, dim, batch_size)


def _fit_tangent(tangent: Any, tangent_dim: int | None, dim: int | None, batch_size: int) -> Any:
    """The tangent of an output, with the batch where the output has its own."""
    if not isinstance(tangent, Tensor) or (dim is None and tangent_dim is None):
        return tangent
    if dim is None:
        raise RuntimeError(
            "jvp: a tangent differs from example to example, and its output does not"
        )
    return _with_batch(tangent, tangent_dim, dim, batch_size)


def _with_batch(value: Tensor, value_dim: int | None, dim: int, batch_size: int) -> Tensor:
    if value_dim is not None:
        return value.movedim(value_dim, dim)
    sizes = list(value.shape)
    sizes.insert(dim, batch_size)
    return value.unsqueeze(dim).expand(sizes)
