"""The graph as objects: nodes, edges, hooks on saved tensors."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from shmtensor import _C
from shmtensor._core._fork_locks import free_in_child

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]

Node = _C.Node


class GradientEdge(NamedTuple):
    """Where a tensor's gradient goes: a node and the number of its input.

    It stands for the tensor in ``autograd.backward`` and ``autograd.grad``, as one of the tensors
    that are differentiated and as one of the inputs.

    Attributes:
        node: Of the graph.
        output_nr: Which of its inputs, that is which output of the forward function.
        ownership_token: Kept for compatibility. Here a node alone keeps its part of the graph.

    Source:
        torch.autograd.graph.GradientEdge.
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Return the edge that the gradient of *tensor* takes.

    Args:
        tensor: Requires grad.

    Raises:
        RuntimeError: *tensor* does not require grad.

    Source:
        torch.autograd.graph.get_gradient_edge.
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    if tensor.grad_fn is not None:
        return GradientEdge(tensor.grad_fn, tensor.output_nr)
    with _C_enable_grad():
        return GradientEdge(tensor.view_as(tensor).grad_fn.next_functions[0][0], tensor.output_nr)


def increment_version(tensor: Any) -> None:
    """Say that *tensor* was changed in place by code that autograd did not see.

    Args:
        tensor: A tensor, or an iterable of tensors.

    Source:
        torch.autograd.graph.increment_version.
    """
    for each in (tensor,) if isinstance(tensor, _C._TensorBase) else tensor:
        _C._increment_version(each)


class _C_enable_grad:
    def __enter__(self) -> None:
        self._before = _C._set_grad_enabled(True)

    def __exit__(self, *exc: object) -> None:
        _C._set_grad_enabled(self._before)


class _Switches:
    """What the two functions below set. There are no streams whose mismatch could matter."""

    warn_on_stream_mismatch = True
    override_stale_stream = False


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accept torch's switch: on a CPU all gradients are accumulated in one place.

    Args:
        enabled: Whether to warn of a stream that is not the one that made the gradient.

    Source:
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch.
    """
    _Switches.warn_on_stream_mismatch = bool(enabled)


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Accept torch's switch: there are no graph captures on a CPU.

    Args:
        enabled: Whether a stream that is not captured is replaced.

    Source:
        torch.autograd.graph.set_override_stale_capture_stream.
    """
    _Switches.override_stale_stream = bool(enabled)


@contextlib.contextmanager
def region_activation_memory_budget(budget: float) -> Iterator[None]:
    """Refuse, as torch does outside of a compiled function: there is no compiler here.

    Args:
        budget: A number from 0 to 1.

    Raises:
        TypeError: *budget* is not a number.
        ValueError: It is out of range.
        RuntimeError: Always, otherwise.

    Source:
        torch.autograd.graph.region_activation_memory_budget.
    """
    name = "torch.autograd.graph.region_activation_memory_budget"
    if not isinstance(budget, (int, float)):
        raise TypeError(f"{name}: expects a float, got {type(budget).__name__}")
    if not 0 <= budget <= 1:
        raise ValueError(f"{name}: must be in [0, 1], got {budget}")
    raise RuntimeError(
        f"{name} can only be used inside a torch.compile region; it has no effect in eager mode."
    )
    yield


class _Disabled(threading.local):
    """Why this thread may not begin to pack saved tensors; None: it may."""

    message: str | None = None
    depth = 0  # contexts of saved_tensors_hooks around


_disabled = _Disabled()


class saved_tensors_hooks:
    """Pack what operations save for backward with the user's own functions, inside the context.

    Args:
        pack_hook: Takes a tensor, returns anything.
        unpack_hook: Takes that, returns the tensor.

    Source:
        torch.autograd.graph.saved_tensors_hooks.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if _disabled.message is not None:
            raise RuntimeError(_disabled.message)
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)
        _disabled.depth += 1

    def __exit__(self, *exc: object) -> None:
        _C._pop_saved_tensors_hooks()
        _disabled.depth -= 1


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Let nobody begin to pack saved tensors inside the context, on this thread.

    Args:
        error_message: What `saved_tensors_hooks` then raises.

    Raises:
        RuntimeError: With that message, when they are packed around the context already.

    Source:
        torch.autograd.graph.disable_saved_tensors_hooks.
    """
    if _disabled.depth > 0:
        raise RuntimeError(error_message)
    before, _disabled.message = _disabled.message, error_message
    try:
        yield
    finally:
        _disabled.message = before


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors as copies, apart from the tensors the program works with.

    Args:
        pin_memory: Without effect on the CPU.

    Source:
        torch.autograd.graph.save_on_cpu.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: tensor.detach().clone(), lambda packed: packed)


class _MultiHandle:
    """Removes several hooks together."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take the hooks back."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


_RUNS_KEPT = 64  # more than threads that run the engine at the same time


class _GradsOfRun:
    """What one run of the engine has brought to the tensors of a multi-grad hook."""

    def __init__(self, grads: list[Any], missing: int) -> None:
        self.grads = grads
        self.missing = missing


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., None], *, mode: str = "all"
) -> _MultiHandle:
    """Call *fn* when the gradients of several tensors are known.

    Args:
        tensors: Require grad.
        fn: In each run of the engine, with mode ``"all"`` gets the sequence of gradients once all
            that this run brings are known, None for the others; with ``"any"`` the first one.
        mode: ``"all"`` or ``"any"``.

    Returns:
        A handle with ``remove()``.

    Raises:
        ValueError: *mode* is another word.
        AssertionError: A tensor does not require grad.

    Source:
        torch.autograd.graph.register_multi_grad_hook.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    assert all(t.requires_grad for t in tensors), "Expected gradient function to be set"
    nodes = [_C._node_address(get_gradient_edge(t).node) for t in tensors]
    lock = free_in_child(threading.Lock())
    runs: dict[int, _GradsOfRun] = {}  # several threads may run the engine at once
    # A hook goes with its node, even where its handle stays, so a hook that is gone says that the
    # address is stale or no longer waited for. To keep the nodes here would be a cycle that
    # nothing collects.
    hooks: list[weakref.ref[Any]] = []

    def hook_for(index: int) -> Callable[[Any], None]:
        def hook(grad: Any) -> None:
            number = _C._backward_number()
            with lock:
                run = runs.get(number)
                first = run is None
                if run is None:
                    waited_for = [a for a, h in zip(nodes, hooks, strict=True) if h() is not None]
                    run = _GradsOfRun([None] * len(nodes), sum(_C._backward_reaches(*waited_for)))
                    runs[number] = run
                    for old in list(runs)[:-_RUNS_KEPT]:  # they ended long ago
                        del runs[old]
                run.grads[index] = grad
                run.missing -= 1
                last = run.missing == 0
            if mode == "any" and first:
                fn(grad)
            elif mode == "all" and last:
                fn(run.grads)

        hooks.append(weakref.ref(hook))
        return hook

    return _MultiHandle([t.register_hook(hook_for(i)) for i, t in enumerate(tensors)])


from shmtensor.autograd._mutation import (  # noqa: E402 - it needs the hooks above
    allow_mutation_on_saved_tensors as allow_mutation_on_saved_tensors,
)
