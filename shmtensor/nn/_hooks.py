"""Module hooks: registering them, and a call that runs them.

Order of one call with hooks::

    forward pre-hooks -> inputs become views -> forward -> forward hooks -> outputs become views

`register_backward_hook`, which is older, listens at the node that made the output instead.

The views are where backward hooks listen: the gradient of an output view is what arrives from
outside, the gradient of an input view is what this call alone contributes, even when the input
is used elsewhere too.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.nn import _global_hooks as all_modules
from shmtensor.utils.hooks import RemovableHandle, add_hook

Grads = tuple[Any, ...]


class HookMixin:
    """Registration of hooks and the slow path of ``Module.__call__``."""

    #: An old mark of classes whose sources are compared. Nothing reads it.
    dump_patches: bool = False

    forward: Callable[..., Any]
    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: dict[int, bool]
    _backward_hooks: OrderedDict[int, Callable[..., Any]]
    _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    #: Which kind `_backward_hooks` are; None before the first one.
    _is_full_backward_hook: bool | None = None

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args[, kwargs])`` before every ``forward``.

        What the hook returns, unless ``None``, replaces the arguments.
        """
        handle = add_hook(self._forward_pre_hooks, hook, prepend=prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args[, kwargs], output)`` after every ``forward``.

        What the hook returns, unless ``None``, replaces the output. With *always_call* it also
        runs when ``forward`` or another hook raises; the output is ``None`` then.
        """
        handle = add_hook(self._forward_hooks, hook, prepend=prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradients of the output are there.

        What it returns, unless ``None``, replaces ``grad_output``.
        """
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the inputs' gradients are there.

        What it returns, unless ``None``, replaces ``grad_input``; a call with several tensors
        that require grad can be watched, not changed.

        Raises:
            RuntimeError: There are hooks of `register_backward_hook`.
        """
        self._choose_backward_hooks(full=True)
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` at the node that made the output.

        Deprecated: when ``forward`` records several nodes, the gradients are those of the last one
        only; use `register_full_backward_hook`. What the hook returns, unless ``None``, replaces
        ``grad_input``.

        Raises:
            RuntimeError: There are hooks of `register_full_backward_hook`.
        """
        self._choose_backward_hooks(full=False)
        return add_hook(self._backward_hooks, hook)

    def _choose_backward_hooks(self, *, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        self._is_full_backward_hook = full

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Do as a call of the module: programs override or wrap it by this name."""
        has_own = self._forward_hooks or self._forward_pre_hooks or self._backward_hooks
        if has_own or self._backward_pre_hooks or all_modules.are_any():
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    _wrapped_call_impl = _call_impl

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Accept what `shmtensor.compile` accepts; the module runs as it is."""
        from shmtensor._torch.compiler import compile

        compile(self, *args, **kwargs)  # type: ignore[call-overload]

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        try:
            return self._run_hooks(args, kwargs, called)
        except Exception:
            for key, hook in [*all_modules.forward.items()]:
                if key in all_modules.forward_always_called and key not in called:
                    self._run_global_hook(key, hook, args, kwargs, None)
            for key in [*self._forward_hooks_always_called]:
                if key in self._forward_hooks and key not in called:
                    self._run_forward_hook(key, args, kwargs, None)
            raise

    def _run_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> Any:
        for hook in [*all_modules.forward_pre.values()]:
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        for key, hook in [*self._forward_pre_hooks.items()]:
            args, kwargs = self._run_pre_hook(key, hook, args, kwargs)
        watch = None
        hooks = [*self._backward_hooks.values()]
        full = [*all_modules.backward.values()]
        full += hooks if self._is_full_backward_hook is not False else []
        before = [*all_modules.backward_pre.values(), *self._backward_pre_hooks.values()]
        if full or before:
            watch = _BackwardWatch(self, before, full)
            args = watch.inputs(args)
        result = self.forward(*args, **kwargs)
        for key, hook in [*all_modules.forward.items()]:
            called.add(key)
            changed = self._run_global_hook(key, hook, args, kwargs, result)
            if changed is not None:
                result = changed
        for key in [*self._forward_hooks]:
            called.add(key)
            changed = self._run_forward_hook(key, args, kwargs, result)
            if changed is not None:
                result = changed
        result = watch.outputs(result) if watch is not None else result
        last = hooks if self._is_full_backward_hook is False else []
        last = [*all_modules.backward_at_last_node.values(), *last]
        if last:
            _hook_last_node(self, last, args, result)
        return result

    def _run_global_hook(
        self,
        key: int,
        hook: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
    ) -> Any:
        if key in all_modules.forward_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _run_pre_hook(
        self, key: int, hook: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if key in self._forward_pre_hooks_with_kwargs:
            both = hook(self, args, kwargs)
            if both is None:
                return args, kwargs
            if not (isinstance(both, tuple) and len(both) == 2):
                raise RuntimeError(
                    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {both}."
                )
            return both
        changed = hook(self, args)
        if changed is None:
            return args, kwargs
        return (changed if isinstance(changed, tuple) else (changed,)), kwargs

    def _run_forward_hook(
        self, key: int, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Any:
        hook = self._forward_hooks[key]
        if key in self._forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)


def _hook_last_node(
    module: HookMixin, hooks: list[Callable[..., Any]], args: tuple[Any, ...], result: Any
) -> None:
    """Call the hooks of `register_backward_hook` at the node of the first tensor in the result."""
    first = result
    while not isinstance(first, Tensor):
        if isinstance(first, dict):
            first = next(value for value in first.values() if isinstance(value, Tensor))
        else:
            first = first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(functools.partial(hook, module))
    missing = _missing_gradients(args, result, node)
    if missing:
        warnings.warn(
            f"Using {missing} Please use register_full_backward_hook to get the documented "
            "behavior.",
            FutureWarning,
            stacklevel=4,
        )


def _is_flat(values: Any) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, Tensor) for value in values)


def _missing_gradients(args: tuple[Any, ...], result: Any, node: Any) -> str:
    """Why a hook at *node* does not see all gradients of a call; empty when it does."""
    gone = "is deprecated and will be removed in future versions. This hook will be missing some"
    results = (result,) if isinstance(result, Tensor) else result
    if not _is_flat(results):
        what = "non-full backward hooks on a Module that does not return a single Tensor or a tuple"
        return f"{what} of Tensors {gone} of the grad_output."
    if not _is_flat(args):
        what = "non-full backward hooks on a Module that does not take as input a single Tensor or "
        return f"{what}a tuple of Tensors {gone} of the grad_input."
    if len({value.grad_fn for value in results if value.grad_fn is not None}) > 1:
        what = "a non-full backward hook when outputs are generated by different autograd Nodes"
        return f"{what} {gone} grad_output."
    inputs = {value.grad_fn for value in args if value.grad_fn is not None}
    if inputs != {following for following, _ in node.next_functions}:
        what = "a non-full backward hook when the forward contains multiple autograd Nodes"
        return f"{what} {gone} grad_input."
    return ""


class _BackwardWatch:
    """Collects the gradients around one call of a module and runs its backward hooks."""

    def __init__(
        self,
        module: HookMixin,
        pre_hooks: list[Callable[..., Any]],
        hooks: list[Callable[..., Any]],
    ) -> None:
        self.module = module
        self.pre_hooks = pre_hooks
        self.hooks = hooks
        self.grad_in: list[Any] = []
        self.grad_out: list[Any] = []
        self.waiting_in: set[int] = set()
        self.waiting_out: set[int] = set()

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Views of the arguments that require grad, with a hook on each."""
        self.grad_in = [None] * sum(isinstance(a, Tensor) for a in args)
        made: list[Any] = []
        position = 0
        for arg in args:
            if isinstance(arg, Tensor):
                if arg.requires_grad:
                    arg = arg.view_as(arg)
                    self.waiting_in.add(position)
                    arg.register_hook(self._input_hook(position))
                position += 1
            made.append(arg)
        self.several = len(self.waiting_in) > 1
        return tuple(made)

    def outputs(self, result: Any) -> Any:
        """Views of the tensors in the result, with a hook on each that requires grad."""
        single = not isinstance(result, (tuple, list))
        items = [result] if single else list(result)
        self.grad_out = [None] * len(items)
        for i, item in enumerate(items):
            if isinstance(item, Tensor) and item.requires_grad:
                view = item.view_as(item)
                self.waiting_out.add(i)
                view.register_hook(self._output_hook(i))
                items[i] = view
        if single:
            return items[0]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)

    def _output_hook(self, position: int) -> Callable[[Any], Any]:
        def collect(grad: Any) -> Any:
            self.grad_out[position] = grad
            self.waiting_out.discard(position)
            if self.waiting_out:
                return None
            for hook in self.pre_hooks:
                changed = hook(self.module, tuple(self.grad_out))
                if changed is not None:
                    self.grad_out = list(changed) if isinstance(changed, tuple) else [changed]
            if not self.waiting_in:
                self._finish()
            return self.grad_out[position]

        return collect

    def _input_hook(self, position: int) -> Callable[[Any], Any]:
        def collect(grad: Any) -> Any:
            self.grad_in[position] = grad
            self.waiting_in.discard(position)
            if self.waiting_in:
                return None
            return self._finish()[position]

        return collect

    def _finish(self) -> Grads:
        current: Grads = tuple(self.grad_in)
        for hook in self.hooks:
            changed = hook(self.module, current, tuple(self.grad_out))
            if changed is None:
                continue
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(current):
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, "
                    f"got {len(changed)}, but expected {len(current)}"
                )
            if self.several:
                raise RuntimeError(
                    "a backward hook of a module called with several tensors that require grad "
                    f"can not replace grad_input, got {len(changed)} replacements"
                )
            current = changed
        return current
