"""The parts of gradcheck that take random directions, and those that run under vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from shmtensor import _C
from shmtensor.autograd import forward_ad
from shmtensor.autograd._run import grad

__all__ = [
    "check_batched_backward",
    "check_batched_forward",
    "compare_directions",
    "compare_forward_directions",
]

_SEED = 20  # directions are the same in each run, and the caller's random numbers stay
_RUNS = 2  # cotangents or tangents that are computed together under vmap


def is_differentiable(value: Any) -> bool:
    """Return whether *value* is a tensor that requires grad."""
    return isinstance(value, _C._TensorBase) and value.requires_grad


def outputs_of(function: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the outputs that may have derivatives."""
    ys = function(*inputs)
    ys = tuple(ys) if isinstance(ys, (tuple, list)) else (ys,)
    return tuple(
        y for y in ys if isinstance(y, _C._TensorBase) and (y.is_floating_point() or y.is_complex())
    )


# --- directions -----------------------------------------------------------------------------------


def _direction(like: Any, generator: Any) -> Any:
    """A random vector of norm one in the shape and dtype of a tensor."""
    made = _C.randn(tuple(like.shape), dtype=like.dtype, generator=generator)
    return made / made.abs().square().sum().sqrt().clamp(min=1e-30)


def _product(a: Any, b: Any) -> Any:
    """Re<a, b>, the inner product of tensors as vectors of real numbers."""
    found = (a.conj() * b).sum()
    return (found.real if found.is_complex() else found).item()


def _change(
    function: Callable[..., Any], inputs: Sequence[Any], data: Any, step: Any, eps: float
) -> list[Any]:
    """The derivative of the outputs along *step* of one input: central differences."""
    before = data.clone()
    data.copy_(before + eps * step)
    high = [y.detach().clone() for y in outputs_of(function, inputs)]
    data.copy_(before - eps * step)
    low = [y.detach().clone() for y in outputs_of(function, inputs)]
    data.copy_(before)
    return [(h - lo) / (2 * eps) for h, lo in zip(high, low, strict=True)]


def _changes(
    function: Callable[..., Any], inputs: Sequence[Any], steps: Sequence[Any], eps: float
) -> list[list[Any]]:
    """Per input that requires grad, the derivative of each output along its step."""
    wanted = [x for x in inputs if is_differentiable(x)]
    return [
        _change(function, inputs, x.data, step, eps) for x, step in zip(wanted, steps, strict=True)
    ]


def _tolerance(atol: float, a: Any, b: Any) -> float:
    """What a sum of errors of *atol* in each element of a Jacobian comes to between two vectors."""
    total: float = a.abs().sum().item() * b.abs().sum().item()
    return atol * total


def compare_directions(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    eps: float,
    atol: float,
    rtol: float,
) -> str:
    """Compare <v, J u> of differences with <J^H v, u> of backward, for one random v and u.

    Returns:
        The first disagreement, or an empty text.
    """
    generator = _C.Generator().manual_seed(_SEED)
    wanted = [x for x in inputs if is_differentiable(x)]
    steps = [_direction(x, generator) for x in wanted]
    numerical = _changes(function, inputs, steps, eps)
    if not any(y.requires_grad for y in outputs):
        moves = any(change.count_nonzero().item() for row in numerical for change in row)
        return "Numerical gradient for function expected to be zero" if moves else ""
    for i, y in enumerate(outputs):
        if not y.requires_grad or y.numel() == 0:
            continue
        cotangent = _direction(y, generator)
        found = grad(y, wanted, cotangent, retain_graph=True, allow_unused=True)
        for n, (g, step) in enumerate(zip(found, steps, strict=True)):
            want = _product(cotangent, numerical[n][i])
            got = 0.0 if g is None else _product(g.detach(), step)
            if not abs(got - want) <= _tolerance(atol, cotangent, step) + rtol * abs(want):
                return (
                    f"Jacobian mismatch for output {i} with respect to input {n},\n"
                    f"numerical:{want}\nanalytical:{got}\n\n"
                    "These are products with random vectors (fast_mode=True); without it the "
                    "elements that differ are found."
                )
    return ""


def _push(function: Callable[..., Any], inputs: Sequence[Any], n: int, tangent: Any) -> list[Any]:
    """The tangents of the outputs, zeros where there is none, for a tangent of input *n*."""
    with forward_ad.dual_level():
        args = list(inputs)
        primal = inputs[n].detach()
        primal.requires_grad = True  # a function may differentiate
        args[n] = forward_ad.make_dual(primal, tangent)
        made = [forward_ad.unpack_dual(y) for y in outputs_of(function, args)]
        return [
            _C.zeros_like(y.primal.detach()) if y.tangent is None else y.tangent.detach()
            for y in made
        ]


def compare_forward_directions(
    function: Callable[..., Any], inputs: Sequence[Any], eps: float, atol: float, rtol: float
) -> str:
    """Compare J u of differences with that of forward mode, for one random u of each input.

    Returns:
        The first disagreement, or an empty text.
    """
    generator = _C.Generator().manual_seed(_SEED)
    places = [n for n, x in enumerate(inputs) if is_differentiable(x)]
    steps = [_direction(inputs[n], generator) for n in places]
    numerical = _changes(function, inputs, steps, eps)
    for number, (n, step) in enumerate(zip(places, steps, strict=True)):
        found = _push(function, inputs, n, step)
        for i, (got, want) in enumerate(zip(found, numerical[number], strict=True)):
            most = atol * step.abs().sum() + rtol * want.abs()
            if not ((got - want).abs() <= most).all():
                return (
                    f"Jacobian computed with forward mode mismatch for output {i} with respect to "
                    f"input {number},\nnumerical:{want}\nanalytical:{got}\n\n"
                    "These are products with a random vector (fast_mode=True); without it the "
                    "elements that differ are found."
                )
    return ""


# --- under vmap -----------------------------------------------------------------------------------


def _vmap(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    from shmtensor._functorch.vmap import vmap_impl  # it is above, and needs gradients itself

    found: tuple[Any, ...] = vmap_impl(function, 0, 0, "error", None, *args)
    return found


def _compare_batched(
    what: str, option: str, batched: Callable[[], tuple[Any, ...]], single: list[tuple[Any, ...]]
) -> str:
    """Compare what vmap computes for several rows at once with what each row alone gives."""
    tail = (
        f"\n\ngradcheck or gradgradcheck failed while testing {what} under vmap ({option}=True): "
        "an operator of it cannot be batched, or its batching rule is wrong."
    )
    try:
        found = batched()
    except RuntimeError as error:
        return f"While computing {what}, got: {error}{tail}"
    for k, together in enumerate(found):
        apart = _C.stack([row[k] for row in single])
        if together.shape != apart.shape or not _C.allclose(together, apart, equal_nan=True):
            return f"For result {k}: expected {apart} from separate runs, got {together}{tail}"
    return ""


def check_batched_backward(inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    """Compare gradients of several cotangents that vmap computes at once with those of each.

    Returns:
        The first disagreement, or an empty text.
    """
    generator = _C.Generator().manual_seed(_SEED)
    wanted = [x for x in inputs if is_differentiable(x)]
    for y in outputs:
        if not y.requires_grad or y.numel() == 0:
            continue

        def pull(cotangent: Any, y: Any = y) -> tuple[Any, ...]:
            found = grad(y, wanted, cotangent, retain_graph=True, allow_unused=True)
            pairs = zip(found, wanted, strict=True)
            return tuple(_C.zeros_like(x.detach()) if g is None else g for g, x in pairs)

        rows = [_direction(y, generator) for _ in range(_RUNS)]
        single = [pull(row) for row in rows]
        problem = _compare_batched(
            "batched gradients",
            "check_batched_grad",
            functools.partial(_vmap, pull, _C.stack(rows)),
            single,
        )
        if problem:
            return problem
    return ""


def check_batched_forward(function: Callable[..., Any], inputs: Sequence[Any]) -> str:
    """Compare tangents of several directions that vmap computes at once with those of each.

    Returns:
        The first disagreement, or an empty text.
    """
    generator = _C.Generator().manual_seed(_SEED)
    for n, x in enumerate(inputs):
        if not is_differentiable(x):
            continue

        def push(tangent: Any, n: int = n) -> tuple[Any, ...]:
            return tuple(_push(function, inputs, n, tangent))

        rows = [_direction(x, generator) for _ in range(_RUNS)]
        single = [push(row) for row in rows]
        problem = _compare_batched(
            "batched tangents",
            "check_batched_forward_grad",
            functools.partial(_vmap, push, _C.stack(rows)),
            single,
        )
        if problem:
            return problem
    return ""
