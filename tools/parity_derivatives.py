"""Checks of derivatives: first, second, and forward mode."""

from __future__ import annotations

from typing import Any

import torch
from parity_calls import reference, seeded
from parity_compare import is_random, widened
from parity_values import (
    WIDER,
    Outcome,
    as_near,
    find,
    gradients_differ,
    name_of,
    on_our_side,
    ours,
    tensors,
)

import shmtensor as st


def _leaves(values: Any) -> list[Any]:
    return [t for t in tensors(values) if t.requires_grad]


def _like(t: torch.Tensor) -> torch.Tensor:
    return torch.randn(t.shape, dtype=t.dtype)


def _torch_outputs(op: Any, sample: Any) -> tuple[list[Any], list[Any]]:
    # Some samples are views that were made without recording, which get no gradient.
    sample = sample.transform(
        lambda t: t.detach().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t
    )
    result = reference(op, sample)
    if sample.output_process_fn_grad is not None:
        result = sample.output_process_fn_grad(result)
    leaves = _leaves((sample.input, sample.args, sample.kwargs))
    return [t for t in tensors(result) if t.requires_grad], leaves


def _our_outputs(op: Any, sample: Any) -> tuple[list[Any], list[Any]]:
    values = ours(sample.input), ours(sample.args), ours(sample.kwargs)
    result = seeded(find(op), values[0], *values[1], **values[2])
    if sample.output_process_fn_grad is not None:
        process = sample.output_process_fn_grad
        result = (on_our_side(process) if hasattr(process, "__code__") else process)(result)
    return [t for t in tensors(result) if t.requires_grad], _leaves(values)


def _first(side: Any, outputs: list[Any], leaves: list[Any], seeds: list[Any]) -> list[Any]:
    return list(side.autograd.grad(outputs, leaves, seeds, allow_unused=True))


def grad(op: Any, sample: Any) -> Outcome:
    """Backward with fixed cotangents gives torch's gradients."""
    outputs, leaves = _torch_outputs(op, sample)
    if not outputs or not leaves or is_random(op, sample):
        return "-"
    torch.manual_seed(3)
    seeds = [_like(t) for t in outputs]
    try:
        expected = _first(torch, outputs, leaves, seeds)
    except RuntimeError:
        return "-"  # torch has no derivative
    mine, our_leaves = _our_outputs(op, sample)
    if len(mine) != len(outputs):
        return f"{len(mine)} results require grad, torch's {len(outputs)}"
    got = _first(st, mine, our_leaves, ours(seeds))
    wrong = gradients_differ(got, expected)
    if wrong is None or outputs[0].dtype not in WIDER:
        return wrong
    wide = widened(sample)
    outputs, leaves = _torch_outputs(op, wide)
    if len(leaves) != len(expected):
        return wrong
    exact = _first(torch, outputs, leaves, [t.to(WIDER.get(t.dtype, t.dtype)) for t in seeds])
    rows = [row for row in zip(got, expected, exact, strict=True) if None not in row]
    near = rows and as_near(*([row[i] for row in rows] for i in range(3)), 4)
    return None if near else wrong


def gradgrad(op: Any, sample: Any) -> Outcome:
    """The derivatives of the gradients by inputs and cotangents."""
    if not op.supports_gradgrad:
        return "-"
    outputs, leaves = _torch_outputs(op, sample)
    if not outputs or not leaves or is_random(op, sample):
        return "-"
    torch.manual_seed(3)
    seeds = [_like(t) for t in outputs]
    try:
        there = _second(torch, outputs, leaves, [t.clone().requires_grad_() for t in seeds])
    except RuntimeError:
        return "-"  # torch has no second derivative
    if there is None:
        return "-"
    mine, our_leaves = _our_outputs(op, sample)
    here = _second(st, mine, our_leaves, [t.requires_grad_() for t in ours(seeds)])
    if here is None:
        return "the gradients do not require grad, torch's do"
    return gradients_differ(here, there)


def _second(side: Any, outputs: list[Any], leaves: list[Any], seeds: list[Any]) -> Any:
    firsts = side.autograd.grad(outputs, leaves, seeds, create_graph=True, allow_unused=True)
    kept = [t for t in firsts if t is not None and t.requires_grad]
    if not kept:
        return None
    torch.manual_seed(4)
    weights = [torch.randn(tuple(t.shape), dtype=getattr(torch, name_of(t.dtype))) for t in kept]
    weights = weights if side is torch else ours(weights)
    return _first(side, kept, [*leaves, *seeds], weights)


def _replaced(value: Any, by: dict[int, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        parts = [_replaced(v, by) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {k: _replaced(v, by) for k, v in value.items()}
    return by.get(id(value), value)


def _tangents(side: Any, op: Any, sample: Any, values: Any, seeds: list[Any]) -> list[Any]:
    """The tangents of the differentiable results, zeros where there is none."""
    forward_ad, process = side.autograd.forward_ad, sample.output_process_fn_grad
    call = op if side is torch else find(op)
    if side is st and process is not None and hasattr(process, "__code__"):
        process = on_our_side(process)
    with forward_ad.dual_level():
        pairs = zip(_leaves(values), seeds, strict=True)
        duals = {id(t): forward_ad.make_dual(t.detach(), v) for t, v in pairs}
        first, args, kwargs = _replaced(values, duals)
        result = seeded(call, first, *args, **kwargs)
        made = [forward_ad.unpack_dual(t) for t in tensors(process(result) if process else result)]
    kept = [pair for pair in made if pair.primal.is_floating_point() or pair.primal.is_complex()]
    return [side.zeros_like(p) if t is None else t for p, t in kept]


def _pushed(op: Any, sample: Any, values: Any, seeds: list[Any]) -> list[Any]:
    """Our tangents by func.jvp."""
    process = sample.output_process_fn_grad
    process = on_our_side(process) if hasattr(process, "__code__") else process
    leaves = [t.detach() for t in _leaves(values)]

    def call(*duals: Any) -> tuple[Any, ...]:
        by = {id(t): dual for t, dual in zip(_leaves(values), duals, strict=True)}
        first, args, kwargs = _replaced(values, by)
        result = seeded(find(op), first, *args, **kwargs)
        made = tensors(process(result) if process else result)
        return tuple(t for t in made if t.is_floating_point() or t.is_complex())

    return list(st.func.jvp(call, tuple(leaves), tuple(seeds))[1])


def jvp(op: Any, sample: Any) -> Outcome:
    """Forward mode gives torch's tangents, by dual tensors and by func.jvp."""
    values = (sample.input, sample.args, sample.kwargs)
    leaves = _leaves(values)
    if not op.supports_forward_ad or not leaves or is_random(op, sample):
        return "-"
    torch.manual_seed(3)
    seeds = [_like(t) for t in leaves]
    try:
        expected = _tangents(torch, op, sample, values, seeds)
    except (RuntimeError, NotImplementedError):
        return "-"  # torch has no tangents
    mine = ours(values), ours(seeds)
    differ = gradients_differ(_tangents(st, op, sample, *mine), expected)
    return differ or gradients_differ(_pushed(op, sample, *mine), expected)
