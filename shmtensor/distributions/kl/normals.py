"""Divergences of multivariate normal distributions, with full covariances or such of low rank.

All of them are half of ``log det(Q) - log det(P) + tr(Q^-1 P) + (m_p - m_q)^T Q^-1 (m_p - m_q) -
n``. A covariance P is a sum of squares of blocks of columns: L of ``L L^T``, or W and the root of
the diagonal D. So the trace is the squared length of the blocks, measured by Q^-1.
"""

from __future__ import annotations

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions.kl.registry import register_kl
from shmtensor.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_mahalanobis,
)
from shmtensor.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis

_Any = MultivariateNormal | LowRankMultivariateNormal


def _columns(p: _Any) -> list[Tensor]:
    """Blocks whose squares sum to the covariance."""
    if isinstance(p, MultivariateNormal):
        return [p._unbroadcasted_scale_tril]
    return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]


def _log_det(p: _Any) -> Tensor:
    return 2 * p._half_log_det() if isinstance(p, MultivariateNormal) else p._log_det()


def _square(q: _Any, x: Tensor) -> Tensor:
    """x^T Q^-1 x."""
    if isinstance(q, MultivariateNormal):
        return _batch_mahalanobis(q._unbroadcasted_scale_tril, x)
    return _batch_lowrank_mahalanobis(
        q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, x, q._capacitance_tril
    )


def _square_of_columns(q: _Any, columns: Tensor) -> Tensor:
    """tr(X^T Q^-1 X)."""
    if isinstance(q, MultivariateNormal):
        factor = q._unbroadcasted_scale_tril
        batch = shmtensor.broadcast_shapes(factor.shape[:-2], columns.shape[:-2])
        solved = shmtensor.linalg.solve_triangular(
            factor.expand((*batch, -1, -1)), columns.expand((*batch, -1, -1)), upper=False
        )
        return solved.pow(2).sum((-2, -1))
    diagonal = q._unbroadcasted_cov_diag.unsqueeze(-1)
    projected = (q._unbroadcasted_cov_factor / diagonal).mT @ columns
    tril = q._capacitance_tril
    batch = shmtensor.broadcast_shapes(tril.shape[:-2], projected.shape[:-2])
    solved = shmtensor.linalg.solve_triangular(
        tril.expand((*batch, -1, -1)), projected.expand((*batch, -1, -1)), upper=False
    )
    return (columns.pow(2) / diagonal).sum((-2, -1)) - solved.pow(2).sum((-2, -1))


def _divergence(p: _Any, q: _Any, names: str) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {names} with different event shapes cannot be computed: "
            f"{tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
    trace = sum((_square_of_columns(q, block) for block in _columns(p)), shmtensor.zeros(()))
    means = _square(q, q.loc - p.loc)
    return 0.5 * (_log_det(q) - _log_det(p) + trace + means - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(
    p: MultivariateNormal, q: MultivariateNormal
) -> Tensor:
    return _divergence(p, q, "Multivariate Normals")


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(
    p: LowRankMultivariateNormal, q: LowRankMultivariateNormal
) -> Tensor:
    return _divergence(p, q, "Low Rank Multivariate Normals")


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(
    p: MultivariateNormal, q: LowRankMultivariateNormal
) -> Tensor:
    return _divergence(p, q, "(Low Rank) Multivariate Normals")


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(
    p: LowRankMultivariateNormal, q: MultivariateNormal
) -> Tensor:
    return _divergence(p, q, "(Low Rank) Multivariate Normals")
