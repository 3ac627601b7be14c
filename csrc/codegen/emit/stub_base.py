"""The part of ``_C.pyi`` that no operator states: small types, properties, numbers, indexing."""

from __future__ import annotations

from collections.abc import Iterable

HEAD = """
from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType, TracebackType
from typing import Any, ClassVar, SupportsIndex, TypeAlias, TypeVar, final, overload

import numpy
from typing_extensions import CapsuleType, Self, disjoint_base

from shmtensor._core._tensor import Tensor
from shmtensor.storage import TypedStorage, UntypedStorage
from shmtensor.utils.hooks import RemovableHandle

_S = TypeVar("_S", bound=_TensorBase)
_Number: TypeAlias = builtins.bool | builtins.int | builtins.float | builtins.complex
_Index: TypeAlias = (
    SupportsIndex
    | builtins.slice[Any, Any, Any]
    | EllipsisType
    | _TensorBase
    | builtins.range
    | builtins.list[Any]
    | builtins.tuple[Any, ...]
    | numpy.ndarray[Any, Any]
    | None
)

@final
class dtype:
    @property
    def itemsize(self) -> builtins.int: ...
    @property
    def is_floating_point(self) -> builtins.bool: ...
    @property
    def is_complex(self) -> builtins.bool: ...
    @property
    def is_signed(self) -> builtins.bool: ...
    @property
    def _code(self) -> builtins.int: ...
    def to_real(self) -> dtype: ...
    def to_complex(self) -> dtype: ...

@final
class layout: ...

@final
class memory_format: ...

@final
class device:
    @property
    def type(self) -> builtins.str: ...
    @property
    def index(self) -> builtins.int | None: ...
    def __new__(
        cls, type: builtins.str | device | builtins.int, index: builtins.int | None = None
    ) -> Self: ...
    def __enter__(self) -> device: ...
    def __exit__(
        self,
        kind: builtins.type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

# Inside _TensorBase these names are properties.
_dtype: TypeAlias = dtype
_DtypeLike: TypeAlias = (
    dtype
    | builtins.type[builtins.bool]
    | builtins.type[builtins.int]
    | builtins.type[builtins.float]
    | builtins.type[builtins.complex]
)
_layout: TypeAlias = layout
_device: TypeAlias = device

@disjoint_base
class Generator:
    @property
    def device(self) -> _device: ...
    def __new__(cls, device: _device | builtins.str = ...) -> Self: ...
    def manual_seed(self, seed: builtins.int, /) -> Generator: ...
    def initial_seed(self) -> builtins.int: ...
    def seed(self) -> builtins.int: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, state: _TensorBase, /) -> Generator: ...
    def clone_state(self) -> Generator: ...

class Size(tuple[builtins.int, ...]):
    def numel(self) -> builtins.int: ...

@disjoint_base
class _Request:
    value: Any
    @property
    def _server(self) -> Any: ...
    @property
    def _is_open(self) -> builtins.bool: ...
    @property
    def _is_wanted(self) -> builtins.bool: ...
    @property
    def _takes_pickles(self) -> builtins.bool: ...
    def _answer(self, value: object, is_error: builtins.bool, /) -> builtins.bool: ...
    def _let_go(self) -> None: ...

class _GradToggle:
    __slots__ = ("mode", "_before", "_inference_before")
    mode: builtins.bool
    _before: builtins.bool
    def __new__(cls, function: Any = None) -> Self: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *exc: object) -> None: ...

class _GradSetter:
    __slots__ = ("mode", "_before", "_inference_before")
    mode: builtins.bool
    _before: builtins.bool
    def __init__(self, mode: object) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *exc: object) -> None: ...

class _InferenceSwitch:
    __slots__ = ("mode", "_before", "_inference_before")
    mode: builtins.bool
    _before: builtins.bool
    _inference_before: builtins.bool
    def __new__(cls, mode: Any = True) -> Self: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *exc: object) -> None: ...

@disjoint_base
class _Descriptor:
    def __new__(cls, number: builtins.int, high: builtins.bool = True) -> Self: ...
    def fileno(self) -> builtins.int: ...
    def close(self) -> None: ...

@disjoint_base
class Node:
    def __call__(self, *grads: Tensor | None) -> Any: ...
    @property
    def metadata(self) -> builtins.dict[Any, Any]: ...
    @property
    def next_functions(self) -> builtins.tuple[builtins.tuple[Node | None, builtins.int], ...]: ...
    @property
    def requires_grad(self) -> builtins.bool: ...
    @property
    def variable(self) -> Tensor: ...
    def name(self) -> builtins.str: ...
    def register_hook(self, fn: Callable[..., Any], /) -> RemovableHandle: ...
    def register_prehook(self, fn: Callable[..., Any], /) -> RemovableHandle: ...
    def _register_hook_dict(self, tensor: _TensorBase, /) -> None: ...
    def _sequence_nr(self) -> builtins.int: ...

@final
class _HookHandle:
    @property
    def id(self) -> builtins.int: ...
    def remove(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

# Programs set attributes of their own: ctx.factor = 2.
@disjoint_base
class _FunctionBase:
    materialize_grads: builtins.bool
    @property
    def saved_tensors(self) -> builtins.tuple[Tensor, ...]: ...
    @property
    def saved_variables(self) -> builtins.tuple[Tensor, ...]: ...
    @property
    def _raw_saved_tensors(self) -> builtins.tuple[SavedTensor, ...]: ...
    @property
    def saved_for_forward(self) -> Any: ...
    @property
    def to_save(self) -> Any: ...
    @property
    def dirty_tensors(self) -> Any: ...
    @property
    def non_differentiable(self) -> Any: ...
    needs_input_grad: builtins.tuple[builtins.bool, ...]
    def __getattribute__(self, name: builtins.str, /) -> Any: ...
    def __setattr__(self, name: builtins.str, value: Any, /) -> None: ...
    def save_for_backward(self, *tensors: _TensorBase | None) -> None: ...
    def save_for_forward(self, *tensors: _TensorBase | None) -> None: ...
    def mark_shared_storage(
        self, *pairs: builtins.tuple[_TensorBase, _TensorBase]
    ) -> None: ...
    def mark_dirty(self, *tensors: _TensorBase) -> None: ...
    def mark_non_differentiable(self, *tensors: _TensorBase) -> None: ...
    def set_materialize_grads(self, value: builtins.bool, /) -> None: ...

class Graph: ...
class Value: ...
@final
class SavedTensor:
    @property
    def data(self) -> Tensor: ...
    @property
    def unpack_hook(self) -> Callable[[Any], Tensor] | None: ...
    def register_hooks(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor], /
    ) -> None: ...
    def unpack(self) -> Tensor | None: ...

"""

_BINARY = "add sub mul truediv floordiv mod pow matmul".split()
_BITWISE = "and or xor lshift rshift".split()
_COMPARE = "lt le gt ge eq ne".split()

_PROPERTIES = {
    "builtins.bool": "is_cpu is_cuda is_leaf is_meta is_mkldnn is_mps is_nested is_quantized"
    " is_sparse is_sparse_csr is_xpu retains_grad volatile",
    "builtins.int": "_cdata _storage_cdata _version itemsize nbytes ndim output_nr",
    "Tensor": "H T imag mH mT real",
    "Tensor | None": "_base",
    "Any": "_backward_hooks _post_accumulate_grad_hooks",
    "Node | None": "grad_fn _grad_fn",
    "builtins.tuple[builtins.str | None, ...]": "names",
    "_dtype": "dtype",
    "_device": "device",
    "_layout": "layout",
    "Size": "shape",
}
_SETTABLE = {
    "_grad": "Tensor | None",
    "data": "Tensor",
    "grad": "Tensor | None",
    "requires_grad": "builtins.bool",
}
# Methods whose arguments C code of their own reads (python/tensor/to.c), although there are
# operators, too.
METHODS_IN_C = ("to",)
_METHODS = """
    def __new__(cls, *args: Any, **options: Any) -> Self: ...
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __dlpack__(
        self,
        *,
        stream: builtins.int | None = None,
        max_version: builtins.tuple[builtins.int, builtins.int] | None = None,
        dl_device: builtins.tuple[builtins.int, builtins.int] | None = None,
        copy: builtins.bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> builtins.tuple[builtins.int, builtins.int]: ...
    __dlpack_c_exchange_api__: object
    @overload
    def to(
        self,
        device: _device | builtins.str | builtins.int | None = None,
        dtype: _DtypeLike | None = None,
        non_blocking: builtins.bool = False,
        copy: builtins.bool = False,
        *,
        memory_format: memory_format | None = None,
    ) -> Tensor: ...
    @overload
    def to(
        self,
        dtype: _DtypeLike,
        non_blocking: builtins.bool = False,
        copy: builtins.bool = False,
        *,
        memory_format: memory_format | None = None,
    ) -> Tensor: ...
    @overload
    def to(
        self,
        other: _TensorBase,
        non_blocking: builtins.bool = False,
        copy: builtins.bool = False,
        *,
        memory_format: memory_format | None = None,
    ) -> Tensor: ...
    def __arrow_c_array__(
        self, requested_schema: object = None
    ) -> builtins.tuple[CapsuleType, CapsuleType]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __abs__(self) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __bool__(self) -> builtins.bool: ...
    def __int__(self) -> builtins.int: ...
    def __float__(self) -> builtins.float: ...
    def __complex__(self) -> builtins.complex: ...
    def __index__(self) -> builtins.int: ...
    def __len__(self) -> builtins.int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, item: object, /) -> builtins.bool: ...
    def __getitem__(self, index: _Index, /) -> Tensor: ...
    def __setitem__(self, index: _Index, value: _TensorBase | _Number, /) -> None: ...
    def __delitem__(self, index: _Index, /) -> None: ...
    def __hash__(self) -> builtins.int: ...
    def __buffer__(self, flags: builtins.int, /) -> memoryview: ...
    @staticmethod
    def _make_subclass(cls: Any, data: _TensorBase, require_grad: builtins.bool = False) -> Any: ...
    @staticmethod
    def _make_wrapper_subclass(
        cls: builtins.type[_S],
        size: Sequence[builtins.int],
        strides: Sequence[builtins.int] | None = None,
        storage_offset: builtins.int | None = None,
        memory_format: Any = None,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: builtins.bool = False,
        requires_grad: builtins.bool = False,
        dispatch_sizes_strides_policy: str | None = None,
        dispatch_device: builtins.bool = False,
        dispatch_layout: builtins.bool = False,
        _extra_dispatch_keys: Any = None,
        storage_size: builtins.int | None = None,
    ) -> _S: ...
    def _share_storage(self, of: _TensorBase, /) -> None: ...
    def as_subclass(self, cls: builtins.type[_S], /) -> _S: ...
    def backward(
        self,
        gradient: _TensorBase | None = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: _TensorBase | Sequence[_TensorBase] | None = None,
    ) -> None: ...
    def _retain_storage(self, place: builtins.int) -> None: ...
    def data_ptr(self) -> builtins.int: ...
    def detach_(self) -> Self: ...
    def dim(self) -> builtins.int: ...
    def ndimension(self) -> builtins.int: ...
    def element_size(self) -> builtins.int: ...
    def nelement(self) -> builtins.int: ...
    def numel(self) -> builtins.int: ...
    def get_device(self) -> builtins.int: ...
    def is_complex(self) -> builtins.bool: ...
    def is_contiguous(self, *, memory_format: memory_format = ...) -> builtins.bool: ...
    def is_floating_point(self) -> builtins.bool: ...
    def is_inference(self) -> builtins.bool: ...
    def is_pinned(self) -> builtins.bool: ...
    def is_same_size(self, other: _TensorBase, /) -> builtins.bool: ...
    def is_set_to(self, tensor: _TensorBase, /) -> builtins.bool: ...
    def is_shared(self) -> builtins.bool: ...
    def share_memory_(self) -> Self: ...
    def is_signed(self) -> builtins.bool: ...
    def item(self) -> builtins.int | builtins.float | builtins.bool: ...
    def tolist(self) -> Any: ...
    def register_hook(self, hook: Callable[[Tensor], Any], /) -> RemovableHandle: ...
    def register_post_accumulate_grad_hook(
        self, hook: Callable[[Tensor], None], /
    ) -> RemovableHandle: ...
    def requires_grad_(self, requires_grad: builtins.bool = True) -> Self: ...
    def retain_grad(self) -> None: ...
    @overload
    def size(self, dim: builtins.int) -> builtins.int: ...
    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def stride(self, dim: builtins.int) -> builtins.int: ...
    @overload
    def stride(self, dim: None = None) -> builtins.tuple[builtins.int, ...]: ...
    def storage_offset(self) -> builtins.int: ...
"""
_CASTS = "bfloat16 bool byte cdouble cfloat chalf char cpu double float half int long short".split()

# What the package's own modules use, which check their arguments themselves.
_PRIVATE = (
    "_Event _MOST_FUTEXES _MOST_PARTIES _MOST_PERMITS _NamedLock _Overridable _PackedMessage"
    " _RingWait _TaskSender"
    " _TensorMeta _Ring _add_batch_dim"
    " _backward_number _backward_outermost_number _backward_reaches _batched_parts"
    " _call_below_level _call_outside_levels"
    " _end_transform_inputs _functorch _grad_increment_nesting _graph_reaches_others"
    " _has_tangents_inside _jvp_increment_nesting _level_count"
    " _level_decrement_nesting _lift _module_call _remove_batch_dim _vmap_facts"
    " _vmap_increment_nesting _vmap_level _without_history"
    " _begin_copies _begin_send _bind_message"
    " _call_operator _call_sending _call_tracked _change_keys"
    " _change_overrides_off _clear_autocast_cache _dispatch_keys _dispatch_mode_depth"
    " _dumps_message _end_copies _end_send _enter_dual_level _exit_dual_level"
    " _find_operator"
    " _function_apply _function_mode_at _function_mode_depth"
    " _get_anomaly _goes_as_copy _has_override _increment_version _infer_size"
    " _is_fwd_grad_enabled _legacy_new"
    " _library_define _library_impl _make_dual _named_event _named_result _named_ring _named_topic"
    " _new_ring _node_address"
    " _new_line _open_ring"
    " _operator_aliases _operator_arguments"
    " _operator_has_kernel _operator_overloads _pack_shared_storage"
    " _pack_shared_tensor _pinned_view"
    " _pop_dispatch_mode _pop_function_mode _pop_saved_tensors_hooks"
    " _push_dispatch_mode _push_function_mode"
    " _push_saved_tensors_hooks _rebuild_message _rebuild_shared_storage _rebuild_shared_tensor"
    " _reduce_for_message _reduce_shared_tensor _reduction_chain _run_backward _set_anomaly"
    " _raise_interrupt _set_array_reduce _set_autocast _set_default_dtype _set_dispatch_trace"
    " _send_message _serve _simple_array _set_fwd_grad_enabled _set_grad_enabled _set_fed_rings"
    " _set_fills_uninitialized"
    " _set_warn_always _set_messages _set_overload_class _set_slow_reduce"
    " _set_tensor_class _set_torch_dispatch _set_torch_function _take_requests _tangent_at"
    " _tangent_of"
    " _tensor_from_place"
    " _unpack_dual ffi lib"
    " _AutoDispatchBelowAutograd _ExcludeDispatchKeyGuard _IncludeDispatchKeyGuard"
    " _DisableTorchDispatch _KeptResult _backward_has_inputs _disabled_torch_dispatch_impl"
    " _disabled_torch_function_impl _foreach_flat _has_answered _record_again"
    " _foreach_rows _get_accelerator _get_privateuse1_backend_name _get_tracing_state"
    " _is_torch_function_enabled _jit_can_fuse_on_cpu _jit_can_fuse_on_gpu"
    " _jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu _jit_set_nvfuser_enabled"
    " _jit_set_nvfuser_guard_mode _jit_set_profiling_executor _jit_set_profiling_mode"
    " _jit_set_texpr_fuser_enabled _keep_result _log_api_usage_metadata _log_api_usage_once"
    " _map_operator _pop_dispatch_mode_below_autograd _profiler_clear _profiler_lost"
    " _profiler_range_begin _profiler_range_end _profiler_records _profiler_runs"
    " _profiler_start _profiler_stop _push_dispatch_mode_below_autograd"
    " _set_as_ours _set_graph_executor_optimize _set_torch_reduce"
)
_LAYOUTS = "strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc jagged"
_FORMATS = "channels_last channels_last_3d contiguous_format preserve_format"

_FUNCTIONS = """
TensorBase = _TensorBase
DispatchKey: Any
DispatchKeySet: Any
DisableTorchFunction: Any
DisableTorchFunctionSubclass: Any
default_generator: Generator
def tensor(
    data: Any,
    *,
    dtype: _DtypeLike | None = None,
    device: device | builtins.str | None = None,
    requires_grad: builtins.bool = False,
    pin_memory: builtins.bool = False,
    shared: builtins.bool = False,
) -> Tensor: ...
def as_tensor(
    data: Any,
    dtype: _DtypeLike | None = None,
    device: device | builtins.str | None = None,
    *,
    shared: builtins.bool = False,
) -> Tensor: ...
def from_numpy(ndarray: numpy.ndarray[Any, Any], *, shared: builtins.bool = False) -> Tensor: ...
def from_dlpack(
    ext_tensor: Any,
    *,
    device: device | builtins.str | None = None,
    copy: builtins.bool | None = None,
) -> Tensor: ...
def _from_arrow(schema: object, array: object) -> Tensor: ...
def frombuffer(
    buffer: Any,
    *,
    dtype: _DtypeLike,
    count: builtins.int = -1,
    offset: builtins.int = 0,
    requires_grad: builtins.bool = False,
) -> Tensor: ...
def set_flush_denormal(mode: builtins.bool, /) -> builtins.bool: ...
def get_default_device() -> device: ...
def set_default_device(device: device | builtins.str | None, /) -> None: ...
def get_num_threads() -> builtins.int: ...
def set_num_threads(n: builtins.int, /) -> None: ...
def get_default_dtype() -> dtype: ...
def is_grad_enabled() -> builtins.bool: ...
def is_inference_mode_enabled() -> builtins.bool: ...
def promote_types(type1: dtype, type2: dtype) -> dtype: ...
def result_type(tensor1: _TensorBase | _Number, tensor2: _TensorBase | _Number) -> dtype: ...
def can_cast(from_: dtype, to: dtype) -> builtins.bool: ...
"""


def functions(dtypes: Iterable[str]) -> str:
    """Names of the module that are no operators."""
    private = "".join(f"{name}: Any\n" for name in _PRIVATE.split())
    formats = "".join(f"{name}: memory_format\n" for name in _FORMATS.split())
    layouts = "".join(f"{name}: layout\n" for name in _LAYOUTS.split())
    types = "".join(f"{name}: dtype\n" for name in dtypes)
    return f"\n{private}{formats}{layouts}{types}{_FUNCTIONS.lstrip()}"


def tensor_members(generated: set[str]) -> str:
    """The members of ``_TensorBase`` that no operator gives; *generated* are those one does."""
    lines = []
    for kind, names in _PROPERTIES.items():
        for name in names.split():
            lines.append(f"    @property\n    def {name}(self) -> {kind}: ...\n")
    for name, kind in _SETTABLE.items():
        lines.append(f"    @property\n    def {name}(self) -> {kind}: ...\n")
        lines.append(f"    @{name}.setter\n    def {name}(self, value: {kind}) -> None: ...\n")
    operand = "_TensorBase | _Number"
    for name in [*_BINARY, *_BITWISE]:
        for prefix, result in (("", "Tensor"), ("r", "Tensor"), ("i", "Self")):
            slot = f"__{prefix}{name}__"
            if slot not in generated:
                if slot == "__imatmul__":  # a @= b is a = a @ b
                    continue
                mod = ", mod: None = None" if slot in ("__pow__", "__rpow__") else ""
                ignored = "  # type: ignore[misc]" if slot == "__ipow__" else ""
                lines.append(
                    f"    def {slot}(self, other: {operand}{mod}, /) -> {result}: ...{ignored}\n"
                )
    for name in _COMPARE:
        ignored = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        lines.append(f"    def __{name}__(self, other: Any, /) -> Tensor: ...{ignored}\n")
    layout = "*, memory_format: memory_format | None = ..."
    lines += [
        f"    def {name}(self, {layout}) -> Tensor: ...\n"
        for name in _CASTS
        if name not in generated
    ]
    return "".join(lines) + _METHODS.lstrip("\n")
