"""Activation checkpointing: backward computes a part of the model again, to save memory.

`checkpoint` runs a function without keeping the tensors that its operations save. Without
reentrance, the saved tensors are packed into empty holders. When backward unpacks the first of
them, the function runs again, with hooks that fill every holder. With reentrance, the function runs
without a graph, and again with one inside backward.

Source: torch.utils.checkpoint.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import shmtensor
from shmtensor import autograd
from shmtensor._tensor import Tensor
from shmtensor.autograd.function import Function
from shmtensor.autograd.graph import saved_tensors_hooks

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class CheckpointError(RuntimeError):
    """The function saved other tensors when it ran again."""


class _Settings:
    early_stop: bool | None = None  # None: as each call says
    debug: bool | None = None


class _Enough(Exception):
    """Stops a repeated run when everything that backward needs was computed."""


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Set for all calls whether repeated runs stop when all saved tensors were computed."""
    before, _Settings.early_stop = _Settings.early_stop, enable
    try:
        yield
    finally:
        _Settings.early_stop = before


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Set for all calls whether errors name the shapes of all saved tensors."""
    before, _Settings.debug = _Settings.debug, enabled
    try:
        yield
    finally:
        _Settings.debug = before


def noop_context_fn() -> Contexts:
    """Return two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextmanager
def _random_state(state: Tensor | None) -> Iterator[None]:
    """Draw random numbers from *state* on inside the context."""
    if state is None:
        yield
        return
    before = shmtensor.get_rng_state()
    shmtensor.set_rng_state(state)
    try:
        yield
    finally:
        shmtensor.set_rng_state(before)


# --- without reentrance --------------------------------------------------------------------------


class _Holder:
    """A placeholder in the graph for a tensor that is computed on request."""

    __slots__ = ("__weakref__", "kind", "value")

    def __init__(self, kind: tuple[Any, ...]) -> None:
        self.kind = kind
        self.value: Tensor | None = None


def _kind(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype, tensor.device


class _Place:
    """A placeholder for a tensor among the arguments."""

    def __init__(self, requires_grad: bool) -> None:
        self.requires_grad = requires_grad


class _Kept(Function):
    """Saves the function's tensors like an operation, so that surrounding hooks see them."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, nodes: list[Any], *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        nodes.append(ctx)
        return anchor.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("checkpoint(): no gradient flows to the kept arguments")


class _Frame:
    """One call of `checkpoint`: how to repeat it, and the holders of what it saved."""

    def __init__(
        self, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.run = run
        self.holders: list[weakref.ref[_Holder]] = []
        self.checks = True
        self.early_stop = True
        self.debug = False
        flat = (*args, *kwargs.values())
        # Of tensors, whether they require grad; they themselves are kept by the node.
        self._others = [_Place(x.requires_grad) if isinstance(x, Tensor) else x for x in flat]
        self._names = tuple(kwargs)
        nodes: list[Any] = []
        tensors = [value for value in flat if isinstance(value, Tensor)]
        with shmtensor.enable_grad():
            anchor = shmtensor.empty(0, requires_grad=True)
            self._owner = _Kept.apply(anchor, nodes, *tensors)  # frees what was saved when it goes
        self._node = nodes[0]

    def pack(self, tensor: Tensor) -> _Holder:
        holder = _Holder(_kind(tensor))
        self.holders.append(weakref.ref(holder))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        if holder.value is None:
            self._repeat()
        value, holder.value = holder.value, None
        if value is None:
            raise CheckpointError("checkpoint(): a saved tensor was not computed again")
        return value

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        tensors = iter(self._node.saved_tensors)
        flat = [
            next(tensors).detach().requires_grad_(x.requires_grad) if isinstance(x, _Place) else x
            for x in self._others
        ]
        n = len(flat) - len(self._names)
        return flat[:n], dict(zip(self._names, flat[n:], strict=True))

    def _repeat(self) -> None:
        kinds: list[tuple[Any, ...]] = []
        wrong: list[str] = []

        def fill(tensor: Tensor) -> Tensor:
            i = len(kinds)
            kinds.append(_kind(tensor))
            if i >= len(self.holders):
                if self.early_stop:
                    return tensor
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation "
                    f"than during the original forward pass.\n{self._hint(kinds)}"
                )
            holder = self.holders[i]()
            if holder is not None:
                if self.checks and holder.kind != kinds[i]:
                    wrong.append(f"tensor at position {i}: {holder.kind} before, {kinds[i]} now")
                holder.value = tensor.detach()
            if self.early_stop and i + 1 == len(self.holders):
                raise _Enough
            return tensor

        args, kwargs = self._arguments()
        with (
            contextlib.suppress(_Enough),
            shmtensor.enable_grad(),
            saved_tensors_hooks(fill, lambda tensor: tensor),
        ):
            self.run(*args, **kwargs)
        if len(kinds) != len(self.holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {len(kinds)}.\n{self._hint(kinds)}"
            )
        if wrong:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                "different metadata than during the forward pass.\n"
                + "\n".join(wrong)
                + f"\n{self._hint(kinds)}"
            )

    def _hint(self, kinds: list[tuple[Any, ...]]) -> str:
        if not (self.debug if _Settings.debug is None else _Settings.debug):
            return "debug=True shows what was saved."
        before = [h.kind if (h := ref()) else None for ref in self.holders]
        return f"Saved before: {before}\nSaved now: {kinds}"


def _checkpoint_with_hooks(
    function: Callable[..., Any],
    preserve: bool,
    context_fn: Callable[[], Contexts],
    frame_options: dict[str, bool],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    first, again = context_fn()
    state = shmtensor.get_rng_state() if preserve else None

    def repeat(*args: Any, **kwargs: Any) -> None:
        with _random_state(state), again:
            function(*args, **kwargs)

    if not shmtensor.is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    frame = _Frame(repeat, args, kwargs)
    for name, value in frame_options.items():
        setattr(frame, name, value)
    with saved_tensors_hooks(frame.pack, frame.unpack), first:
        return function(*args, **kwargs)


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


def check_backward_validity(inputs: Sequence[Any]) -> None:
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
        ctx.state = shmtensor.get_rng_state() if preserve else None
        ctx.inputs = [None if isinstance(x, Tensor) else x for x in args]
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*(x for x in args if isinstance(x, Tensor)))
        with shmtensor.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run it again with a graph, and run backward through that."""
        inputs = list(ctx.inputs)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = tensor
        own = detach_variable(tuple(inputs))
        with _random_state(ctx.state), shmtensor.enable_grad():
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


# --- the functions -------------------------------------------------------------------------------


def _reentrance(use_reentrant: bool | None, name: str) -> bool:
    if use_reentrant is None:
        warnings.warn(
            f"utils.checkpoint.{name}: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended; use_reentrant=True is the default so far.",
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
            inside containers. Without it, everything works that autograd supports.
        context_fn: Returns two contexts, for the first run and for the repeated one.
        determinism_check: ``"default"`` compares shapes, dtypes and devices of the tensors saved in
            both runs; ``"none"`` does not.
        debug: Name these in errors.
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
    use_reentrant = _reentrance(use_reentrant, "checkpoint")
    preserve = bool(kwargs.pop("preserve_rng_state", True))
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'] but got {determinism_check}"
        )
    stops = early_stop if _Settings.early_stop is None else _Settings.early_stop
    options = {"checks": determinism_check == "default", "early_stop": stops, "debug": debug}
    return _checkpoint_with_hooks(function, preserve, context_fn, options, args, kwargs)


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
    use_reentrant = _reentrance(use_reentrant, "checkpoint_sequential")
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
    for start in range(0, length * (segments - 1), length or 1):
        input = checkpoint(
            runs(listed[start : start + length]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return runs(listed[length * (segments - 1) :])(input)
