"""Kullback-Leibler divergences of pairs of distributions, in closed form.

`kl_divergence` looks the pair of classes up, base classes included; `register_kl` adds a pair.
Which pairs there are is in ``docs/distributions.md``.

Source: torch.distributions.kl.
"""

from __future__ import annotations

from shmtensor.distributions.kl import mixed, normals, same  # noqa: F401 - they register pairs
from shmtensor.distributions.kl.registry import (
    _KL_MEMOIZE,  # noqa: F401 - programs that add pairs clear it
    _KL_REGISTRY,  # noqa: F401
    _dispatch_kl,  # noqa: F401
    kl_divergence,
    register_kl,
)

__all__ = ["kl_divergence", "register_kl"]
