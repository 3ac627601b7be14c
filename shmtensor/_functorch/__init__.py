"""Function transforms: what `shmtensor.func` is made of.

Source:
    torch._functorch.
"""

from __future__ import annotations

from shmtensor._core._lazy import submodules

submodules(__name__, "autograd_function batch_norm_replacement functional_call")
