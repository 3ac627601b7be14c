"""Questions about sizes that tracing leaves open.

Source:
    torch.fx.experimental.
"""

from __future__ import annotations

from . import proxy_tensor as proxy_tensor
from . import symbolic_shapes as symbolic_shapes
