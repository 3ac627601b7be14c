"""Passes over graphs.

Source:
    torch.fx.passes.
"""

from __future__ import annotations

from . import infra as infra
from . import shape_prop as shape_prop
from . import split_module as split_module
