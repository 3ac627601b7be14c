"""Functions behind the layers, with torch's signatures.

What needs no more than the operator is re-exported; the others translate torch's Python
arguments (names of reductions, paddings as words) into what the operator takes.

Source: torch.nn.functional.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shmtensor.nn import _reduction as _Reduction  # noqa: F401 -- programs name it
from shmtensor.nn import grad as grad
from shmtensor.nn._padding import pad
from shmtensor.nn.functional import (
    activation,
    attention,
    conv,
    distance,
    dropouts,
    embeddings,
    grouped,
    linear_loss,
    loss,
    margin_loss,
    normalization,
    pooling,
    sequence_loss,
    shuffle,
    unpooling,
    vision,
)
from shmtensor.nn.functional.activation import *  # noqa: F403
from shmtensor.nn.functional.attention import *  # noqa: F403
from shmtensor.nn.functional.conv import *  # noqa: F403
from shmtensor.nn.functional.distance import *  # noqa: F403
from shmtensor.nn.functional.dropouts import *  # noqa: F403
from shmtensor.nn.functional.embeddings import *  # noqa: F403
from shmtensor.nn.functional.grouped import *  # noqa: F403
from shmtensor.nn.functional.linear_loss import *  # noqa: F403
from shmtensor.nn.functional.loss import *  # noqa: F403
from shmtensor.nn.functional.margin_loss import *  # noqa: F403
from shmtensor.nn.functional.normalization import *  # noqa: F403
from shmtensor.nn.functional.pooling import *  # noqa: F403
from shmtensor.nn.functional.sequence_loss import *  # noqa: F403
from shmtensor.nn.functional.shuffle import *  # noqa: F403
from shmtensor.nn.functional.unpooling import *  # noqa: F403
from shmtensor.nn.functional.vision import *  # noqa: F403

__all__ = [
    "pad",
    *activation.__all__,
    *attention.__all__,
    *conv.__all__,
    *distance.__all__,
    *dropouts.__all__,
    *embeddings.__all__,
    *grouped.__all__,
    *linear_loss.__all__,
    *loss.__all__,
    *margin_loss.__all__,
    *normalization.__all__,
    *pooling.__all__,
    *sequence_loss.__all__,
    *shuffle.__all__,
    *unpooling.__all__,
    *vision.__all__,
]

#: Where names are found that programs take from torch's module though it only uses them.
_USED = {
    "shmtensor.nn.modules.utils": "_list_with_default _pair _single _triple",
    "shmtensor.nn.functional.activation": "_get_softmax_dim",
    "shmtensor.nn.functional.normalization": "_verify_batch_size",
    "shmtensor._jit_internal": (
        "BroadcastingList1 BroadcastingList2 BroadcastingList3 _overload boolean_dispatch"
    ),
    "shmtensor.overrides": (
        "handle_torch_function has_torch_function has_torch_function_unary "
        "has_torch_function_variadic"
    ),
}


def __getattr__(name: str) -> Any:
    for module, names in _USED.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
