"""Tensors that stand for others while a program is traced, which are not here.

No tensor is one of them, so that libraries which ask go on with ordinary ones.

Source:
    torch._subclasses.
"""

from __future__ import annotations

from . import functional_tensor as functional_tensor
from .fake_tensor import FakeTensor as FakeTensor
from .fake_tensor import FakeTensorMode as FakeTensorMode
