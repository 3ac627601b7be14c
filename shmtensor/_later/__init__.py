"""Parts of the package that stand above most of it, loaded when one is first asked for.

This is the table of them. A module that is imported from the package itself is only stood in for:
its code runs when one of its names is used (`_lazy`). A function or class, and whatever a star
brings, loads the module that it comes from.
"""

from __future__ import annotations

# ruff: noqa: I001 - one statement for each module, though names are exported by "as".

from shmtensor._core import _foreach
from shmtensor._later import for_torch
from shmtensor._later.for_torch import *  # noqa: F403
from shmtensor import (
    _C,
    amp as amp,
    array_api as array_api,
    cpu as cpu,
    dashboard as dashboard,
    distributed as distributed,
    distributions as distributions,
    fft as fft,
    files as files,
    func as func,
    futures as futures,
    fx as fx,
    hogwild as hogwild,
    hub as hub,
    inspect as inspect,
    library as library,
    masked as masked,
    monitor as monitor,
    nn as nn,
    optim as optim,
    overrides as overrides,
    profiler as profiler,
    quasirandom as quasirandom,
    serialization as serialization,
    service as service,
    shm as shm,
    signal as signal,
    sparse as sparse,
    testing as testing,
    types as types,
)
from shmtensor._core import return_types as return_types, version as version
from shmtensor._functorch.apis import vmap as vmap
from shmtensor.sparse._construct import *  # noqa: F403
from shmtensor.sparse._functions import smm as smm, spmm as spmm
from shmtensor.amp import GradScaler as GradScaler, autocast as autocast
from shmtensor._core._autocast import *  # noqa: F403
from shmtensor._core._checks import *  # noqa: F403
from shmtensor._core._control_flow import *  # noqa: F403
from shmtensor._core._lobpcg import lobpcg as lobpcg
from shmtensor._core._spectrogram import istft as istft, stft as stft
from shmtensor._core._streams import *  # noqa: F403
from shmtensor._core._symbols import *  # noqa: F403
from shmtensor.multiprocessing.adoption import (
    numpy_empty as numpy_empty,
    torch_empty as torch_empty,
)
from shmtensor.nn._functions import *  # noqa: F403
from shmtensor.nn.functional import (
    bilinear as bilinear,
    channel_shuffle as channel_shuffle,
    conv_tbc as conv_tbc,
    native_channel_shuffle as native_channel_shuffle,
    pairwise_distance as pairwise_distance,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    rrelu_ as rrelu_,
)
from shmtensor.errors import (
    AcceleratorError as AcceleratorError,
    OutOfMemoryError as OutOfMemoryError,
)
from shmtensor.futures import Future as Future
from shmtensor.serialization import load as load, save as save
from shmtensor.serialization._records import PyTorchFileReader as PyTorchFileReader
from shmtensor.utils.dlpack import to_dlpack as to_dlpack


def names() -> dict[str, object]:
    """What belongs into the package: all above, and the operators that torch keeps to itself."""
    private = {
        name: getattr(_C, name)
        for name in dir(_C)
        if name.startswith("_") and not name.startswith("__") and _C._operator_overloads(name)
    }
    return {**private, **_foreach.functions(), **names_for_torch(), **_listed(globals())}


def names_for_torch() -> dict[str, object]:
    """Those of them that stand for what is not here, or are another name of what is."""
    return _listed(vars(for_torch))


def _listed(names: dict[str, object]) -> dict[str, object]:
    """What is imported to be in the package, of a module's names."""
    return {name: value for name, value in names.items() if name not in _OWN}


#: What every module has, and what these use themselves.
_OWN = (
    "__annotations__ __builtins__ __cached__ __doc__ __file__ __loader__ __name__ __package__ "
    "__spec__ _C _OWN _foreach _listed annotations for_torch names names_for_torch"
).split()
