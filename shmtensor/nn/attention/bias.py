"""Masks for attention that looks at no later keys.

Source:
    torch.nn.attention.bias.
"""

from __future__ import annotations

from shmtensor.nn._causal_bias import (
    CausalBias,
    CausalVariant,
    causal_lower_right,
    causal_upper_left,
)

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]
