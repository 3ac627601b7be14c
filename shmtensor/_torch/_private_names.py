"""Small names of ``torch._C`` that programs look at, added to the extension module.

Source:
    torch._C.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import Any

from shmtensor import _C
from shmtensor._core import _dispatch_keys as keys
from shmtensor._core._without_overrides import DisableTorchFunction, DisableTorchFunctionSubclass
from shmtensor.errors import LinAlgError

__all__: list[str] = []


def _log_api_usage_once(event: str) -> None:
    """Note that a part of the library is used: nobody is told."""


def _log_api_usage_metadata(event: str, metadata_map: dict[str, str]) -> None:
    """Note that a part of the library is used: nobody is told."""


def _get_tracing_state() -> Any:
    """Return the trace that this thread records, in `jit.trace`; None: none."""
    from shmtensor._torch._jit_internal import tracing_state

    return tracing_state()


def _jit_set_setting(value: Any) -> Any:
    """Accept a setting of TorchScript, which is not here; returns it."""
    return value


def _jit_can_fuse() -> bool:
    """Return whether TorchScript makes one kernel of several: False."""
    return False


def _get_accelerator() -> Any:
    """Return the device type of the accelerator: the CPU, there is none."""
    return _C.device("cpu")


def _get_privateuse1_backend_name() -> str:
    """Return the name of devices that a plug-in adds: there is no plug-in."""
    return "privateuseone"


def _is_torch_function_enabled() -> bool:
    """Return whether classes with ``__torch_function__`` are asked on this thread."""
    return not _C._change_overrides_off(0)


def _get_default_device() -> str:
    """Return the text of the device that factories take when none is given."""
    from shmtensor import get_default_device  # the package imports this module

    return str(get_default_device())


def _is_alias_of(a: Any, b: Any) -> bool:
    """Return whether two tensors have the same storage."""
    return bool(a.untyped_storage()._cdata == b.untyped_storage()._cdata)


def _is_torch_function_mode_enabled() -> bool:
    """Return whether a mode sees the calls of this thread."""
    return bool(_C._function_mode_depth() > 0)


def _are_functorch_transforms_active() -> bool:
    """Return whether this thread is inside of a function transform."""
    return bool(_C._level_count() > 0)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Return what the arguments of `Tensor.to` say: device, dtype, non_blocking, memory format.

    Raises:
        TypeError: They have none of its forms.
    """
    from shmtensor.nn._to import parse_to  # nn stands above this module

    device, dtype, memory_format = parse_to(*args, **kwargs)
    flags = [value for value in args if isinstance(value, bool)]
    return (
        device,
        dtype,
        bool(kwargs.get("non_blocking", flags[0] if flags else False)),
        memory_format,
    )


for _function in (
    _are_functorch_transforms_active,
    _get_accelerator,
    _get_default_device,
    _is_alias_of,
    _is_torch_function_mode_enabled,
    _get_privateuse1_backend_name,
    _get_tracing_state,
    _is_torch_function_enabled,
    _log_api_usage_metadata,
    _log_api_usage_once,
):
    setattr(_C, _function.__name__, _function)
for _name in (
    "_jit_set_profiling_executor",
    "_jit_set_profiling_mode",
    "_jit_set_texpr_fuser_enabled",
    "_jit_override_can_fuse_on_cpu",
    "_jit_override_can_fuse_on_gpu",
    "_jit_set_nvfuser_enabled",
    "_jit_set_nvfuser_guard_mode",
    "_set_graph_executor_optimize",
):
    setattr(_C, _name, _jit_set_setting)
_C._jit_can_fuse_on_cpu = _C._jit_can_fuse_on_gpu = _jit_can_fuse
_C.DispatchKey = keys.DispatchKey
_C.DispatchKeySet = keys.DispatchKeySet
_C._AutoDispatchBelowAutograd = keys.AutoDispatchBelowAutograd
_C._ExcludeDispatchKeyGuard = keys.ExcludeDispatchKeyGuard
_C._IncludeDispatchKeyGuard = keys.IncludeDispatchKeyGuard
_C._DisableTorchDispatch = keys.DisableTorchDispatch
_C.DisableTorchFunction = DisableTorchFunction
_C.DisableTorchFunctionSubclass = DisableTorchFunctionSubclass
_C.TensorBase = _C._TensorBase
setattr(_C, "_LinAlgError", LinAlgError)  # noqa: B010 - not in the stub
for _name in ("Graph", "Value"):
    _members = {"__module__": _C.__name__, "__doc__": "Of TorchScript's graphs: has no instances."}
    setattr(_C, _name, type(_name, (), _members))
setattr(_C._nn, "_parse_to", _parse_to)  # noqa: B010 - the stub lists only operators
setattr(_C, "_TensorMeta", type(_C._TensorBase))  # noqa: B010 - not in the stub


def is_legacy_batchedtensor(tensor: Any) -> bool:
    """Return False: torch's first `vmap` is not here."""
    return False


is_legacy_batchedtensor.__module__ = _C._functorch.__name__
setattr(_C._functorch, "is_legacy_batchedtensor", is_legacy_batchedtensor)  # noqa: B010 - as above
setattr(_C._functorch, "is_functorch_wrapped_tensor", _C._functorch.is_batchedtensor)  # noqa: B010
_C._functorch.__spec__ = ModuleSpec(_C._functorch.__name__, None)
#: Importable as a module, though the extension is not a package.
sys.modules[_C._functorch.__name__] = _C._functorch
