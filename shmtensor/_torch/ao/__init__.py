"""Quantisation, which is not here.

Source:
    torch.ao.
"""

from __future__ import annotations

from . import quantization as quantization
