"""A few eigenpairs of a symmetric matrix by locally optimal block conjugate gradients.

Source: Knyazev, "Toward the optimal preconditioned eigensolver", 2001; the basis is orthonormal in
every step, after Stathopoulos and Wu, "A block orthogonalization procedure", 2002.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.autograd.function import Function, once_differentiable

__all__ = ["lobpcg"]

_METHODS = ("basic", "ortho")
_STEPS = 1000


class _Search:
    """The state of the iteration for one matrix, as a tracker sees it.

    Attributes:
        A, B, iK: The problem and the preconditioner; None is the identity.
        E, X, R: Eigenvalues, vectors and residuals so far, of shapes ``(n,)`` and ``(m, n)``.
        S: The basis of the last step.
        iparams, fparams, bparams: Settings.
        ivars, fvars, bvars, tvars: ``istep``, ``converged_count``, ``force_stop``, ``rerr``.
    """

    def __init__(self, A: Tensor, B: Any, iK: Any, X: Tensor, settings: dict[str, Any]) -> None:
        self.A, self.B, self.iK = A, B, iK
        self.iparams = {key: settings[key] for key in ("m", "n", "k", "niter")}
        self.fparams = {"tol": settings["tol"]}
        self.bparams = {"largest": settings["largest"]}
        self.ivars = {"istep": 0, "converged_count": 0}
        self.fvars = {
            "A_norm": float(A.norm()),
            "B_norm": float(B.norm()) if B is not None else 1.0,
        }
        self.bvars = {"force_stop": False}
        self.tvars: dict[str, Tensor] = {}
        self.S = _orthonormal(X, B)
        if self.S.shape[1] < X.shape[1]:
            raise RuntimeError("lobpcg: the columns of X must be independent")
        self.X, self.P = self.S, X[:, :0]
        self.E = A.new_zeros(0)
        self._choose()
        self.R = self._residuals()

    def run(self, tracker: Callable[[Any], None] | None) -> None:
        """Iterate until the wanted pairs have converged or the steps are used up."""
        limit = self.iparams["niter"]
        while True:
            if tracker is not None:
                tracker(self)
            done = self.ivars["converged_count"] >= self.iparams["k"] or self.bvars["force_stop"]
            if done or 0 <= limit <= self.ivars["istep"]:
                return
            self._step()

    def _step(self) -> None:
        directions = self.R if self.iK is None else self.iK @ self.R
        rest = shmtensor.cat([directions, self.P], 1)
        for _ in range(2):  # once more, since the first time leaves what rounding makes
            rest = rest - self.X @ (self.X.mT @ _times(self.B, rest))
            rest = _orthonormal(rest, self.B)
        self.S = shmtensor.cat([self.X, rest], 1)
        self._choose()
        self.ivars["istep"] += 1
        self.R = self._residuals()

    def _choose(self) -> None:
        """The best vectors in the basis, and the directions that led to them."""
        n = self.X.shape[1]
        values, mix = shmtensor.linalg.eigh(self.S.mT @ (self.A @ self.S))
        if self.bparams["largest"]:
            values, mix = values.flip(0), mix.flip(1)
        self.E, mix = values[:n], mix[:, :n]
        self.X, self.P = self.S @ mix, self.S[:, n:] @ mix[n:]

    def _residuals(self) -> Tensor:
        """How far the pairs are from being some; counts those that have converged in a row."""
        off = self.A @ self.X - _times(self.B, self.X) * self.E
        scale = self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"]
        errors = off.norm(dim=0) / (self.X.norm(dim=0) * scale)
        small = (errors <= self.fparams["tol"]).to(shmtensor.int64)
        self.tvars["rerr"] = errors
        self.ivars["converged_count"] = int(small.cumprod(0).sum())
        return off


def _times(B: Tensor | None, X: Tensor) -> Tensor:
    return X if B is None else B @ X


def _orthonormal(V: Tensor, B: Tensor | None) -> Tensor:
    """Columns that span those of *V*, orthonormal in the product by *B*; fewer if dependent."""
    V = V / V.norm(dim=0).clamp_min(shmtensor.finfo(V.dtype).tiny)
    lengths, axes = shmtensor.linalg.eigh(V.mT @ _times(B, V))
    least = lengths[-1:].abs() * (shmtensor.finfo(V.dtype).eps * V.shape[0])
    kept = (lengths > least).nonzero().squeeze(1)
    return V @ (axes[:, kept] / lengths[kept].sqrt())


def _solve(A: Tensor, B: Any, X: Any, iK: Any, settings: dict[str, Any], tracker: Any) -> Any:
    """Eigenvalues ``(*, k)`` and vectors ``(*, m, k)`` of a batch."""
    m, n, k = (settings[key] for key in ("m", "n", "k"))
    batch = A.shape[:-2]
    count = math.prod(batch)

    def spread(t: Tensor | None) -> list[Any]:
        if t is None:
            return [None] * count
        size = t.shape[-2:]
        return list(t.broadcast_to(*batch, *size).reshape(count, *size).unbind())

    values, vectors = [], []
    for matrix, other, first, inverse in zip(*map(spread, (A, B, X, iK)), strict=True):
        start = first if X is not None else shmtensor.randn(m, n, dtype=A.dtype, device=A.device)
        search = _Search(matrix, other, inverse, start, settings)
        search.run(tracker)
        values.append(search.E[:k])
        vectors.append(search.X[:, :k])
    if not values:
        return A.new_zeros(*batch, k), A.new_zeros(*batch, m, k)
    return shmtensor.stack(values).reshape(*batch, k), shmtensor.stack(vectors).reshape(
        *batch, m, k
    )


class _Differentiable(Function):
    """Eigenpairs whose gradients follow from all the others of the matrix."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, *rest: Any) -> Any:
        E, X = _solve(A, *rest)
        ctx.save_for_backward(A, E, X)
        return E, X

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradient of *A*: by perturbation theory, where eigenvalues are distinct."""
        A, E, X = ctx.saved_tensors
        grad_values, grad_vectors = grads
        values, vectors = shmtensor.linalg.eigh(A)
        gaps = E.unsqueeze(-2) - values.unsqueeze(-1)  # (*, m, k)
        near = gaps.abs() <= values.abs().amax(-1)[..., None, None] * 1e-5
        factors = shmtensor.where(near, shmtensor.zeros_like(gaps), 1 / gaps)
        moved = vectors @ (factors * (vectors.mT @ grad_vectors))
        grad = (moved + X * grad_values.unsqueeze(-2)) @ X.mT
        return (grad + grad.mT) / 2, *[None] * 5


@overridable
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[Any], None] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """Give the *k* largest or smallest solutions of A x = e B x.

    Args:
        A: ``(*, m, m)``, symmetric, float32 or float64.
        k: How many; as many as *X* has columns, or 1, if absent.
        B: ``(*, m, m)``, symmetric and positive definite; the identity if absent.
        X: ``(*, m, n)``, where to begin; random if absent.
        n: Columns to iterate with, at least *k*; *k* if absent.
        iK: ``(*, m, m)``, a preconditioner: nearly the inverse of *A*.
        niter: The most steps, 1000 if absent; -1 sets no limit.
        tol: The relative residual at which a pair counts as found; the root of the dtype's
            precision if absent.
        largest: The largest eigenvalues; otherwise the smallest.
        method: ``'ortho'`` or ``'basic'``; both keep their basis orthonormal here.
        tracker: Called before every step with the state, whose ``bvars['force_stop']`` ends it.
        ortho_iparams: Accepted; the basis needs no settings.
        ortho_fparams: Accepted.
        ortho_bparams: Accepted.

    Returns:
        Eigenvalues ``(*, k)`` and vectors ``(*, m, k)``. The gradient of *A* is symmetric.

    Raises:
        ValueError: *A* has fewer than 3 *n* rows; *method* is another word.
        AssertionError: *A* is not square, or another argument does not fit it.
        RuntimeError: *B* is given and a gradient is wanted; the columns of *X* are dependent.

    Source:
        torch.lobpcg.
    """
    if A.dim() < 2 or A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and A.shape != B.shape:
        raise AssertionError(f"A and B must have same shape, got {A.shape} vs {B.shape}")
    if method not in (None, *_METHODS):
        raise ValueError(f"lobpcg: expected method to be one of {_METHODS}, got {method!r}")
    X, iK = (None if t is None else t.detach() for t in (X, iK))
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={n})"
        )
    if X is not None and X.shape[-2] != m:
        raise AssertionError(f"X shape mismatch: got {X.shape}, expected {(m, n)}")
    settings = {
        "m": m,
        "n": n,
        "k": k,
        "niter": _STEPS if niter is None else niter,
        "tol": shmtensor.finfo(A.dtype).eps ** 0.5 if tol is None else tol,
        "largest": largest is None or largest,
    }
    if not (
        shmtensor.is_grad_enabled() and (A.requires_grad or (B is not None and B.requires_grad))
    ):
        found: tuple[Tensor, Tensor] = _solve(A.detach(), B, X, iK, settings, tracker)
        return found
    if B is not None:
        raise RuntimeError("lobpcg: there is no gradient when B is given")
    pairs: tuple[Tensor, Tensor] = _Differentiable.apply(
        (A + A.mT) / 2, B, X, iK, settings, tracker
    )
    return pairs
