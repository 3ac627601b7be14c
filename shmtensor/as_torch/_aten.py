"""Operators of torch that are no operators here, for programs that look them up by name.

Libraries look up operators when they are imported, to find them in graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor._core import _checks, _functions
from shmtensor.library import Library
from shmtensor.nn.functional.grouped import _grouped_mm

__all__ = ["define_aten_operators"]

#: Calling one says that it has no kernel.
_DECLARED = (
    "_pin_memory(Tensor self, Device? device=None) -> Tensor",
    "_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor",
    "_sparse_mm_reduce_impl(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)",
)
_RANGE = "(Scalar size, *, int? min=None, int? max=None) -> ()"
#: What is a function or a method of this package.
_COMPUTED: dict[str, Callable[..., Any]] = {
    "_assert_async(Tensor self) -> ()": _checks._assert_async,
    "_assert_async.msg(Tensor self, str assert_msg) -> ()": _checks._assert_async,
    "_assert_scalar(Scalar self, str assert_msg) -> ()": _checks._assert_scalar,
    "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, "
    "ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()": (
        _checks._assert_tensor_metadata
    ),
    "_is_all_true(Tensor self) -> Tensor": _functions._is_all_true,
    "_is_any_true(Tensor self) -> Tensor": _functions._is_any_true,
    f"sym_constrain_range{_RANGE}": _checks.sym_constrain_range,
    f"sym_constrain_range_for_size{_RANGE}": _checks.sym_constrain_range_for_size,
    "sym_numel(Tensor self) -> SymInt": shmtensor.Tensor.numel,
    "sym_size.int(Tensor self, int dim) -> SymInt": shmtensor.Tensor.size,
    "sym_storage_offset(Tensor self) -> SymInt": shmtensor.Tensor.storage_offset,
    "sym_stride.int(Tensor self, int dim) -> SymInt": shmtensor.Tensor.stride,
    "detach_(Tensor(a!) self) -> Tensor(a!)": shmtensor.Tensor.detach_,
    "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, "
    "ScalarType? out_dtype=None) -> Tensor": _grouped_mm,
}
_LIBRARY = Library("aten", "FRAGMENT")


def define_aten_operators() -> None:
    """Add the operators to ``ops.aten``."""
    for schema in _DECLARED:
        _LIBRARY.define(schema)
    for schema, function in _COMPUTED.items():
        _LIBRARY.define(schema)
        _LIBRARY.impl(schema.partition("(")[0], function, "CompositeImplicitAutograd")
