"""Checkpoints without reentrance: holders stand for saved tensors until backward asks for one.

A frame belongs to one call. What the function saves is packed into empty holders. The first holder
that backward unpacks has the function run again, with hooks that put into every holder what is
saved this time. Another run of the engine computes it again.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._tensor import Tensor
from shmtensor.autograd.forward_ad import in_dual_level
from shmtensor.autograd.function import Function
from shmtensor.autograd.graph import saved_tensors_hooks
from shmtensor.utils._checkpoint.debug import OperatorLog, story
from shmtensor.utils._checkpoint.state import AmbientState, CheckpointError, Contexts, Settings

__all__ = ["DETERMINISM_CHECKS", "Frame", "GraphExecGroup", "checkpoint_with_hooks"]

_TIP = (
    "\n\nTip: `debug=True` in `torch.utils.checkpoint.checkpoint(...)`, or the context\n"
    "`torch.utils.checkpoint.set_checkpoint_debug_enabled(True)` around it, shows which\n"
    "operators ran in both.\n"
)


class _Enough(Exception):
    """Stops a repeated run when everything that backward needs was computed."""


def _metadata(tensor: Tensor) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


DETERMINISM_CHECKS: dict[str, Callable[[Tensor], Any]] = {
    "default": _metadata,
    "none": lambda tensor: None,
}


class GraphExecGroup:
    """Backward calls inside have checkpointed parts run again at most once, all of them together.

    They must need different parts of the graph: a saved tensor is there for one of them only.

    Source:
        torch.utils.checkpoint.GraphExecGroup.
    """

    _thread = threading.local()

    def __enter__(self) -> GraphExecGroup:
        if self._get_current_group() is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested")
        self._thread.group = self
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.group = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        return getattr(cls._thread, "group", None)


class _Holder:
    """A placeholder in the graph for a tensor that is computed on request."""

    __slots__ = ("__weakref__", "metadata", "run", "value")

    def __init__(self, metadata: Any) -> None:
        self.metadata = metadata
        self.run: Any = None  # the run of the engine for which the value was computed
        self.value: Tensor | None = None


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

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return None  # the function itself is followed; nothing depends on what is kept


def _as_argument(tensor: Tensor, requires_grad: bool) -> Tensor:
    """The same elements and tangents without history, as an argument of the repeated run."""
    fresh: Tensor = _C._without_history(tensor)
    fresh.requires_grad = requires_grad
    return fresh


def _run_of_engine() -> Any:
    """What tells this run of the engine, or group of runs, from others."""
    group = GraphExecGroup._get_current_group()
    return _C._backward_number() if group is None else group


class Frame:
    """One call of `checkpoint`: how to repeat it, and the holders of what it saved.

    Args:
        run: Repeats the function.
        args: Its arguments.
        kwargs: Its keyword arguments.
        metadata: What of a saved tensor must be the same again.
        early_stop: End the repeated run when all is there.
        log: Where the repeated run tells its operators; None: nowhere.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        metadata: Callable[[Tensor], Any],
        early_stop: bool,
        log: OperatorLog | None,
    ) -> None:
        self.run = run
        self.metadata = metadata
        self.early_stop = early_stop
        self.log = log
        self.holders: list[weakref.ref[_Holder]] = []
        self._lock = free_in_child(
            threading.RLock()
        )  # of values; several threads may run the engine
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
        """Let a holder stand for what is saved."""
        holder = _Holder(self.metadata(tensor))
        self.holders.append(weakref.ref(holder))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        """Give what it stands for, from the last repeated run if that was for this backward.

        A node that is freed by its backward frees its holders, and with them the values.
        """
        run = _run_of_engine()
        with self._lock:
            if holder.value is None or holder.run != run or not run:
                self._repeat(run)
            if holder.value is None or holder.run != run:
                raise CheckpointError(
                    "torch.utils.checkpoint: Unpack is being triggered for a tensor that was "
                    "never recomputed."
                )
            return holder.value

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        tensors = iter(self._node.saved_tensors)
        flat = [
            _as_argument(next(tensors), x.requires_grad) if isinstance(x, _Place) else x
            for x in self._others
        ]
        n = len(flat) - len(self._names)
        return flat[:n], dict(zip(self._names, flat[n:], strict=True))

    def _repeat(self, run: Any) -> None:
        again: list[Any] = []  # metadata of what is saved this time
        # A result that is saved gets its tangent only when its operator is done.
        may_stop = self.early_stop and not (in_dual_level() or _C._level_count())

        def fill(tensor: Tensor) -> Tensor:
            i = len(again)
            again.append(self.metadata(tensor))
            if i >= len(self.holders):
                if self.early_stop:
                    return tensor
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation "
                    f"than during the original forward pass.{_TIP}"
                )
            holder = self.holders[i]()
            if holder is not None:
                holder.run = run
                holder.value = _C._without_history(tensor) if tensor.requires_grad else tensor
            if may_stop and i + 1 == len(self.holders):
                raise _Enough
            return tensor

        args, kwargs = self._arguments()
        with (
            contextlib.suppress(_Enough),
            shmtensor.enable_grad(),
            saved_tensors_hooks(fill, lambda tensor: tensor),
        ):
            self.run(*args, **kwargs)
        self._check(again)

    def _check(self, again: list[Any]) -> None:
        if len(again) != len(self.holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {len(again)}.{_TIP}"
            )
        wrong = ""
        for i, (reference, now) in enumerate(zip(self.holders, again, strict=True)):
            holder = reference()
            if holder is not None and holder.metadata != now:
                wrong += (
                    f"tensor at position {i}:\nsaved metadata: {holder.metadata}\n"
                    f"recomputed metadata: {now}\n"
                )
        if wrong:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                f"different metadata than during the forward pass.\n{wrong}.{_TIP}"
            )


def _unpack_with_story(frame: Frame, before: OperatorLog, holder: _Holder) -> Tensor:
    try:
        return frame.unpack(holder)
    except CheckpointError as error:
        assert frame.log is not None
        raise CheckpointError(story(before, frame.log)) from error


def checkpoint_with_hooks(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    preserve_rng: bool,
    context_fn: Callable[[], Contexts],
    determinism_check: str,
    early_stop: bool,
    debug: bool,
) -> Any:
    """Run *function* now, so that backward runs it again; see `checkpoint`."""
    if not shmtensor.is_grad_enabled():
        with context_fn()[0]:
            return function(*args, **kwargs)
    debug = debug if Settings.debug is None else Settings.debug
    early_stop = early_stop if Settings.early_stop is None else Settings.early_stop
    first, again = context_fn()
    before, after = (OperatorLog(), OperatorLog()) if debug else (None, None)
    state = AmbientState(preserve_rng)

    def repeat(*args: Any, **kwargs: Any) -> None:
        with state.again(), after.fresh() if after else contextlib.nullcontext(), again:
            function(*args, **kwargs)

    frame = Frame(
        repeat,
        args,
        kwargs,
        metadata=DETERMINISM_CHECKS[determinism_check],
        early_stop=early_stop,
        log=after,
    )
    if before is None:
        with saved_tensors_hooks(frame.pack, frame.unpack), first:
            return function(*args, **kwargs)

    def unpack(holder: _Holder) -> Tensor:
        return _unpack_with_story(frame, before, holder)

    with saved_tensors_hooks(frame.pack, unpack), before.fresh(), first:
        return function(*args, **kwargs)
