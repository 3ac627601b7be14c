"""Backward hooks around one call of a module.

All tensors on one side of the call go through one node of the graph, which changes nothing::

    args -> BackwardHookFunction -> forward -> BackwardHookFunction -> result
            goes out: grad_input               comes in: grad_output

In a backward the node behind the call runs first. A hook before it shows ``grad_output`` to the
pre-hooks of the module, and keeps what they make of it; a hook after the node before the call shows
both gradients to the hooks of the module. As the engine runs a node when all its gradients are
there, each hook is called once in a backward, whichever of the tensors it reaches; and what a hook
returns is what goes on.

Note [Gradients past the output]
A gradient can reach the arguments without having come through the result: a backward from within
``forward``, or a second backward over a graph that the first one recorded. There is no grad_output
then, so that the hooks are not called. What is kept is of one run of the engine: a run that had
stopped between the two nodes leaves nothing for the next one.

Source:
    torch.nn.Module.register_full_backward_hook.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.autograd.function import Function

__all__ = ["BackwardHookFunction", "CallWithBackwardHooks"]

Grads = Sequence[Any]


class BackwardHookFunction(Function):
    """Give back what it gets: a node that tensors have in common."""

    _is_batched = True  # under vmap, too, the node is one of the tensors that the module is given

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors."""
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Return the gradients."""
        return grads

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        """Return the tangents, which are views, as the tensors are."""
        return tuple(t if t is None else t.view_as(t) for t in tangents)


def _through_node(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int], Any]:
    """Put the tensors among *values* through one node.

    Returns:
        The values, the places of the tensors, and the node; None when none of them needs a
        gradient, and the values are as they were.
    """
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    if not (_C.is_grad_enabled() and any(values[i].requires_grad for i in places)):
        return values, [], None
    passed = BackwardHookFunction.apply(*(values[i] for i in places))
    made = list(values)
    for i, tensor in zip(places, passed, strict=True):
        made[i] = tensor
    node = next(tensor.grad_fn for tensor in passed if tensor.requires_grad)
    kind = type(values)
    return kind(*made) if hasattr(values, "_fields") else kind(made), places, node


def _spread(grads: Grads, places: list[int], n: int) -> tuple[Any, ...]:
    """Gradients of tensors at *places* as those of *n* values."""
    spread = [None] * n
    for i, grad in zip(places, grads, strict=True):
        spread[i] = grad
    return tuple(spread)


class CallWithBackwardHooks:
    """The two nodes around one call, and what their hooks share.

    Args:
        module: The module that is called.
        pre_hooks: ``hook(module, grad_output)``, which may return another grad_output.
        hooks: ``hook(module, grad_input, grad_output)``, which may return another grad_input.
    """

    def __init__(
        self,
        module: Any,
        pre_hooks: list[Callable[..., Any]],
        hooks: list[Callable[..., Any]],
    ) -> None:
        self._module = module
        self._pre_hooks = pre_hooks
        self._hooks = hooks
        self._n_args = 0
        self._has_input_node = False
        self._grad_output: Grads | None = None
        self._run = 0  # the run of the engine that _grad_output is of

    def args(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments for ``forward``."""
        self._n_args = len(args)
        args, places, node = _through_node(args)
        if node is None:
            return args
        self._has_input_node = True

        def hook(grads: Grads, _: Grads) -> Grads | None:
            grad_output, self._grad_output = self._grad_output, None
            if grad_output is None or self._run != _C._backward_number():
                return None  # see Note [Gradients past the output]
            grad_input = self._call_hooks(_spread(grads, places, self._n_args), grad_output)
            return tuple(grad_input[i] for i in places)

        node.register_hook(hook)
        return args

    def result(self, result: Any) -> Any:
        """Return the result for the caller of the module."""
        if not isinstance(result, Tensor | tuple):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}",
                stacklevel=5,
            )
            return result
        results, places, node = _through_node((result,) if isinstance(result, Tensor) else result)
        if node is None:
            return result
        n = len(results)

        def hook(grads: Grads) -> Grads:
            grad_output = self._call_pre_hooks(_spread(grads, places, n))
            if self._has_input_node:
                self._grad_output, self._run = grad_output, _C._backward_number()
            else:
                self._call_hooks_without_inputs(grad_output)
            return tuple(grad_output[i] for i in places)

        node.register_prehook(hook)
        return results[0] if isinstance(result, Tensor) else results

    def _call_pre_hooks(self, grad_output: Grads) -> Grads:
        for hook in self._pre_hooks:
            changed = hook(self._module, grad_output)
            if changed is None:
                continue
            if len(changed) != len(grad_output):
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, "
                    f"got {len(changed)}, but expected {len(grad_output)}"
                )
            grad_output = changed
        return grad_output

    def _call_hooks(self, grad_input: Grads, grad_output: Grads) -> Grads:
        for hook in self._hooks:
            changed = hook(self._module, grad_input, grad_output)
            if changed is None:
                continue
            if len(changed) != len(grad_input):
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, "
                    f"got {len(changed)}, but expected {len(grad_input)}"
                )
            grad_input = changed
        return grad_input

    def _call_hooks_without_inputs(self, grad_output: Grads) -> None:
        """Call the hooks of a call whose arguments need no gradients.

        Raises:
            RuntimeError: A hook returned a gradient.
        """
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients. See "
            "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details.",
            stacklevel=3,
        )
        for hook in self._hooks:
            changed = hook(self._module, (None,) * self._n_args, grad_output)
            if changed is None or (isinstance(changed, tuple) and not any(map(_is_given, changed))):
                continue
            raise RuntimeError(
                "Backward hook for Modules where no input requires gradient should always return "
                "None or None for all gradients."
            )


def _is_given(grad: Any) -> bool:
    return grad is not None
