"""Which ways of computing attention may be used, as `nn.attention` and `backends.cuda` set it."""

from __future__ import annotations

__all__ = ["allowed", "check_any_is_allowed"]

#: The flags of torch.backends.cuda; the first and the third say something of what is here.
allowed: dict[str, bool] = {
    "flash": True,
    "mem_efficient": True,
    "math": True,
    "cudnn": True,
    "overrideable": True,
}


def check_any_is_allowed() -> None:
    """Refuse to compute attention when neither way that the CPU has may be used.

    Raises:
        RuntimeError: Both are switched off.
    """
    if not (allowed["flash"] or allowed["math"]):
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to "
            "turning off both the math kernel and the fused kernels."
        )
