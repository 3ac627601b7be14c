"""What all optimizers share: parameter groups, state, saving and sharing it.

``param_groups`` is a list of dictionaries: the parameters and the options that hold for them.
``state`` maps a parameter to what the algorithm remembers about it. Saved, parameters are
numbers in the order of the groups.

Updates go into the parameters' memory in place, by operators that read and write each element
once. Several processes may step on one model without locks: an update can be lost where two
collide, which is what Hogwild accepts; nothing else can happen.
"""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import shmtensor
from shmtensor._tensor import Tensor
from shmtensor.nn.modules.module import _zero
from shmtensor.utils.hooks import RemovableHandle, add_hook

__all__ = ["Optimizer"]

REQUIRED = object()


def _type_name(value: object) -> str:
    return str(value.type()) if isinstance(value, Tensor) else type(value).__name__


class Optimizer:
    """Base class of optimizers; a subclass defines ``_update`` and perhaps ``_init_state``.

    Args:
        params: Tensors, ``(name, tensor)`` pairs, or dictionaries that are parameter groups.
        defaults: Options of groups that do not say otherwise.

    Raises:
        TypeError: *params* is a tensor, or holds something else than tensors.
        ValueError: No parameters; a parameter in two groups; a tensor that is no leaf.

    Source:
        torch.optim.Optimizer.
    """

    state: defaultdict[Tensor, dict[str, Any]]
    param_groups: list[dict[str, Any]]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {_type_name(params)}"
            )
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._make_hooks()
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        self._step_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._step_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._state_dict_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._load_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._load_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": dict(self.state),
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.state = defaultdict(dict, self.state)
        self._make_hooks()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join([*lines, ")"])

    # --- groups ----------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own; missing options are the defaults.

        Raises:
            TypeError: No dictionary, or ``params`` is unordered or holds no tensors.
            ValueError: A parameter is no leaf, or is in another group; a required option is
                missing.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, (set, frozenset)):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = list(params)
        names: list[str] = []
        if params and all(isinstance(p, tuple) for p in params):
            names = [name for name, _ in params]
            params = [tensor for _, tensor in params]
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is "
                    f"{_type_name(param)}"
                )
            if not (param.is_leaf or param.retains_grad or self.defaults.get("differentiable")):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is REQUIRED and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, deepcopy(default))
        if len({id(p) for p in params}) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=3,
            )
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if not known.isdisjoint(id(p) for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or set them to zero in place."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                else:
                    _zero(param)

    # --- stepping --------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient.

        Args:
            closure: Computes the loss again and its gradients; called first.

        Returns:
            What *closure* returned, or ``None``.
        """
        for hook in self._step_pre_hooks.values():
            hook(self, (closure,) if closure is not None else (), {})
        loss = None
        if closure is not None:
            with shmtensor.enable_grad():
                loss = closure()
        with shmtensor.no_grad():
            for group in self.param_groups:
                with shmtensor.set_grad_enabled(bool(group.get("differentiable", False))):
                    self._update(group, [p for p in group["params"] if p.grad is not None])
        for hook in self._step_post_hooks.values():
            hook(self, (closure,) if closure is not None else (), {})
        return loss

    def _update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """Change *params*, all of which have gradients, by the options of *group*."""
        raise NotImplementedError(f"{type(self).__name__} does not define how to step")

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        """Make what the algorithm remembers about *param*, as far as it is not there."""

    def share_memory(self) -> None:
        """Make the state now and move it to shared memory.

        Processes that get this optimizer afterwards then use one state, as shared Adam and
        shared RMSprop do by hand elsewhere. Without it every process has its own.
        """
        with shmtensor.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    self._init_state(group, param)
            for state in self.state.values():
                for value in state.values():
                    if isinstance(value, Tensor):
                        value.share_memory_()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step."""
        return add_hook(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step."""
        return add_hook(self._step_post_hooks, hook)

    # --- saving ----------------------------------------------------------------------------

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before the state is collected."""
        return add_hook(self._state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after; what it returns replaces the state."""
        return add_hook(self._state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; a result replaces the state."""
        return add_hook(self._load_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return add_hook(self._load_post_hooks, hook, prepend=prepend)

    def state_dict(self) -> dict[str, Any]:
        """The state and the options, with numbers in place of parameters.

        Returns:
            ``{"state": {number: {...}}, "param_groups": [...]}``; tensors share memory.
        """
        for hook in self._state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {numbers.get(id(k), k): v for k, v in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave; tensors are cast to their parameter's type.

        Raises:
            ValueError: The groups do not match this optimizer's.
        """
        state_dict = dict(state_dict)
        for hook in self._load_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        sizes = zip(self.param_groups, saved, strict=True)
        if any(len(mine["params"]) != len(theirs["params"]) for mine, theirs in sizes):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        numbers = itertools.chain.from_iterable(group["params"] for group in saved)
        params = itertools.chain.from_iterable(group["params"] for group in self.param_groups)
        by_number = dict(zip(numbers, params, strict=True))
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            param = by_number.get(key)
            state[key if param is None else param] = _cast(param, value)
        for mine, theirs in zip(self.param_groups, saved, strict=True):
            theirs["params"] = mine["params"]
            if "param_names" in mine:
                theirs.setdefault("param_names", mine["param_names"])
        self.state = state
        self.param_groups = saved
        for hook in self._load_post_hooks.values():
            hook(self)


def _cast(param: Tensor | None, value: Any, key: str | None = None) -> Any:
    """A copy of saved state that suits *param*; counters of steps keep their type."""
    if isinstance(value, Tensor):
        if param is not None and key != "step" and param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value
    if isinstance(value, dict):
        return {k: _cast(param, v, key=k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(param, v) for v in value)
    return value
