"""What everything that would trace says."""

from __future__ import annotations

__all__ = ["WHAT"]

WHAT = "programs are not traced here, they run as they are"
