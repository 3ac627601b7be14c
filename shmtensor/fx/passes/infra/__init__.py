"""Passes as classes, and the order in which they run.

Source:
    torch.fx.passes.infra.
"""

from __future__ import annotations

from . import pass_base as pass_base
from . import pass_manager as pass_manager
