"""Saving and loading the state of a module tree."""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn.parameter import Parameter, is_lazy
from shmtensor.utils.hooks import RemovableHandle, add_hook

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What ``load_state_dict(strict=False)`` found no partner for."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


#: Name to tensor; its attribute ``_metadata`` carries the versions of the modules.
StateDict: TypeAlias = OrderedDict[str, Any]


# Hooks are pickled with their module. So this is not a local function.
def _call_for_nothing(hook: Callable[..., Any], *args: Any) -> None:
    if hook(*args) is not None:
        raise RuntimeError("state_dict post-hook must return None")


class _WrappedHook:
    """A hook, with the module that it is called with, if any. Files of torch name this class.

    Args:
        hook: The function.
        module: Its first argument, which is held weakly; None: it does not get it.

    Source:
        torch.nn.modules.module._WrappedHook.
    """

    __module__ = "shmtensor.nn.modules.module"

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> None:
        self.__setstate__({"hook": hook, "with_module": module is not None, "module": module})

    def __call__(self, *args: Any) -> Any:
        if not self.with_module:
            return self.hook(*args)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        return {**state, "module": self.module()} if self.with_module else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


class StateMixin:
    """``state_dict`` and ``load_state_dict``."""

    _version: int = 1
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def get_extra_state(self) -> Any:
        """What else belongs in ``state_dict``; override together with ``set_extra_state``."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what ``get_extra_state`` gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state is collected."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after collecting.

        The state is changed in place: a hook that returns something makes `state_dict` raise
        RuntimeError.
        """
        with contextlib.suppress(AttributeError):  # of those that take no attributes
            hook._from_public_api = True  # type: ignore[attr-defined]
        return add_hook(self._state_dict_hooks, functools.partial(_call_for_nothing, hook))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Do as `register_state_dict_post_hook`; what the hook returns becomes the state.

        Raises:
            RuntimeError: `register_state_dict_post_hook` was given it.
        """
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call the hook with this module and the arguments of ``_load_from_state_dict``."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Do as the public method; by default the hook is called without the module."""
        wrapped = _WrappedHook(hook, self if with_module else None)
        return add_hook(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def state_dict(
        self,
        *args: Any,
        destination: StateDict | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> StateDict:
        """Collect parameters and persistent buffers of this module and all below.

        Args:
            *args: The others by position, which is deprecated.
            destination: The dictionary to fill; a new one if absent.
            prefix: What every key begins with.
            keep_vars: Give the parameters themselves instead of detached tensors.

        Returns:
            Name to tensor. The tensors share memory with the module.

        Source:
            torch.nn.Module.state_dict.
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            if destination is None:
                destination = args[0]
            if len(args) > 1 and prefix == "":
                prefix = args[1]
            if len(args) > 2 and keep_vars is False:
                keep_vars = args[2]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, local_metadata)
            if changed is not None:
                destination = changed
        return destination

    def _save_to_state_dict(self, destination: StateDict, prefix: str, keep_vars: bool) -> None:
        """Put this module's own tensors in *destination*, not those of its children."""
        for name, tensor in self._own_state():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not StateMixin.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def _own_state(self) -> list[tuple[str, Tensor]]:
        persistent = (
            item
            for item in self._buffers.items()
            if item[0] not in self._non_persistent_buffers_set
        )
        both = itertools.chain(self._parameters.items(), persistent)
        return [(name, tensor) for name, tensor in both if tensor is not None]

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy values into the parameters and buffers of this module and all below.

        Args:
            state_dict: Name to tensor.
            strict: Keys must match exactly.
            assign: Put the given tensors in place of the present ones instead of copying.

        Returns:
            ``(missing_keys, unexpected_keys)``.

        Raises:
            TypeError: *state_dict* is not a mapping.
            RuntimeError: Keys or shapes do not match; the text lists all of them.

        Source:
            torch.nn.Module.load_state_dict.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        values = OrderedDict(state_dict)
        if metadata is not None:
            values._metadata = metadata  # type: ignore[attr-defined]
        metadata = metadata or {}

        def load(module: StateMixin, local: Mapping[str, Any], prefix: str) -> None:
            local_metadata = dict(metadata.get(prefix[:-1], {}))
            if assign:
                local_metadata["assign_to_params_buffers"] = True
            module._load_from_state_dict(
                local, prefix, local_metadata, True, missing, unexpected, errors
            )
            for name, child in module._modules.items():
                if child is not None:
                    inner = f"{prefix}{name}."
                    load(child, {k: v for k, v in local.items() if k.startswith(inner)}, inner)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, _IncompatibleKeys(missing, unexpected)) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )

        load(self, values, "")
        if strict:
            if unexpected:
                names = ", ".join(f'"{k}"' for k in unexpected)
                errors.insert(0, f"Unexpected key(s) in state_dict: {names}. ")
            if missing:
                names = ", ".join(f'"{k}"' for k in missing)
                errors.insert(0, f"Missing key(s) in state_dict: {names}. ")
        if errors:
            text = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{text}"
            )
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own tensors; the lists collect what does not fit."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        for name, tensor in self._own_state():
            key = prefix + name
            if key in state_dict:
                message = self._load_one(name, key, tensor, state_dict[key], assign)
                error_msgs += [message] if message else []
            elif strict:
                missing_keys.append(key)
        key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateMixin.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)
        if strict:
            own = {name for name, _ in self._own_state()} | {_EXTRA_STATE_KEY_SUFFIX}
            for key in state_dict:
                if not key.startswith(prefix):
                    continue
                first, dot, _ = key[len(prefix) :].partition(".")
                if first not in (self._modules if dot else own):
                    unexpected_keys.append(key)

    def _load_one(
        self, name: str, key: str, tensor: Tensor, value: Any, assign: bool
    ) -> str | None:
        """Copy or assign one value; returns what is wrong with it."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected shmtensor.Tensor or '
                f"Tensor-like object from checkpoint but received {type(value)}"
            )
        lazy = is_lazy(tensor)  # and so is value, or the tensor would have its size by now
        if not lazy and tensor.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
            value = value[0]  # what a scalar was in very old checkpoints
        if not lazy and tuple(value.shape) != tuple(tensor.shape):
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {tensor.shape}."
            )
        if tensor.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                "parameter in the current model, which is a no-op. (Did you mean to pass "
                "`assign=True` to assign items in the state dictionary to their corresponding key "
                "in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            with shmtensor.no_grad():
                if not assign:
                    tensor.copy_(value)
                elif isinstance(tensor, Parameter):
                    if isinstance(value, Parameter):
                        value.requires_grad_(tensor.requires_grad)
                    else:
                        value = Parameter(value, tensor.requires_grad)
                    setattr(self, name, value)
                else:
                    setattr(self, name, value)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{tensor.shape} and whose dimensions in the checkpoint are {value.shape}, an "
                f"exception occurred : {error.args}."
            )
        return None
