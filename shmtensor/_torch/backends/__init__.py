"""Libraries that torch may work with: which are here, and their settings.

OpenMP's place is taken by threads of our own and MKL's by OpenBLAS, so that questions about the
names are answered for the libraries themselves. Settings are kept for who asks (`_flags`).

Source:
    torch.backends.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from . import (
    cpu as cpu,
)
from . import (
    cuda as cuda,
)
from . import (
    cudnn as cudnn,
)
from . import (
    cusparselt as cusparselt,
)
from . import (
    kleidiai as kleidiai,
)
from . import (
    mha as mha,
)
from . import (
    miopen as miopen,
)
from . import (
    mkl as mkl,
)
from . import (
    mkldnn as mkldnn,
)
from . import (
    mps as mps,
)
from . import (
    nnpack as nnpack,
)
from . import (
    openmp as openmp,
)
from . import (
    opt_einsum as opt_einsum,
)
from . import (
    quantized as quantized,
)
from ._flags import (
    FlagModule,
    PrecisionFlag,
    swapped,
    use_flags,
)
from ._flags import (
    disable_global_flags as disable_global_flags,
)
from ._flags import (
    flags_frozen as flags_frozen,
)

if TYPE_CHECKING:
    fp32_precision: str


class _Module(FlagModule):
    fp32_precision = PrecisionFlag()


_module = use_flags(__name__, _Module)


def set_flags(_fp32_precision: str = "none") -> tuple[str]:
    """Set the precision of float32 for all backends; returns the one before."""
    before = _module.fp32_precision
    _module.fp32_precision = _fp32_precision
    return (before,)


def flags(fp32_precision: str = "none") -> AbstractContextManager[None]:
    """Return a context with another precision of float32."""
    return swapped(_module, fp32_precision=fp32_precision)
