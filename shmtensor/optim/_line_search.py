"""A search along a line for a point where the strong Wolfe conditions hold.

Numbers may be Python's or tensors without dims; what comes in as a tensor is calculated with in
its dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from shmtensor._core._tensor import Tensor

__all__ = ["strong_wolfe"]

_SUFFICIENT_DECREASE = 1e-4
_CURVATURE = 0.9


class _Point(NamedTuple):
    """A point on the line: step size, loss, gradient, and slope along the line."""

    t: Any
    loss: float
    grad: Tensor
    slope: Any


def strong_wolfe(
    evaluate: Callable[[Any, Tensor], tuple[float, Tensor]],
    t: Any,
    direction: Tensor,
    loss: float,
    grad: Tensor,
    slope: Any,
    tolerance_change: float = 1e-9,
    max_evals: int = 25,
) -> tuple[float, Tensor, Any, int]:
    """Find a step size along *direction* with enough decrease and a small enough slope.

    Args:
        evaluate: Gives loss and gradient at the point that ``evaluate(t, direction)`` names.
        t: The first step size to try.
        direction: One along which the loss falls.
        loss: The loss at the start.
        grad: The gradient there.
        slope: The slope along *direction* there.
        tolerance_change: The search ends when the interval is shorter.
        max_evals: Points that are looked at, at most, after the first.

    Returns:
        Loss, gradient, step size, and the number of evaluations.

    Source:
        Nocedal, Wright, "Numerical optimization", 2nd edition, algorithms 3.5 and 3.6; Schmidt,
        "minFunc".
    """
    start = _Point(0, loss, grad.clone(), slope)
    n_evals = 0

    def look(t: Any) -> _Point:
        nonlocal n_evals
        n_evals += 1
        loss, grad = evaluate(t, direction)
        return _Point(t, loss, grad.clone(), grad.dot(direction))

    def is_too_high(point: _Point) -> bool:
        return bool(point.loss > start.loss + _SUFFICIENT_DECREASE * point.t * slope)

    def is_flat(point: _Point) -> bool:
        return bool(abs(point.slope) <= -_CURVATURE * slope)

    # First go further and further, until a minimum is found or lies between two points.
    previous, point = start, look(t)
    n_left = max_evals
    ends: list[_Point] = []
    while n_left > 0:
        late = max_evals - n_left > 1
        if is_too_high(point) or (late and point.loss >= previous.loss):
            ends = [previous, point]
            break
        if is_flat(point):
            return point.loss, point.grad, point.t, n_evals
        if point.slope >= 0:
            ends = [previous, point]
            break
        reach = point.t + 0.01 * (point.t - previous.t), point.t * 10
        previous, point = point, look(_lowest_of_cubic(previous, point, reach))
        n_left -= 1
    if not ends:
        ends = [start, point]

    # Then narrow the interval. `low` and `high` are the positions of its better and its worse end.
    low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
    width = direction.abs().max()
    was_near_end = False
    while n_left > 0 and abs(ends[1].t - ends[0].t) * width >= tolerance_change:
        t = _lowest_of_cubic(ends[0], ends[1])
        least, most = sorted((ends[0].t, ends[1].t))
        margin = 0.1 * (most - least)
        if min(most - t, t - least) < margin:
            # Twice near an end is no progress: take a point inside.
            if was_near_end or t >= most or t <= least:
                t = most - margin if abs(t - most) < abs(t - least) else least + margin
                was_near_end = False
            else:
                was_near_end = True
        else:
            was_near_end = False
        point = look(t)
        n_left -= 1
        if is_too_high(point) or point.loss >= ends[low].loss:
            ends[high] = point
            low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
            continue
        found = is_flat(point)
        if not found and point.slope * (ends[high].t - ends[low].t) >= 0:
            ends[high] = ends[low]
        ends[low] = point
        if found:
            break
    best = ends[low]
    return best.loss, best.grad, best.t, n_evals


def _lowest_of_cubic(a: _Point, b: _Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points with their slopes is lowest, within *bounds*.

    Without *bounds*, between the points. In the middle where the cubic has no minimum.
    """
    least, most = bounds if bounds is not None else sorted((a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:  # not a number, perhaps
        return (least + most) / 2.0
    d2 = square**0.5
    if a.t <= b.t:
        lowest = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        lowest = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(lowest, least), most)
