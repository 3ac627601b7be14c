"""The part of ``_C.pyi`` that no operator states: small types, properties, numbers, indexing."""

from __future__ import annotations

from collections.abc import Iterable

HEAD = """
from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

from typing_extensions import Self

from shmtensor._tensor import Tensor
from shmtensor.storage import TypedStorage, UntypedStorage

_Number: TypeAlias = builtins.bool | builtins.int | builtins.float | builtins.complex

class dtype:
    itemsize: builtins.int
    is_floating_point: builtins.bool
    is_complex: builtins.bool
    is_signed: builtins.bool
    def to_real(self) -> dtype: ...
    def to_complex(self) -> dtype: ...

class layout: ...
class memory_format: ...

class device:
    type: builtins.str
    index: builtins.int | None
    def __init__(
        self, type: builtins.str | device | builtins.int, index: builtins.int | None = ...
    ) -> None: ...
    def __enter__(self) -> device: ...
    def __exit__(self, *args: object) -> None: ...

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

class Generator:
    def __init__(self, device: device | builtins.str = ...) -> None: ...
    def manual_seed(self, seed: builtins.int) -> Generator: ...
    def initial_seed(self) -> builtins.int: ...
    def seed(self) -> builtins.int: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, state: Tensor) -> Generator: ...
    def __getattr__(self, name: builtins.str) -> Any: ...

class Size(tuple[builtins.int, ...]):
    def numel(self) -> builtins.int: ...

"""

_BINARY = "add sub mul truediv floordiv mod pow matmul".split()
_BITWISE = "and or xor lshift rshift".split()
_COMPARE = "lt le gt ge eq ne".split()

_PROPERTIES = {
    "builtins.bool": "is_cpu is_cuda is_leaf is_meta is_mkldnn is_mps is_nested is_quantized"
    " is_sparse is_sparse_csr is_xpu retains_grad",
    "builtins.int": "_cdata _storage_cdata _version itemsize nbytes ndim output_nr",
    "Tensor": "H T imag mH mT real",
    "Tensor | None": "_base",
    "Any": "_backward_hooks grad_fn names",
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
    @overload
    def to(
        self,
        device: _device | builtins.str | builtins.int | None = ...,
        dtype: _DtypeLike | None = ...,
        non_blocking: builtins.bool = ...,
        copy: builtins.bool = ...,
        *,
        memory_format: memory_format | None = ...,
    ) -> Tensor: ...
    @overload
    def to(
        self,
        dtype: _DtypeLike,
        non_blocking: builtins.bool = ...,
        copy: builtins.bool = ...,
        *,
        memory_format: memory_format | None = ...,
    ) -> Tensor: ...
    @overload
    def to(
        self,
        other: _TensorBase,
        non_blocking: builtins.bool = ...,
        copy: builtins.bool = ...,
        *,
        memory_format: memory_format | None = ...,
    ) -> Tensor: ...
    def __arrow_c_array__(self, requested_schema: object = ...) -> tuple[object, object]: ...
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
    def __contains__(self, item: object) -> builtins.bool: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __hash__(self) -> builtins.int: ...
    @classmethod
    def _make_subclass(
        cls, kind: Any, data: _TensorBase, requires_grad: builtins.bool = ...
    ) -> Any: ...
    def backward(
        self,
        gradient: _TensorBase | None = ...,
        retain_graph: builtins.bool | None = ...,
        create_graph: builtins.bool = ...,
        inputs: Any = ...,
    ) -> None: ...
    def data_ptr(self) -> builtins.int: ...
    def detach_(self) -> Self: ...
    def dim(self) -> builtins.int: ...
    def ndimension(self) -> builtins.int: ...
    def element_size(self) -> builtins.int: ...
    def nelement(self) -> builtins.int: ...
    def numel(self) -> builtins.int: ...
    def get_device(self) -> builtins.int: ...
    def is_complex(self) -> builtins.bool: ...
    def is_contiguous(self, memory_format: memory_format = ...) -> builtins.bool: ...
    def is_floating_point(self) -> builtins.bool: ...
    def is_inference(self) -> builtins.bool: ...
    def is_pinned(self) -> builtins.bool: ...
    def is_same_size(self, other: _TensorBase) -> builtins.bool: ...
    def is_set_to(self, tensor: _TensorBase) -> builtins.bool: ...
    def is_shared(self) -> builtins.bool: ...
    def share_memory_(self) -> Self: ...
    def is_signed(self) -> builtins.bool: ...
    def item(self) -> Any: ...
    def tolist(self) -> Any: ...
    def register_hook(self, hook: Callable[[Tensor], Any]) -> Any: ...
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any: ...
    def requires_grad_(self, requires_grad: builtins.bool = ...) -> Self: ...
    def retain_grad(self) -> None: ...
    @overload
    def size(self) -> Size: ...
    @overload
    def size(self, dim: builtins.int) -> builtins.int: ...
    @overload
    def stride(self) -> builtins.tuple[builtins.int, ...]: ...
    @overload
    def stride(self, dim: builtins.int) -> builtins.int: ...
    def storage_offset(self) -> builtins.int: ...
"""
_CASTS = "bfloat16 bool byte cdouble cfloat chalf char cpu double float half int long short".split()

# What the package's own modules use, which check their arguments themselves.
_PRIVATE = (
    "Node _FunctionBase _HookHandle _PackedMessage _Ring _add_batch_dim _backward_number"
    " _backward_reaches _batched_parts _call_below_level _call_outside_levels"
    " _end_transform_inputs _functorch _grad_increment_nesting _graph_reaches_others _level_count"
    " _level_decrement_nesting _lift _remove_batch_dim _vmap_facts _vmap_increment_nesting"
    " _vmap_level _without_history"
    " _begin_message _bind_message"
    " _call_operator _change_keys"
    " _change_overrides_off _clear_autocast_cache _dispatch_keys _dispatch_mode_depth"
    " _dumps_message _end_message _enter_dual_level _exit_dual_level"
    " _find_operator"
    " _function_apply _function_mode_at _function_mode_depth"
    " _get_anomaly _has_override _increment_version _infer_size"
    " _is_fwd_grad_enabled _legacy_new"
    " _library_define _library_impl _make_dual _named_result _new_ring _node_address _open_ring"
    " _operator_arguments"
    " _operator_has_kernel _operator_names _operator_overloads _pack_shared_storage"
    " _pack_shared_tensor _pop_dispatch_mode _pop_function_mode _pop_saved_tensors_hooks"
    " _push_dispatch_mode _push_function_mode"
    " _push_saved_tensors_hooks _rebuild_message _rebuild_shared_storage _rebuild_shared_tensor"
    " _reduce_for_message _reduce_shared_tensor _reduction_chain _run_backward _set_anomaly"
    " _raise_interrupt _set_array_reduce _set_autocast _set_default_dtype _set_dispatch_trace"
    " _set_fwd_grad_enabled _set_grad_enabled"
    " _set_warn_always _set_inference_mode _set_messages _set_overload_class _set_slow_reduce"
    " _set_tensor_class _set_torch_function _tangent_of _tensor_from_cdata _unpack_dual ffi lib"
)
_LAYOUTS = "strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc"
_FORMATS = "channels_last channels_last_3d contiguous_format preserve_format"

_FUNCTIONS = """
default_generator: Generator
def tensor(
    data: Any,
    *,
    dtype: _DtypeLike | None = ...,
    device: device | builtins.str | None = ...,
    requires_grad: builtins.bool = ...,
    pin_memory: builtins.bool = ...,
    shared: builtins.bool = ...,
    **options: Any,
) -> Tensor: ...
def as_tensor(
    data: Any,
    dtype: _DtypeLike | None = ...,
    device: device | builtins.str | None = ...,
    *,
    shared: builtins.bool = ...,
) -> Tensor: ...
def from_numpy(ndarray: Any, *, shared: builtins.bool = ...) -> Tensor: ...
def from_dlpack(ext_tensor: Any, **options: Any) -> Tensor: ...
def _from_arrow(schema: object, array: object) -> Tensor: ...
def frombuffer(
    buffer: Any,
    *,
    dtype: _DtypeLike,
    count: builtins.int = ...,
    offset: builtins.int = ...,
    requires_grad: builtins.bool = ...,
) -> Tensor: ...
def set_flush_denormal(mode: builtins.bool) -> builtins.bool: ...
def get_default_device() -> device: ...
def set_default_device(device: device | builtins.str | None) -> None: ...
def get_num_threads() -> builtins.int: ...
def set_num_threads(n: builtins.int) -> None: ...
def get_default_dtype() -> dtype: ...
def is_grad_enabled() -> builtins.bool: ...
def promote_types(type1: dtype, type2: dtype) -> dtype: ...
def result_type(tensor1: Any, tensor2: Any) -> dtype: ...
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
    lines = ["    def __getattr__(self, name: builtins.str) -> Any: ...\n"]
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
                lines.append(f"    def {slot}(self, other: {operand}) -> {result}: ...\n")
    for name in _COMPARE:
        ignored = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        lines.append(f"    def __{name}__(self, other: Any) -> Tensor: ...{ignored}\n")
    layout = "*, memory_format: memory_format | None = ..."
    lines += [
        f"    def {name}(self, {layout}) -> Tensor: ...\n"
        for name in _CASTS
        if name not in generated
    ]
    return "".join(lines) + _METHODS.lstrip("\n")
