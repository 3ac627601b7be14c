"""Transforms of tensors: differentiable maps that know their inverse and their Jacobian.

``t(x)`` is the image, ``t.inv`` the inverse transform, and ``t.log_abs_det_jacobian(x, y)`` the
logarithm of the absolute determinant of dy/dx, one number for each event. A transform made with
``cache_size=1`` remembers its last pair, so that ``t.inv(t(x))`` is exactly x and costs nothing.

Source: torch.distributions.transforms.
"""

from __future__ import annotations

from shmtensor.distributions.transforms.base import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    _InverseTransform,
    identity_transform,
)
from shmtensor.distributions.transforms.elementwise import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from shmtensor.distributions.transforms.joined import CatTransform, StackTransform
from shmtensor.distributions.transforms.matrices import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Transform",
    "identity_transform",
]

# Pickles name this module, whichever file has the class.
for _kind in (*(globals()[name] for name in __all__), _InverseTransform):
    if isinstance(_kind, type):
        _kind.__module__ = __name__
del _kind
