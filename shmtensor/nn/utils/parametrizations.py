"""Weights that stay orthogonal or keep a separate norm, as parametrizations.

Source: torch.nn.utils.parametrizations.
"""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.modules import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from shmtensor.nn.modules.module import Module
from shmtensor.nn.utils import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _weight_of(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# --- orthogonal ----------------------------------------------------------------------------------


def _orthonormal(a: Tensor) -> Tensor:
    """The orthogonal factor of *a*, as near to it as signs go."""
    x, tau = shmtensor.geqrf(a)
    q = shmtensor.linalg.householder_product(x, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthonormal(q: Tensor) -> bool:
    n, k = q.shape[-2:]
    identity = shmtensor.eye(k, dtype=q.dtype, device=q.device)
    return shmtensor.allclose(q.mH @ q, identity, atol=10.0 * n * shmtensor.finfo(q.dtype).eps)


class _Orthogonal(Module):
    """A tall matrix with orthonormal columns, or a wide one with such rows, from any matrix."""

    base: Any

    def __init__(self, weight: Tensor, by: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and by == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = by
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        """The matrix of a free one; times ``base`` where there is one."""
        is_wide = x.size(-2) < x.size(-1)
        x = x.mT if is_wide else x
        q = self._reflected(x) if self.orthogonal_map == "householder" else self._rotated(x)
        if getattr(self, "base", None) is not None:
            q = self.base @ q
        return q.mT if is_wide else q

    def _rotated(self, x: Tensor) -> Tensor:
        """A function of a skew matrix, of whose lower triangle *x* has the first columns."""
        n, k = x.shape[-2:]
        x = x.tril()
        if n != k:
            missing = x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)
            x = shmtensor.cat([x, missing], dim=-1)
        skew = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = shmtensor.matrix_exp(skew)
        else:
            one = shmtensor.eye(n, dtype=skew.dtype, device=skew.device)
            q = shmtensor.linalg.solve(
                shmtensor.add(one, skew, alpha=-0.5), shmtensor.add(one, skew, alpha=0.5)
            )
        return q[..., :k] if n != k else q

    def _reflected(self, x: Tensor) -> Tensor:
        """A product of reflections, whose vectors stand below the diagonal of *x*."""
        a = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
        q = shmtensor.linalg.householder_product(a, tau)
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def right_inverse(self, q: Tensor) -> Tensor:
        """What gives *q*, which is made orthogonal where it is not; sets ``base``."""
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {q.shape}."
            )
        given, is_wide = q, q.size(-2) < q.size(-1)
        q = q.mT if is_wide else q
        n, k = q.shape[-2:]
        if not hasattr(self, "base"):
            return self._free(q, is_wide)
        if n == k:
            q = q.clone() if _is_orthonormal(q) else _orthonormal(q)
        else:
            more = shmtensor.randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
            q = _orthonormal(shmtensor.cat([q, more], dim=-1))
        self.base = q
        # Of minus the identity each map makes the identity: its lower triangle is zero, and the
        # signs of reflections are those of the base.
        start = shmtensor.zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start

    def _free(self, q: Tensor, is_wide: bool) -> Tensor:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        a, tau = shmtensor.geqrf(q)
        signs = a.diagonal(dim1=-2, dim2=-1)
        signs.sign_()
        # No reflection at all is given as a factor of zero: then the sign is the other one.
        signs[tau == 0.0] *= -1
        return a.mT if is_wide else a


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep the columns of a matrix orthonormal, or its rows where it is wide.

    Args:
        module: Whose weight.
        name: Of the weight, ``(..., n, m)``.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``; the first by default
            for square and complex matrices, else the last.
        use_trivialization: Multiply by the value that was assigned last, so that any may be.

    Raises:
        ValueError: No such weight, or one of fewer than two dimensions; another map.

    Source:
        torch.nn.utils.parametrizations.orthogonal; Lezcano-Casado, "Trivializations for
        gradient-based optimization on manifolds", 2019.
    """
    weight = _weight_of(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        is_square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if is_square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    function = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, function, unsafe=True)


# --- norms ---------------------------------------------------------------------------------------


class _WeightNorm(Module):
    """Directions ``original1`` of lengths ``original0``."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """*weight_v* with slices of the lengths *weight_g*."""
        return weight_v * (weight_g / shmtensor.norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The lengths of a weight's slices, and the weight."""
        return shmtensor.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train lengths and directions of a weight's slices apart.

    Args:
        module: Whose weight.
        name: Of the weight.
        dim: Slices along this dimension have lengths; None: the whole has one.

    Raises:
        ValueError: No such weight.

    Source:
        torch.nn.utils.parametrizations.weight_norm; Salimans and Kingma, "Weight normalization",
        2016.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(module: Any, state_dict: Any, prefix: str, *_: Any) -> None:
        # Checkpoints of nn.utils.weight_norm name them otherwise.
        for old, new in (("g", 0), ("v", 1)):
            key = f"{prefix}{name}_{old}"
            if key in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.original{new}"] = state_dict.pop(key)

    module.register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """A weight over its largest singular value, which power iterations in training follow."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        n = weight.dim()
        if not -n <= dim < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{n}, {n - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % n
        self.eps = eps
        if n > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            for name, length in zip(("_u", "_v"), matrix.shape, strict=True):
                start = matrix.new_empty(length).normal_(0, 1)
                self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix: Tensor, n: int) -> None:
        with shmtensor.no_grad():
            for _ in range(n):
                F.normalize(matrix.mv(self._v), dim=0, eps=self.eps, out=self._u)
                F.normalize(matrix.H.mv(self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight divided."""
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: the next call changes the vectors, which a graph would still need.
        u, v = self._u.clone(), self._v.clone()
        return weight / shmtensor.vdot(u, matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Any weight stands for itself."""
        return value


def _first_of_outputs(module: Module) -> int:
    """The dimension of a layer's weight that counts its outputs."""
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value.

    Args:
        module: Whose weight.
        name: Of the weight; one of several dimensions counts as a matrix.
        n_power_iterations: Steps with which each call in training follows the singular vectors.
        eps: The least norm that these are divided by.
        dim: The dimension of the matrix's rows; by default that of the outputs.

    Raises:
        ValueError: No such weight; no steps.

    Source:
        torch.nn.utils.parametrizations.spectral_norm; Miyato et al., "Spectral normalization for
        generative adversarial networks", 2018.
    """
    weight = _weight_of(module, name)
    dim = _first_of_outputs(module) if dim is None else dim
    function = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, function)
