"""Non-maximum suppression."""

from __future__ import annotations

import shmtensor
from shmtensor._core._tensor import Tensor

__all__ = ["nms"]


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return which boxes remain when each removes the lower-scored ones that overlap it.

    Args:
        dets: ``(N, 4)``, corners ``x1, y1, x2, y2``.
        scores: ``(N,)``.
        iou_threshold: A box goes if its intersection over union with a kept one is larger.

    Returns:
        int64 indices of the boxes that remain, the highest score first.

    Raises:
        RuntimeError: The sizes do not fit.

    Source:
        torchvision.ops.nms.
    """
    if dets.dim() != 2 or dets.size(1) != 4:
        raise RuntimeError(f"nms(): boxes should be (N, 4), got {tuple(dets.shape)}")
    if scores.shape != dets.shape[:1]:
        raise RuntimeError(
            f"nms(): scores should be ({dets.size(0)},), one a box, got {tuple(scores.shape)}"
        )
    order = scores.argsort(descending=True, stable=True)
    low, high = dets[order, :2], dets[order, 2:]
    areas = (high - low).prod(1)
    kept = shmtensor.ones(dets.size(0), dtype=shmtensor.bool)
    alive = kept.numpy()
    for i in range(dets.size(0)):
        if not alive[i]:
            continue
        sides = shmtensor.minimum(high[i], high[i + 1 :]) - shmtensor.maximum(low[i], low[i + 1 :])
        shared = sides.clamp(min=0).prod(1)
        kept[i + 1 :] &= ~(shared / (areas[i] + areas[i + 1 :] - shared) > iou_threshold)
    return order[kept]
