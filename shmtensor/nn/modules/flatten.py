"""Changes of shape."""

from __future__ import annotations

from collections.abc import Sequence

from shmtensor._tensor import Tensor
from shmtensor.nn.modules.module import Module


class Flatten(Module):
    """Makes one dimension of ``start_dim`` to ``end_dim``."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """A view where that is possible."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The range of dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Makes several dimensions of one."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = (
            unflattened_size if isinstance(unflattened_size, tuple) else tuple(unflattened_size)
        )

    def forward(self, input: Tensor) -> Tensor:
        """A view whose dimension *dim* is split into *unflattened_size*."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The dimension and its parts."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
