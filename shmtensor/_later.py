"""Parts of the package that stand above most of it, loaded when one is first asked for.

This is the table of them. A module that is imported from the package itself is only stood in for:
its code runs when one of its names is used (`_lazy`). A function or class, and whatever a star
brings, loads the module that it comes from.
"""

from __future__ import annotations

# ruff: noqa: I001 - one statement for each module, though names are exported by "as".

from shmtensor import (
    _VF as _VF,
    _C,
    __config__ as __config__,
    _dynamo as _dynamo,
    _foreach,
    _functorch as _functorch,
    _higher_order_ops as _higher_order_ops,
    _jit_internal as _jit_internal,
    _subclasses as _subclasses,
    _tensor_str as _tensor_str,
    accelerator as accelerator,
    amp as amp,
    ao as ao,
    array_api as array_api,
    backends as backends,
    classes as classes,
    compiler as compiler,
    cpu as cpu,
    cuda as cuda,
    distributed as distributed,
    distributions as distributions,
    export as export,
    fft as fft,
    files as files,
    func as func,
    futures as futures,
    fx as fx,
    hub as hub,
    jit as jit,
    library as library,
    masked as masked,
    monitor as monitor,
    mps as mps,
    mtia as mtia,
    nested as nested,
    nn as nn,
    onnx as onnx,
    optim as optim,
    overrides as overrides,
    package as package,
    profiler as profiler,
    quantization as quantization,
    quasirandom as quasirandom,
    return_types as return_types,
    serialization as serialization,
    signal as signal,
    sparse as sparse,
    testing as testing,
    torch_version as torch_version,
    types as types,
    version as version,
    xpu as xpu,
)
from shmtensor._functorch.apis import vmap as vmap
from shmtensor.sparse._construct import *  # noqa: F403
from shmtensor.sparse._functions import smm as smm, spmm as spmm
from shmtensor.amp import GradScaler as GradScaler, autocast as autocast
from shmtensor._absent_dtypes import *  # noqa: F403
from shmtensor._autocast import *  # noqa: F403
from shmtensor._build_facts import *  # noqa: F403
from shmtensor._checks import *  # noqa: F403
from shmtensor._control_flow import *  # noqa: F403
from shmtensor._lobpcg import lobpcg as lobpcg
from shmtensor._spectrogram import istft as istft, stft as stft
from shmtensor._streams import *  # noqa: F403
from shmtensor._symbols import *  # noqa: F403
from shmtensor.compiler import compile as compile
from shmtensor.multiprocessing.adoption import (
    numpy_empty as numpy_empty,
    torch_empty as torch_empty,
)
from shmtensor.nn._functions import *  # noqa: F403
from shmtensor.nn.functional import (
    alpha_dropout as alpha_dropout,
    bilinear as bilinear,
    channel_shuffle as channel_shuffle,
    conv_tbc as conv_tbc,
    feature_alpha_dropout as feature_alpha_dropout,
    native_channel_shuffle as native_channel_shuffle,
    pairwise_distance as pairwise_distance,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    rrelu as rrelu,
    rrelu_ as rrelu_,
)
from shmtensor.errors import (
    AcceleratorError as AcceleratorError,
    OutOfMemoryError as OutOfMemoryError,
)
from shmtensor.futures import Future as Future
from shmtensor.jit import ScriptModule as ScriptModule, fork as fork, wait as wait
from shmtensor.serialization import load as load, save as save
from shmtensor.serialization._records import PyTorchFileReader as PyTorchFileReader
from shmtensor.utils.dlpack import to_dlpack as to_dlpack


def names() -> dict[str, object]:
    """What belongs into the package: all above, and the operators that torch keeps to itself."""
    listed = {
        name: value
        for name, value in globals().items()
        if name not in ("annotations", "names", "_C", "_foreach") and name not in _OWN
    }
    private = {
        name: getattr(_C, name)
        for name in dir(_C)
        if name.startswith("_") and not name.startswith("__") and _C._operator_overloads(name)
    }
    return {**private, **_foreach.functions(), **listed}


#: What every module has.
_OWN = (
    "__annotations__ __builtins__ __cached__ __doc__ __file__ __loader__ __name__ __package__ "
    "__spec__ _OWN"
).split()
