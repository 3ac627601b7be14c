"""Tools for tests: tensors to try things with, and comparison with tolerance.

Source:
    torch.testing.
"""

from __future__ import annotations

from shmtensor._core._lazy import submodules
from shmtensor.testing._comparison import assert_allclose as assert_allclose
from shmtensor.testing._comparison import assert_close as assert_close
from shmtensor.testing._creation import make_tensor as make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

submodules(__name__, "_internal")
