"""In-place operators of several tensors that torch also has as functions."""

from __future__ import annotations

from shmtensor._tensor import Tensor

__all__ = [
    "addmv_",
    "conj_physical_",
    "detach_",
    "gcd_",
    "index_put_",
    "lcm_",
    "ldexp_",
    "xlogy_",
]

addmv_ = Tensor.addmv_
conj_physical_ = Tensor.conj_physical_
detach_ = Tensor.detach_
gcd_ = Tensor.gcd_
index_put_ = Tensor.index_put_
lcm_ = Tensor.lcm_
ldexp_ = Tensor.ldexp_
xlogy_ = Tensor.xlogy_
