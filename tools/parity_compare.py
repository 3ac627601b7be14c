"""Whether two results say the same, where equal values are more than one can ask."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from parity_calls import reference
from parity_values import WIDER, Outcome, as_near, differ, tensors, theirs

# Their vectors have a free sign, or phase.
DECOMPOSITIONS = (
    "svd",
    "linalg.svd",
    "pca_lowrank",
    "svd_lowrank",
    "linalg.eigh",
    "linalg.eig",
    "linalg.qr",
    "qr",
)
# Which of several equal values their indices name is left open.
SELECTIONS = ("sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode", "msort")


def compare(op: Any, sample: Any, result: Any, expected: Any) -> Outcome:
    """Our result of a sample beside torch's; only shapes and dtypes where the values may differ."""
    wrong = differ(result, expected)
    if wrong is None:
        return None
    by_shape = (
        "empty" in op.name
        or _breaks_ties_otherwise(op, sample, result, expected)
        or _has_other_phases(op, result, expected)
        or _is_as_exact(op, sample, result, expected)
        or is_random(op, sample)
    )
    return differ(result, expected, values=False) if by_shape else wrong


def _breaks_ties_otherwise(op: Any, sample: Any, result: Any, expected: Any) -> bool:
    """Are only the indices of equal values others?"""
    if op.name not in SELECTIONS or not isinstance(sample.input, torch.Tensor):
        return False
    mine, other = list(tensors(result)), list(tensors(expected))
    if not other or len(mine) != len(other) or differ(mine[:-1], other[:-1]):
        return False
    dim = sample.kwargs.get("dim", next((a for a in sample.args if type(a) is int), -1))
    if op.name in ("kthvalue", "topk"):
        dim = sample.kwargs.get("dim", sample.args[1] if len(sample.args) > 1 else -1)
    index, known = theirs(mine[-1]), other[-1]
    values = sample.input.detach()
    if index.shape != known.shape or known.dtype is not torch.int64 or not values.dim():
        return False
    if index.dim() < values.dim():
        index, known = index.unsqueeze(dim), known.unsqueeze(dim)
    a, b = values.gather(dim, index), values.gather(dim, known)
    return bool(((a == b) | (torch.isnan(a) & torch.isnan(b))).all())


def _has_other_phases(op: Any, result: Any, expected: Any) -> bool:
    """Do the factors of a decomposition differ by signs, and their product not at all?"""
    if op.name not in DECOMPOSITIONS:
        return False
    mine, other = [theirs(t) for t in tensors(result)], list(tensors(expected))
    if [t.shape for t in mine] != [t.shape for t in other]:
        return False
    near = {"rtol": 1e-3, "atol": 1e-4}
    if not all(torch.allclose(a.abs(), b.abs(), **near) for a, b in zip(mine, other, strict=True)):
        return False
    return torch.allclose(_product(op, mine), _product(op, other), **near)


def _product(op: Any, factors: list[torch.Tensor]) -> torch.Tensor:
    """What the factors make together, as far as their signs matter."""
    first, *rest = factors
    if "qr" in op.name:
        return first @ rest[0]
    if len(rest) == 2 and first.numel() and rest[1].numel():  # U, S and V
        last = rest[1] if op.name == "linalg.svd" else rest[1].mH
        k = rest[0].shape[-1]
        return (first[..., :k] * rest[0].unsqueeze(-2)) @ last[..., :k, :]
    return first.abs()


def is_random(op: Any, sample: Any) -> bool:
    """Do the values depend on the generator?"""
    drawn = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        # Some of torch's list set a seed of their own before they draw.
        with mock.patch.object(torch, "manual_seed"):
            result = op(sample.input, *sample.args, **sample.kwargs)
        drawn.append([t.detach().resolve_conj() for t in tensors(result)])
    return any(
        x.dtype != y.dtype or x.shape != y.shape or not torch.equal(_finite(x), _finite(y))
        for x, y in zip(*drawn, strict=True)
    )


def _finite(t: torch.Tensor) -> torch.Tensor:
    t = t.to(torch.complex64) if t.dtype is torch.complex32 else t
    return torch.nan_to_num(t)


def widened(sample: Any) -> Any:
    """The sample in double precision."""

    def widen(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return WIDER.get(value, value)
        return value.to(WIDER.get(value.dtype, value.dtype))

    return sample.transform(widen)


def _is_as_exact(op: Any, sample: Any, result: Any, expected: Any) -> bool:
    """Are the values no further from those in double precision than four times torch's own?"""
    mine, other = list(tensors(result)), list(tensors(expected))
    if not mine or not any(t.dtype in WIDER for t in other):
        return False
    try:
        exact = list(tensors(reference(op, widened(sample))))
    except (RuntimeError, TypeError):
        return False
    return len(mine) == len(other) == len(exact) and as_near(mine, other, exact, 4)
