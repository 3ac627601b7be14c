"""What passes search graphs with.

Source:
    torch.fx.passes.utils.
"""

from __future__ import annotations
