"""torch's names for missing features, and its second names for others: ``_torch``.

The package has them too; `dir` of it leaves them out.
"""

from __future__ import annotations

# ruff: noqa: I001 - one statement for each module, though names are exported by "as".

from shmtensor._torch import (
    _VF as _VF,
    _custom_ops as _custom_ops,
    _guards as _guards,
    __config__ as __config__,
    _dynamo as _dynamo,
    _higher_order_ops as _higher_order_ops,
    _jit_internal as _jit_internal,
    _logging as _logging,
    _prims_common as _prims_common,
    _subclasses as _subclasses,
    _tensor_str as _tensor_str,
    accelerator as accelerator,
    ao as ao,
    backends as backends,
    classes as classes,
    compiler as compiler,
    cuda as cuda,
    export as export,
    jit as jit,
    mps as mps,
    mtia as mtia,
    nested as nested,
    onnx as onnx,
    package as package,
    quantization as quantization,
    torch_version as torch_version,
    xpu as xpu,
)
from shmtensor._torch._absent_dtypes import *  # noqa: F403
from shmtensor._torch._build_facts import *  # noqa: F403
from shmtensor._C import segment_reduce as _segment_reduce  # noqa: F401
from shmtensor.nn.functional.grouped import _grouped_mm as _grouped_mm
from shmtensor.storage.untyped import StorageBase as StorageBase
from shmtensor._torch.compiler import compile as compile
from shmtensor._torch.jit import ScriptModule as ScriptModule, fork as fork, wait as wait
