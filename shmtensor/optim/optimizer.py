"""What all optimizers share: parameter groups, state, hooks, saving, sharing.

``param_groups`` is a list of dictionaries: the parameters and the options that hold for them.
``state`` maps a parameter to what the algorithm remembers about it. A saved state names
parameters by numbers, in the order of the groups; its layout is torch's, so that a state can be
saved by one library and continued by the other.

A subclass defines ``step``. The first object of a class wraps it once, so that the hooks run
around every ``step`` of that class. Sharing state with other processes is in
``shmtensor/optim/_sharing.py``.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any, TypeAlias, cast

import shmtensor
from shmtensor import _C
from shmtensor._core._settings import typename
from shmtensor._core._tensor import Tensor
from shmtensor.nn._gradients import set_to_zero
from shmtensor.optim._tools import (
    _default_to_fused_or_foreach as _default_to_fused_or_foreach,
)
from shmtensor.optim._tools import (
    _device_dtype_check_for_fused as _device_dtype_check_for_fused,
)
from shmtensor.optim._tools import (
    _get_capturable_supported_devices as _get_capturable_supported_devices,
)
from shmtensor.optim._tools import (
    _get_scalar_dtype as _get_scalar_dtype,
)
from shmtensor.optim._tools import (
    _get_value as _get_value,
)
from shmtensor.optim._tools import (
    _new_scalar,
)
from shmtensor.optim._tools import (
    _to_scalar as _to_scalar,
)
from shmtensor.optim._tools import (
    _use_grad_for_differentiable as _use_grad_for_differentiable,
)
from shmtensor.optim._tools import (
    _view_as_real as _view_as_real,
)
from shmtensor.utils.hooks import RemovableHandle, add_hook

__all__ = [
    "Optimizer",
    "register_optimizer_step_pre_hook",
    "register_optimizer_step_post_hook",
]

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]
_Hooks: TypeAlias = OrderedDict[int, Callable[..., Any]]

_global_step_pre_hooks: _Hooks = OrderedDict()
_global_step_post_hooks: _Hooks = OrderedDict()


class _RequiredParameter:
    """The default of an option that every group must give itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer.

    Args:
        hook: May return ``(args, kwargs)`` to call ``step`` with instead; *args* begins with the
            optimizer.

    Returns:
        A handle; its ``remove()`` removes the hook.
    """
    return add_hook(_global_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer.

    Args:
        hook: What it returns is ignored.

    Returns:
        A handle; its ``remove()`` removes the hook.
    """
    return add_hook(_global_step_post_hooks, hook)


class Optimizer:
    """Base class of optimizers; a subclass defines ``step``.

    Args:
        params: Tensors, ``(name, tensor)`` pairs, or dictionaries that are parameter groups.
        defaults: Options of groups that do not say otherwise.

    Raises:
        TypeError: *params* is a tensor, or holds something else than tensors.
        ValueError: No parameters; a parameter in two groups; a tensor that is no leaf; names for
            some parameters only.

    Source:
        torch.optim.Optimizer.
    """

    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hooks()
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {typename(params)}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        # Set by programs that capture steps in graphs of devices; kept for their sake.
        self._warned_capturable_if_run_uncaptured = True

    def _make_hooks(self) -> None:
        """Make the dictionaries of hooks that are not there."""
        for when in ("step", "state_dict", "load_state_dict"):
            for side in ("pre", "post"):
                self.__dict__.setdefault(f"_optimizer_{when}_{side}_hooks", OrderedDict())

    def _hooks(self, which: str) -> _Hooks:
        return cast("_Hooks", getattr(self, f"_optimizer_{which}_hooks"))

    def __getstate__(self) -> dict[str, Any]:
        state = {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }
        if "_step_lock" in self.__dict__:
            state["_step_lock"] = self.__dict__["_step_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def _complete_groups(self, **options: Any) -> None:
        """Add what states of older versions lack: options, and counters that are tensors."""
        for group in self.param_groups:
            for name, default in options.items():
                group.setdefault(name, default)
            for param in group["params"]:
                entry = self.state.get(param)
                if entry and "step" in entry and not isinstance(entry["step"], Tensor):
                    step = _new_scalar(float(entry["step"]), is_fused=group.get("fused"))
                    entry["step"] = step

    def __repr__(self) -> str:
        groups = []
        for i, group in enumerate(self.param_groups):
            options = [f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params"]
            groups.append(f"\nParameter Group {i}\n" + "".join(options))
        return f"{type(self).__name__} (" + "".join(groups) + ")"

    # --- groups ----------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own options; missing options are the defaults.

        Args:
            param_group: ``params`` and options. The dictionary itself becomes the group.

        Raises:
            TypeError: No dictionary, or ``params`` is a set or holds no tensors.
            ValueError: A parameter is not a leaf, or is in another group; a required option is
                missing; some parameters have names and others have none.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params, names = _split_names(list(params))
        self._check_params(params)
        param_group["params"] = params
        if names is not None:
            param_group["param_names"] = names
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        ids = {id(p) for p in params}
        if len(ids) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=3,
            )
        for group in self.param_groups:
            if not ids.isdisjoint(id(p) for p in group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")
            if ("param_names" in group) != (names is not None):
                which = "without" if names is None else "with"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {which} names to the optimizer"
                )
        self.param_groups.append(param_group)

    def _check_params(self, params: Sequence[Any]) -> None:
        """Raise unless every one of *params* is a tensor that can be optimized."""
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is "
                    f"{typename(param)}"
                )
            if not (self.defaults.get("differentiable") or param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or set them to zero in place.

        Args:
            set_to_none: Whether ``grad`` becomes ``None``. A gradient of zeros makes a step with
                it; a parameter without gradient is left out of the step.
        """
        recorded = _C._profiler_runs() and _C._profiler_range_begin(self._zero_grad_profile_name)
        try:
            for group in self.param_groups:
                for param in group["params"]:
                    if set_to_none:
                        param.grad = None
                    else:
                        set_to_zero(param)
        finally:
            if recorded:
                _C._profiler_range_end()

    # --- stepping --------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient.

        Args:
            closure: Computes the loss again and its gradients; called first.

        Returns:
            What *closure* returned, or ``None``.
        """
        raise NotImplementedError

    def _loss_of(self, closure: Callable[[], Any] | None) -> Any:
        """Call *closure* with gradients enabled, if there is one."""
        if closure is None:
            return None
        with shmtensor.enable_grad():
            return closure()

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        """Make what the algorithm remembers about *param*; it remembers nothing yet."""

    def _collect(
        self,
        group: dict[str, Any],
        params: list[Tensor],
        grads: list[Tensor],
        wanted: dict[str, list[Any]],
        sparse: str | None,
    ) -> bool:
        """Append the parameters of *group* that have gradients, these, and their state.

        Args:
            group: A parameter group.
            params: Takes the parameters.
            grads: Takes their gradients.
            wanted: For an entry of the state, the list that takes it. State is made where a
                parameter has none.
            sparse: What is said of a sparse gradient; ``None`` lets it pass.

        Returns:
            Whether a parameter is complex.
        """
        has_complex = False
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if sparse is not None and grad.is_sparse:
                raise RuntimeError(sparse)
            state = self.state[param]
            if not state:
                self._init_state(group, param)
                state = self.state[param]
            params.append(param)
            grads.append(grad)
            for key, values in wanted.items():
                values.append(state[key])
            has_complex = has_complex or param.is_complex()
        return has_complex

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a ``step`` so that the hooks run before and after it."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            name = f"Optimizer.step#{type(self).__name__}.step" if _C._profiler_runs() else None
            recorded = name is not None and _C._profiler_range_begin(name)
            try:
                for hook in (
                    *_global_step_pre_hooks.values(),
                    *self._optimizer_step_pre_hooks.values(),
                ):
                    changed = hook(self, args, kwargs)
                    if changed is None:
                        continue
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        raise RuntimeError(
                            f"{func} must return None or a tuple of (new_args, new_kwargs), "
                            f"but got {changed}."
                        )
                    args, kwargs = changed
                lock = self.__dict__.get("_step_lock")
                if lock is None:
                    result = func(*args, **kwargs)
                else:
                    with lock:
                        result = func(*args, **kwargs)
                for hook in (
                    *self._optimizer_step_post_hooks.values(),
                    *_global_step_post_hooks.values(),
                ):
                    hook(self, args, kwargs)
                return result
            finally:
                if recorded:
                    _C._profiler_range_end()

        return wrapper

    def _patch_step_function(self) -> None:
        """Let ``step`` of this class run the hooks, unless it does."""
        kind = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{kind.__name__}.zero_grad"
        if not getattr(kind.step, "hooked", False):
            wrapped = self.profile_hook_step(kind.step)
            wrapped.hooked = True  # type: ignore[attr-defined]
            kind.step = wrapped  # type: ignore[method-assign]

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step.

        Args:
            hook: May return ``(args, kwargs)`` to call ``step`` with instead; *args* begins with
                the optimizer.

        Returns:
            A handle; its ``remove()`` removes the hook.
        """
        return add_hook(self._hooks("step_pre"), hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step.

        Returns:
            A handle; its ``remove()`` removes the hook.
        """
        return add_hook(self._hooks("step_post"), hook)

    # --- saving ----------------------------------------------------------------------------

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before the state is collected.

        Args:
            hook: What it returns is ignored.
            prepend: Whether it runs before the hooks that are there already.

        Returns:
            A handle; its ``remove()`` removes the hook.
        """
        return add_hook(self._hooks("state_dict_pre"), hook, prepend=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after the state is collected.

        Args:
            hook: What it returns, if anything, replaces the state.
            prepend: Whether it runs before the hooks that are there already.

        Returns:
            A handle; its ``remove()`` removes the hook.
        """
        return add_hook(self._hooks("state_dict_post"), hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before a state is loaded.

        Args:
            hook: Gets a shallow copy of the state; what it returns, if anything, is loaded
                instead.
            prepend: Whether it runs before the hooks that are there already.

        Returns:
            A handle; its ``remove()`` removes the hook.
        """
        return add_hook(self._hooks("load_state_dict_pre"), hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after a state is loaded.

        Args:
            hook: What it returns is ignored.
            prepend: Whether it runs before the hooks that are there already.

        Returns:
            A handle; its ``remove()`` removes the hook.
        """
        return add_hook(self._hooks("load_state_dict_post"), hook, prepend=prepend)

    def state_dict(self) -> StateDict:
        """The state and the options, with numbers in place of parameters.

        Returns:
            ``{"state": {number: {...}}, "param_groups": [...]}``; tensors share memory with the
            optimizer's.
        """
        for hook in self._hooks("state_dict_pre").values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        n_before = 0
        for group in self.param_groups:
            # Of a parameter that is there twice the last number counts, as in torch's files.
            places = {id(param): n for n, param in enumerate(group["params"], n_before)}
            numbers = places | numbers
            n_before += len(group["params"])
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        result: StateDict = {"state": state, "param_groups": groups}
        for hook in self._hooks("state_dict_post").values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over what ``state_dict`` gave, from this library or from torch.

        Floating-point state takes its parameter's dtype; counters of steps keep theirs, unless
        the group is fused or capturable. Names of parameters play no part.

        Args:
            state_dict: Parameters are matched by their order in the groups.

        Raises:
            ValueError: The groups do not match this optimizer's.
        """
        state_dict = state_dict.copy()
        for hook in self._hooks("load_state_dict_pre").values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        groups = self.param_groups
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        owners = {
            number: (param, saved_group)
            for group, saved_group in zip(groups, saved, strict=True)
            for number, param in zip(saved_group["params"], group["params"], strict=True)
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owners:
                param, group = owners[key]
                state[param] = _suited(param, value, group)
            else:
                state[key] = value
        for group, saved_group in zip(groups, saved, strict=True):
            saved_group["params"] = group["params"]
            if "param_names" in group:
                saved_group.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._hooks("load_state_dict_post").values():
            hook(self)

    # --- sharing ---------------------------------------------------------------------------

    def share_memory(self, *, exact: bool = False) -> None:
        """Make the state now and move all of it, counters of steps too, to shared memory.

        Processes that get this optimizer afterwards then work on one state. The parameters are
        not moved: share the module as well.

        Args:
            exact: Whether steps exclude one another. ``False``: processes write without locks,
                and an update may be lost where two collide. ``True``: a step is applied under a
                lock in shared memory, which is free again when its owner is killed.

        Raises:
            RuntimeError: The algorithm's state is not made of tensors of fixed sizes.
        """
        from shmtensor.optim import _sharing  # loads multiprocessing, which few programs need

        _sharing.share(self, exact=exact)


def _split_names(params: list[Any]) -> tuple[list[Any], list[str] | None]:
    """Tensors and names of ``(name, tensor)`` pairs; no names if there are no pairs."""
    named = [isinstance(p, tuple) for p in params]
    if not any(named):
        return params, None
    if not all(named):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    return [p[1] for p in params], [p[0] for p in params]


def _suited(param: Tensor, value: Any, group: dict[str, Any], key: str | None = None) -> Any:
    """Saved state in the dtype that suits *param*."""
    if isinstance(value, Tensor):
        if key == "step":
            wide = group.get("fused") or group.get("capturable")
            return value.to(dtype=shmtensor.float32, device=param.device) if wide else value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {k: _suited(param, v, group, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_suited(param, v, group) for v in value)  # type: ignore[call-arg]
    return value
