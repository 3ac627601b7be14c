"""Module hooks: registering them, and a call that runs them.

Order of one call with hooks::

    forward pre-hooks -> node of the arguments -> forward -> forward hooks -> node of the result

At the two nodes, which are there for backward hooks only, those listen (`_backward_hooks`). What
`register_backward_hook` registers, which is older, listens at the node that made the output
instead.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

from shmtensor._core._tensor import Tensor
from shmtensor.nn import _global_hooks as all_modules
from shmtensor.nn._backward_hooks import CallWithBackwardHooks
from shmtensor.utils.hooks import RemovableHandle, add_hook


class HookMixin:
    """Registration of hooks and the slow path of ``Module.__call__``."""

    #: An old mark of classes whose sources are compared. Nothing reads it.
    dump_patches: bool = False
    #: Names of attributes that never change, for libraries that read them: `nn.modules._constants`.
    __constants__: ClassVar[list[str]]

    forward: Callable[..., Any]
    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
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
        return add_hook(
            self._forward_pre_hooks,
            hook,
            prepend=prepend,
            flags=((self._forward_pre_hooks_with_kwargs, with_kwargs),),
        )

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
        runs when ``forward`` or another hook raises; the output is ``None`` then if there was none
        yet, and an error of its own becomes a warning.
        """
        return add_hook(
            self._forward_hooks,
            hook,
            prepend=prepend,
            flags=(
                (self._forward_hooks_with_kwargs, with_kwargs),
                (self._forward_hooks_always_called, always_call),
            ),
        )

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradients of the output are there.

        Args:
            hook: ``grad_output`` has one entry per tensor of the output, ``None`` for what is no
                tensor and what has no gradient. What it returns, unless ``None``, replaces
                ``grad_output``; backward raises RuntimeError when it has another length.
            prepend: Whether it comes before the hooks that are there.
        """
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the inputs' gradients are there.

        It is called once in a backward in which the gradients come through the output. The
        arguments and outputs of such a module are views, which cannot change in place.

        Args:
            hook: ``grad_input`` has one entry per argument given by position, ``None`` for what is
                no tensor; ``grad_output`` one per tensor of the output, which must be a tensor or a
                tuple. What it returns, unless ``None``, replaces ``grad_input``; backward raises
                RuntimeError when it has another length. Where no argument requires a gradient, it
                is called with all of ``None``, and a warning, as soon as ``grad_output`` is there.
            prepend: Whether it comes before the hooks that are there.

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
        """Accept what `shmtensor.compile` accepts; the module runs as it is.

        Raises:
            NotImplementedError: The backend is a function.
        """
        from shmtensor._torch.compiler import compile

        if callable(kwargs.get("backend")):
            raise NotImplementedError(
                "Module.compile() takes no function as a backend; call compile(module, backend=...)"
            )
        compile(self, *args, **kwargs)  # type: ignore[call-overload]

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = _Call(self, args, kwargs)
        try:
            return call.run()
        except Exception:
            call.run_always_called()
            raise


def _with_flags(
    hooks: dict[int, Callable[..., Any]], *flags: dict[int, bool]
) -> list[tuple[Any, ...]]:
    """The hooks as they are now, each with its number and whether it has each of the flags.

    Hooks may remove hooks: what was there when the first of them runs is called.
    """
    return [(key, hook, *(key in flag for flag in flags)) for key, hook in hooks.items()]


class _Call:
    """One call of a module that has hooks, and how far it came."""

    def __init__(self, module: HookMixin, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self.called: set[tuple[bool, int]] = set()  # (of all modules?, number)

    def run(self) -> Any:
        """Call the hooks and ``forward``; returns the result."""
        module = self.module
        self._run_pre_hooks()
        full = module._is_full_backward_hook is not False
        own = [*module._backward_hooks.values()]
        hooks = [*all_modules.backward.values(), *(own if full else ())]
        pre_hooks = [*all_modules.backward_pre.values(), *module._backward_pre_hooks.values()]
        backward = None
        if hooks or pre_hooks:
            backward = CallWithBackwardHooks(module, pre_hooks, hooks)
            self.args = backward.args(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        for everywhere, key, hook, with_kwargs, _ in self._forward_hooks():
            self._run_forward_hook(everywhere, key, hook, with_kwargs)
        if backward is not None:
            self.result = backward.result(self.result)
        at_last_node = [*all_modules.backward_at_last_node.values(), *(() if full else own)]
        if at_last_node:
            _hook_last_node(module, at_last_node, self.args, self.result)
        return self.result

    def run_always_called(self) -> None:
        """After an error: call the hooks that run always and did not yet run."""
        for everywhere, key, hook, with_kwargs, always in self._forward_hooks():
            if not always or (everywhere, key) in self.called:
                continue
            try:
                self._run_forward_hook(everywhere, key, hook, with_kwargs)
            except Exception as error:
                warnings.warn(
                    f"{'global ' if everywhere else ''}module forward hook with "
                    "``always_call=True`` raised an exception that was silenced as another error "
                    f"was raised in forward: {error!s}",
                    stacklevel=4,
                )

    def _run_pre_hooks(self) -> None:
        module = self.module
        for _, hook in _with_flags(all_modules.forward_pre):
            self._change_args(hook(module, self.args))
        for _, hook, with_kwargs in _with_flags(
            module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs
        ):
            if not with_kwargs:
                self._change_args(hook(module, self.args))
                continue
            both = hook(module, self.args, self.kwargs)
            if both is None:
                continue
            if not (isinstance(both, tuple) and len(both) == 2):
                raise RuntimeError(
                    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {both}."
                )
            self.args, self.kwargs = both

    def _change_args(self, changed: Any) -> None:
        if changed is not None:
            self.args = changed if isinstance(changed, tuple) else (changed,)

    def _forward_hooks(self) -> list[tuple[Any, ...]]:
        """All hooks after ``forward``: (of all modules?, number, hook, with kwargs?, always?)."""
        module = self.module
        everywhere = _with_flags(
            all_modules.forward, all_modules.forward_with_kwargs, all_modules.forward_always_called
        )
        own = _with_flags(
            module._forward_hooks,
            module._forward_hooks_with_kwargs,
            module._forward_hooks_always_called,
        )
        return [(True, *each) for each in everywhere] + [(False, *each) for each in own]

    def _run_forward_hook(
        self, everywhere: bool, key: int, hook: Callable[..., Any], with_kwargs: bool
    ) -> None:
        self.called.add((everywhere, key))
        if with_kwargs:
            changed = hook(self.module, self.args, self.kwargs, self.result)
        else:
            changed = hook(self.module, self.args, self.result)
        if changed is not None:
            self.result = changed


def _with_module(hook: Callable[..., Any], module: HookMixin) -> Callable[..., Any]:
    """A hook of a node that calls one of a module; it has the name of that one."""

    def call(grad_input: Any, grad_output: Any) -> Any:
        return hook(module, grad_input, grad_output)

    return functools.update_wrapper(call, hook, updated=())


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
        node.register_hook(_with_module(hook, module))
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
