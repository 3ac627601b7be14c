"""Activation checkpointing: backward computes a part of the model again, to save memory.

`checkpoint` runs a function without keeping the tensors that its operations save. Without
reentrance, the saved tensors are packed into empty holders. When backward unpacks the first of
them, the function runs again, with hooks that fill every holder. With reentrance, the function runs
without a graph, and again with one inside backward.

Source: torch.utils.checkpoint.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import shmtensor
from shmtensor import _C, autograd
from shmtensor._core._tensor import Tensor
from shmtensor.autograd.function import Function
from shmtensor.utils._checkpoint.frames import (
    DETERMINISM_CHECKS,
    GraphExecGroup,
    checkpoint_with_hooks,
)
from shmtensor.utils._checkpoint.selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from shmtensor.utils._checkpoint.state import (
    AmbientState,
    CheckpointError,
    Contexts,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


# --- with reentrance -----------------------------------------------------------------------------


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs with tensors detached, which require grad where they did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn when no input requires grad, so that none gets a gradient."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


class CheckpointFunction(Function):
    """The reentrant variant: runs the function without a graph, and with one inside backward."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        """Run the function, and save only its tensor arguments."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.state = AmbientState(preserve)
        ctx.inputs = [None if isinstance(x, Tensor) else x for x in args]
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*(x for x in args if isinstance(x, Tensor)))
        with shmtensor.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run it again with a graph, and run backward through that."""
        if _C._backward_has_inputs():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        inputs = list(ctx.inputs)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = tensor
        own = detach_variable(tuple(inputs))
        with ctx.state.again(), shmtensor.enable_grad():
            outputs = ctx.run_function(*own)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [
            (y, g)
            for y, g in zip(outputs, grads, strict=True)
            if isinstance(y, Tensor) and y.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        autograd.backward([y for y, _ in pairs], [g for _, g in pairs])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in own))


# --- random numbers of devices -------------------------------------------------------------------


class DefaultDeviceType:
    """The type of devices with random numbers that count if no tensor tells it.

    There are none but the CPU, whose numbers always count.

    Source:
        torch.utils.checkpoint.DefaultDeviceType.
    """

    _default_device_type = "cpu"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set the type of the default device."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the type."""
        return DefaultDeviceType._default_device_type


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the arguments' devices and the states of their generators: none but the CPU's."""
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Set the states that `get_device_states` returned."""
    if devices:
        raise RuntimeError(f"set_device_states(): there are no devices {list(devices)}")


# --- the functions -------------------------------------------------------------------------------


def _reentrance(use_reentrant: bool | None, name: str) -> bool:
    if use_reentrant is None:
        warnings.warn(
            f"{name}: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended; without the parameter it is True.",
            stacklevel=3,
        )
        return True
    return use_reentrant


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call *function* without saving tensors for its derivatives; backward runs it again.

    Args:
        function: Must compute the same each time.
        *args: Its arguments.
        use_reentrant: Run backward inside backward. That works only with ``backward()``. It needs
            an argument that requires grad, and tensors must be arguments or results themselves, not
            inside containers. Without it, everything works that autograd supports. Autocast is in
            both runs as it was.
        context_fn: Returns two contexts, for the first run and for the repeated one.
        determinism_check: ``"default"`` compares shapes, dtypes and devices of the tensors saved in
            both runs; ``"none"`` does not.
        debug: Errors tell which operators ran in both runs, and where they were called.
        early_stop: Stop the repeated run when everything needed was computed.
        **kwargs: Further arguments of the function, without reentrance; and
            ``preserve_rng_state=True``: the repeated run draws the same random numbers.

    Returns:
        What the function returns.

    Raises:
        CheckpointError: In backward: the repeated run saved other tensors.
        ValueError: An argument is not allowed with reentrance.

    Source:
        torch.utils.checkpoint.checkpoint; Chen et al., "Training deep nets with sublinear memory
        cost", 2016.
    """
    use_reentrant = _reentrance(use_reentrant, "torch.utils.checkpoint")
    preserve = bool(kwargs.pop("preserve_rng_state", True))
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in DETERMINISM_CHECKS:
        raise ValueError(
            f"determinism_check should be one of {list(DETERMINISM_CHECKS)}, but got "
            f"{determinism_check}"
        )
    return checkpoint_with_hooks(
        function,
        args,
        kwargs,
        preserve_rng=preserve,
        context_fn=context_fn,
        determinism_check=determinism_check,
        early_stop=early_stop,
        debug=debug,
    )


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run functions one after the other in segments, and checkpoint all but the last segment.

    Args:
        functions: A ``Sequential`` or a list of functions.
        segments: Number of segments.
        input: Argument of the first function.
        use_reentrant: As in `checkpoint`.
        **kwargs: ``preserve_rng_state``, as in `checkpoint`.

    Raises:
        ValueError: There is another keyword argument.

    Source:
        torch.utils.checkpoint.checkpoint_sequential.
    """
    use_reentrant = _reentrance(use_reentrant, "torch.utils.checkpoint.checkpoint_sequential")
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    listed = list(functions.children() if hasattr(functions, "children") else functions)

    def runs(part: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for function in part:
                value = function(value)
            return value

        return run

    length = len(listed) // segments
    for start in range(0, length * (segments - 1), length):
        input = checkpoint(
            runs(listed[start : start + length]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return runs(listed[length * (segments - 1) :])(input)
