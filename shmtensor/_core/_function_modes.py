"""Modes that answer every call of their thread, and what `overrides` says of functions.

Source:
    torch.overrides.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from types import (
    BuiltinFunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    ModuleType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._core._without_overrides import DisableTorchFunction

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "TorchFunctionMode",
    "_get_current_function_mode",
    "_get_current_function_mode_stack",
    "enable_reentrant_dispatch",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "redispatch_function",
]


class TorchFunctionMode:
    """A context in which ``__torch_function__`` gets every call of this thread.

    Subclasses override ``__torch_function__(self, func, types, args, kwargs)`` and mostly end in
    ``return func(*args, **kwargs)``, which goes on to the next mode out, or to the tensors.

    Source:
        torch.overrides.TorchFunctionMode.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """See a call, and answer it. Must be overridden.

        Args:
            func: What is called: a function, a method of `Tensor`, or ``__get__`` of a property.
            types: The classes of arguments that answer calls themselves.
            args: The positional arguments.
            kwargs: The arguments by name.
        """
        raise NotImplementedError

    def __enter__(self) -> Any:
        _C._push_function_mode(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        _C._pop_function_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a mode; entering it is what takes effect."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that lets every call go on."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> TorchFunctionMode | None:
    """Return the innermost mode of this thread, or None."""
    depth = _C._function_mode_depth()
    mode: TorchFunctionMode | None = _C._function_mode_at(depth - 1) if depth else None
    return mode


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    """Return the modes of this thread, the outermost first."""
    return [_C._function_mode_at(i) for i in range(_C._function_mode_depth())]


def redispatch_function(
    func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """Call *func* plainly, from within ``__torch_function__``.

    Args:
        func: As ``__torch_function__`` got it.
        types: Likewise.
        args: Likewise.
        kwargs: Likewise.
    """
    with DisableTorchFunction():
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """A context inside of ``__torch_dispatch__`` whose calls are recorded, as those outside are.

    Source:
        torch.overrides.enable_reentrant_dispatch.
    """
    before = _C._record_again(None)
    try:
        yield
    finally:
        _C._record_again(before)


# --- which functions can be overridden -----------------------------------------------------------

# Functions without a tensor among their arguments, and what says something of classes themselves.
_IGNORED = {
    "shmtensor": """
    arange are_deterministic_algorithms_enabled as_strided as_tensor asarray
    autocast_decrement_nesting autocast_increment_nesting bartlett_window blackman_window
    broadcast_shapes can_cast clear_autocast_cache compile cond empty empty_permuted
    empty_quantized empty_strided enable_grad eye fill fork from_file from_numpy from_dlpack
    frombuffer full get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype
    get_autocast_ipu_dtype get_autocast_xla_dtype get_default_device get_default_dtype
    get_deterministic_debug_mode get_device_module get_float32_matmul_precision
    get_num_interop_threads get_num_threads get_rng_state hamming_window hann_window
    import_ir_module inference_mode init_num_threads initial_seed is_anomaly_check_nan_enabled
    is_anomaly_enabled is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled
    is_autocast_ipu_enabled is_autocast_xla_enabled
    is_deterministic_algorithms_warn_only_enabled is_grad_enabled is_inference_mode_enabled
    is_storage is_tensor is_vulkan_available is_warn_always_enabled kaiser_window linspace
    load logspace manual_seed no_grad normal ones parse_ir parse_schema promote_types rand
    rand_like randint randint_like randn randn_like randperm range result_type save
    scalar_tensor seed set_anomaly_enabled set_autocast_cache_enabled set_autocast_cpu_dtype
    set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype
    set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype
    set_autocast_xla_enabled set_default_device set_default_dtype set_default_tensor_type
    set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal
    set_grad_enabled set_num_interop_threads set_num_threads set_printoptions set_rng_state
    set_warn_always sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor
    sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor tensor thread_safe_generator
    tril_indices triu_indices typename use_deterministic_algorithms vander vmap wait zeros
    """,
    "shmtensor.fft": "fftfreq rfftfreq",
    "shmtensor.nn.functional": """
    hardsigmoid hardswish sigmoid tanh upsample upsample_bilinear upsample_nearest
    handle_torch_function has_torch_function has_torch_function_unary
    has_torch_function_variadic boolean_dispatch
    """,
    "shmtensor.nn.init": """
    calculate_gain constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse
    uniform xavier_normal xavier_uniform
    """,
}
_IGNORED_METHODS = """
    __delattr__ __delitem__ __dir__ __getattribute__ __hash__ __init__ __init_subclass__
    __iter__ __new__ __setattr__ __subclasshook__ __torch_function__
    __arrow_c_array__ __arrow_c_schema__ _retain_storage _share_storage _make_subclass
    _make_wrapper_subclass as_subclass new new_empty new_empty_strided new_full new_ones
    new_tensor new_zeros stride to_padded_tensor to_sparse_bsc to_sparse_bsr to_sparse_coo
    to_sparse_csc to_sparse_csr unflatten
""".split()

_IGNORED_PROPERTIES = {"__dict__", "_storage_cdata", "names"}

# Python's operators that ask; others it makes for every class.
_OPERATORS = """
    __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__
    __rtruediv__ __itruediv__ __floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__
    __pow__ __rpow__ __ipow__ __matmul__ __rmatmul__ __and__ __rand__ __iand__ __or__ __ror__
    __ior__ __xor__ __rxor__ __ixor__ __lshift__ __rlshift__ __ilshift__ __rshift__ __rrshift__
    __irshift__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __invert__ __getitem__ __setitem__
    __div__ __abs__ __neg__ __pos__ __len__ __contains__ __bool__ __int__ __float__ __index__
""".split()

#: Where functions are that a class may be asked about.
_SPACES = "functional nn.functional nn.init linalg fft special autograd".split()


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return public functions that no class is asked about.

    Source:
        torch.overrides.get_ignored_functions.
    """
    ignored = {getattr(Tensor, name) for name in _IGNORED_METHODS if hasattr(Tensor, name)}
    for space, names in _IGNORED.items():
        module = import_module(space)
        ignored |= {getattr(module, name) for name in names.split() if hasattr(module, name)}
    return ignored


def _is_operator(value: Any) -> bool:
    """Whether a function of C is an operator, of one of the tables with operators."""
    name = getattr(value, "__name__", "")
    return any(getattr(table, name, None) is value for table in (_C, _C._nn))


def _asks(name: str, method: Any) -> bool:
    """Whether a method of tensors lets classes answer."""
    if isinstance(method, WrapperDescriptorType):
        return name in _OPERATORS
    if isinstance(method, MethodDescriptorType):
        return method.__objclass__ is _C._TensorBase
    return isinstance(method, _C._Overridable)


def _can_be_overridden(value: Any) -> bool:
    if isinstance(value, _C._Overridable):
        return True
    return isinstance(value, BuiltinFunctionType) and _is_operator(value)


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions that a class may be asked about, by the namespace they are in.

    Returns:
        Namespace -> functions. A property stands for itself, with its ``__get__``.

    Source:
        torch.overrides.get_overridable_functions.
    """
    ignored = get_ignored_functions()
    found: dict[Any, list[Callable[..., Any]]] = {}
    for space in (shmtensor, *(import_module(f"shmtensor.{name}") for name in _SPACES)):
        values = [getattr(space, name) for name in dir(space) if not name.startswith("_")]
        found[space] = [v for v in values if _can_be_overridden(v) and v not in ignored]
    found[Tensor] = []
    for name in dir(Tensor):
        value = getattr(Tensor, name)
        if isinstance(value, (GetSetDescriptorType, property)):
            if name not in _IGNORED_PROPERTIES:
                found[value] = [value.__get__]
        elif _asks(name, value) and value not in ignored:
            found[Tensor].append(value)
    return found


@functools.cache
def names_of_functions() -> dict[Callable[..., Any], str]:
    """Overridable functions and accesses of properties -> their qualified names."""
    names: dict[Callable[..., Any], str] = {}
    for space in get_overridable_functions():
        if not isinstance(space, ModuleType):
            continue
        for name in dir(space):
            value = getattr(space, name)
            if not name.startswith("_") and _can_be_overridden(value):
                names[value] = f"{space.__name__}.{name}"
    for name, value in [(n, getattr(Tensor, n)) for n in dir(Tensor)]:
        if callable(value):
            names[value] = f"shmtensor.Tensor.{name}"
            continue
        for access in ("__get__", "__set__", "__delete__"):
            if hasattr(value, access):
                names[getattr(value, access)] = f"shmtensor.Tensor.{name}.{access}"
    return names


def _stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes what *function* takes, and returns -1."""

    def stand_in(*args: Any, **kwargs: Any) -> int:
        return -1

    try:
        signature = inspect.signature(function)
    except ValueError:  # an overloaded function of C
        return stand_in
    stand_in.__signature__ = signature  # type: ignore[attr-defined]
    return stand_in


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return a stand-in for every function that a class may be asked about; it returns -1.

    It has the signature of the function, where that has one.

    Source:
        torch.overrides.get_testing_overrides.
    """
    return {
        function: _stand_in(function)
        for functions in get_overridable_functions().values()
        for function in functions
    }
