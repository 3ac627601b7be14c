"""The loss of sequences without alignment. Source: torch.nn.functional."""

from __future__ import annotations

from collections.abc import Sequence

import shmtensor
from shmtensor import _C
from shmtensor._core._autocast import in_float32
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.nn.functional.loss import _reduction

__all__ = ["ctc_loss"]

Lengths = Tensor | Sequence[int]


def _numbers(name: str, lengths: Lengths) -> list[int]:
    if not isinstance(lengths, Tensor):
        return [int(n) for n in lengths]
    if lengths.is_floating_point() or lengths.is_complex():
        raise RuntimeError(f"{name} must be integral")
    return [int(n) for n in lengths.reshape(-1).tolist()]


@overridable
@in_float32
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Negative log-likelihood of labels, summed over all their alignments with the input.

    Args:
        log_probs: Log-probabilities, ``(T, N, C)`` or ``(T, C)``, from ``log_softmax``.
        targets: Labels, none of them *blank*: ``(N, S)``, all in one row ``(sum of lengths,)``,
            or ``(S,)`` without N.
        input_lengths: ``(N,)`` or ``()``, at most T.
        target_lengths: ``(N,)`` or ``()``, at most S.
        blank: The class between labels.
        reduction: ``'none'``, ``'mean'`` (of losses divided by target lengths) or ``'sum'``.
        zero_infinity: Count impossible sequences (the input is too short) as 0, without
            gradient.

    Raises:
        RuntimeError: Shapes, lengths or labels that do not fit together.

    Source:
        Graves et al., "Connectionist temporal classification", 2006.
    """
    code = _reduction(reduction)
    batched = log_probs.dim() == 3
    probs = log_probs if batched else log_probs.unsqueeze(1)
    if not batched and targets.dim() == 1:
        targets = targets.unsqueeze(0)
    lengths = _numbers("target_lengths", target_lengths)
    losses = _C._nn._ctc_loss(
        probs, targets, _numbers("input_lengths", input_lengths), lengths, blank, zero_infinity
    )[0]
    if code == 1:
        counts = shmtensor.tensor(
            [max(n, 1) for n in lengths], dtype=losses.dtype, device=losses.device
        )
        return (losses / counts).mean()
    if code == 2:
        return losses.sum()
    return losses if batched else losses.squeeze(0)
