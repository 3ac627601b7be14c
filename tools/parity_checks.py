"""The checks that compare one operator with torch's on one of torch's samples.

Each takes an operator of torch's list and a sample and returns None (passed), "-" (does not apply)
or what is wrong. They do not change the sample.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from parity_values import (
    WIDER,
    Missing,
    Outcome,
    as_near,
    copied,
    differ,
    find,
    gradients_differ,
    name_of,
    named,
    on_our_side,
    ours,
    set_seeds,
    tensors,
    theirs,
)

import shmtensor as st

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


def _seeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    set_seeds()
    return function(*args, **kwargs)


def _reference(op: Any, sample: Any) -> Any:
    return _seeded(op, sample.input, *sample.args, **sample.kwargs)


def _call(function: Callable[..., Any], sample: Any) -> Any:
    value, arguments, options = ours((sample.input, sample.args, sample.kwargs))
    return _seeded(function, value, *arguments, **options)


def _copy(sample: Any) -> Any:
    return sample.transform(copied)


def _overlaps_itself(t: torch.Tensor) -> bool:
    """Do elements share memory, so that what is left of them depends on the order of writes?"""
    reach = 0
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


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


def _compare(op: Any, sample: Any, result: Any, expected: Any) -> Outcome:
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


def _widened(sample: Any) -> Any:
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
        exact = list(tensors(_reference(op, _widened(sample))))
    except (RuntimeError, TypeError):
        return False
    return len(mine) == len(other) == len(exact) and as_near(mine, other, exact, 4)


def forward(op: Any, sample: Any) -> Outcome:
    """Values, shapes and dtypes."""
    return _compare(op, sample, _call(find(op), sample), _reference(op, sample))


def _same_strides(mine: Any, other: Any) -> Outcome:
    for x, y in zip(tensors(mine), tensors(other), strict=False):
        if y.numel() > 1 and [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1] != [
            s for s, n in zip(y.stride(), y.shape, strict=True) if n > 1
        ]:
            return f"strides {x.stride()} for {tuple(x.shape)}, torch {tuple(y.stride())}"
    return None


def strides(op: Any, sample: Any) -> Outcome:
    """The strides of the results."""
    return _same_strides(_call(find(op), sample), _reference(op, sample))


def noncontig(op: Any, sample: Any) -> Outcome:
    """Arguments with gaps between their elements."""
    try:
        apart = sample.noncontiguous()
        _reference(op, apart)
    except RuntimeError:
        return "-"
    return forward(op, apart)


def meta(op: Any, sample: Any) -> Outcome:
    """What Meta predicts: shape, dtype and strides of what is computed."""

    def there(value: Any) -> Any:
        if isinstance(value, st.Tensor):
            like = (tuple(value.shape), tuple(value.stride()))
            return st.empty_strided(*like, dtype=value.dtype, device="meta")
        if isinstance(value, (list, tuple)):
            return type(value)(there(item) for item in value)
        return value

    given = there((ours(sample.input), *ours(sample.args)))
    kwargs = {key: there(item) for key, item in ours(sample.kwargs).items()}
    if not list(tensors(given)):
        return "-"
    try:
        predicted = _seeded(find(op), *given, **kwargs)
    except (NotImplementedError, RuntimeError) as refused:
        # Shapes that depend on values cannot be predicted.
        unknown = (
            "depends on data",
            "depend on data",
            "item() cannot be called",
            "copy out of meta",
            "be on cpu",
        )
        if any(text in str(refused) for text in unknown):
            return "-"
        raise
    computed = _call(find(op), sample)
    if not list(tensors(computed)):
        return "-"
    for x, y in zip(tensors(predicted), tensors(computed), strict=True):
        got, want = (tuple(x.shape), x.dtype), (tuple(y.shape), y.dtype)
        if got != want:
            return f"predicted {got}, computed {want}"
        if wrong := _same_strides(x, y):
            return f"predicted {wrong.replace('torch', 'computed')}"
        if x.device.type != str(kwargs.get("device", "meta")):
            return f"the result is on {x.device}"
    return None


def _form(variant: Any) -> Any:
    """Our method of the same name, or torch's own lambda with our functions in it."""
    if variant.__name__ == "<lambda>":
        return on_our_side(variant)
    function = getattr(st.Tensor, variant.__name__, None)
    if function is None:
        raise Missing(f"no method {variant.__name__}")
    return function


def method(op: Any, sample: Any) -> Outcome:
    """The method form."""
    if op.method_variant is None or not isinstance(sample.input, torch.Tensor):
        return "-"
    function = _form(op.method_variant)
    return _compare(op, sample, _call(function, sample), _reference(op.method_variant, sample))


def inplace(op: Any, sample: Any) -> Outcome:
    """The in-place form, on samples whose result fits in the argument."""
    name = getattr(op.inplace_variant, "__name__", None)
    fits = isinstance(sample.input, torch.Tensor) and not sample.broadcasts_input
    if name is None or not fits:
        return "-"
    if _overlaps_itself(sample.input):
        return "-"
    function = _form(op.inplace_variant)
    copy = _copy(sample)
    try:
        expected = _seeded(op.inplace_variant, copy.input, *copy.args, **copy.kwargs)
    except RuntimeError:
        return "-"
    mine = ours(sample.input)
    arguments = ours(sample.args)
    result = _seeded(function, mine, *arguments, **ours(sample.kwargs))
    if isinstance(mine, st.Tensor) and result is not mine:
        return "the result is not the argument"
    return _compare(op, sample, result, expected)


def _write_out(op: Any, sample: Any, given: list[Any]) -> None:
    single = len(given) == 1 and isinstance(_reference(op, sample), torch.Tensor)
    kwargs = {**ours(sample.kwargs), "out": given[0] if single else tuple(given)}
    _seeded(find(op), ours(sample.input), *ours(sample.args), **kwargs)


def out(op: Any, sample: Any) -> Outcome:
    """``out=`` into tensors of the right size, into strided ones, into empty ones."""
    if not op.supports_out:
        return "-"
    whole = _reference(op, sample)
    expected = list(tensors(whole))
    try:
        given = [torch.empty_like(t) for t in expected]
        single = given[0] if isinstance(whole, torch.Tensor) else tuple(given)
        _seeded(op, sample.input, *sample.args, **sample.kwargs, out=single)
    except (RuntimeError, TypeError):
        return "-"
    made = ours([torch.empty_like(t) for t in expected])
    _write_out(op, sample, made)
    wrong = _compare(op, sample, made, expected)
    if wrong:
        return wrong
    gaps = [st.zeros((*t.shape, 2), dtype=ours(t.dtype))[..., 0] for t in expected]
    before = [tuple(t.stride()) for t in gaps]
    _write_out(op, sample, gaps)
    if [tuple(t.stride()) for t in gaps] != before:
        return "a strided out= changed its strides"
    wrong = _compare(op, sample, gaps, expected)
    if wrong:
        return f"strided out=: {wrong}"
    empty = [st.empty(0, dtype=ours(t.dtype)) for t in expected]
    _write_out(op, sample, empty)
    wrong = _compare(op, sample, empty, expected)
    return f"empty out=: {wrong}" if wrong else None


def outcast(op: Any, sample: Any) -> Outcome:
    """``out=`` of other dtypes: the same values or the same refusal."""
    if not op.supports_out:
        return "-"
    whole = _reference(op, sample)
    expected = list(tensors(whole))
    for dtype in (torch.float64, torch.int64, torch.complex128, torch.bool):
        there = [torch.empty(t.shape, dtype=dtype) for t in expected]
        given = there[0] if isinstance(whole, torch.Tensor) else tuple(there)
        refusal: type[Exception] | None = None
        try:
            _seeded(op, sample.input, *sample.args, **sample.kwargs, out=given)
        except Exception as error:
            refusal = type(error)
        mine = [st.empty(tuple(t.shape), dtype=ours(dtype)) for t in expected]
        try:
            _write_out(op, sample, mine)
        except Exception as error:
            if refusal is None:
                return f"out= of {name_of(dtype)} refused: {' '.join(str(error).split())[:100]}"
            if not isinstance(error, refusal):
                return f"out= of {name_of(dtype)}: {type(error).__name__}, torch {refusal.__name__}"
            continue
        if refusal is not None:
            return f"out= of {name_of(dtype)} taken, torch raises {refusal.__name__}"
        narrow = [theirs(x).to(y.dtype) for x, y in zip(mine, expected, strict=True)]
        wrong = _compare(
            op, sample, narrow, [x.to(y.dtype) for x, y in zip(there, expected, strict=True)]
        )
        if wrong:
            return f"out= of {name_of(dtype)}: {wrong}"
    return None


# --- derivatives ---------------------------------------------------------------------------------


def _leaves(values: Any) -> list[Any]:
    return [t for t in tensors(values) if t.requires_grad]


def _like(t: torch.Tensor) -> torch.Tensor:
    return torch.randn(t.shape, dtype=t.dtype)


def _torch_outputs(op: Any, sample: Any) -> tuple[list[Any], list[Any]]:
    # Some samples are views that were made without recording, which get no gradient.
    sample = sample.transform(
        lambda t: t.detach().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t
    )
    result = _reference(op, sample)
    if sample.output_process_fn_grad is not None:
        result = sample.output_process_fn_grad(result)
    leaves = _leaves((sample.input, sample.args, sample.kwargs))
    return [t for t in tensors(result) if t.requires_grad], leaves


def _our_outputs(op: Any, sample: Any) -> tuple[list[Any], list[Any]]:
    values = ours(sample.input), ours(sample.args), ours(sample.kwargs)
    result = _seeded(find(op), values[0], *values[1], **values[2])
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
    wide = _widened(sample)
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
        result = _seeded(call, first, *args, **kwargs)
        made = [forward_ad.unpack_dual(t) for t in tensors(process(result) if process else result)]
    kept = [pair for pair in made if pair.primal.is_floating_point() or pair.primal.is_complex()]
    return [side.zeros_like(p) if t is None else t for p, t in kept]


def jvp(op: Any, sample: Any) -> Outcome:
    """Forward mode gives torch's tangents."""
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
    return gradients_differ(_tangents(st, op, sample, ours(values), ours(seeds)), expected)


# --- other forms ---------------------------------------------------------------------------------


def view(op: Any, sample: Any) -> Outcome:
    """What is a view of the input there is one here: a write shows in the input."""
    if not isinstance(sample.input, torch.Tensor):
        return "-"
    there, here = _copy(sample), ours(sample.input)
    result = _reference(op, there)
    address = there.input.untyped_storage().data_ptr()
    views = [t.untyped_storage().data_ptr() == address for t in tensors(result)]
    if not address or not any(views):
        return "-"
    mine = _seeded(find(op), here, *ours(sample.args), **ours(sample.kwargs))
    with torch.no_grad(), st.no_grad():
        for t, written in zip(tensors(result), views, strict=True):
            try:
                if written:
                    t.logical_not_() if t.dtype is torch.bool else t.add_(1)
            except RuntimeError:
                return "-"
        for t, written in zip(tensors(mine), views, strict=True):
            if written:
                t.logical_not_() if t.dtype is st.bool else t.add_(1)
    return differ(here, there.input)


def alias(op: Any, sample: Any) -> Outcome:
    """Torch's other names of the operator."""
    expected = _reference(op, sample) if op.aliases else None
    for other in op.aliases:
        wrong = _compare(op, sample, _call(named(other.name), sample), expected)
        if wrong:
            return f"{other.name}: {wrong}"
    return None if op.aliases else "-"


def operator(op: Any, sample: Any) -> Outcome:
    """The Python operators."""
    forms = [f for f in (op.operator_variant, op.inplace_operator_variant) if f is not None]
    outcome: Outcome = "-"
    for form in forms:
        copy = _copy(sample)
        if not isinstance(copy.input, torch.Tensor) or copy.kwargs:
            continue
        try:
            expected = form(copy.input, *copy.args)
        except (RuntimeError, TypeError):
            continue
        outcome = _compare(op, sample, form(ours(sample.input), *ours(sample.args)), expected)
        if outcome:
            return f"{form.__name__}: {outcome}"
    return outcome


def error(op: Any, sample: Any, messages: bool = False) -> Outcome:
    """Torch's error inputs raise its exception type, with *messages* its text too."""
    inputs = sample.sample_input
    expected = sample.error_type
    try:
        _reference(op, inputs)
    except Exception:  # the input is bad for torch as well
        pass
    else:
        return "-"
    try:
        _call(find(op), inputs)
    except expected as raised:
        if messages and not re.search(sample.error_regex, str(raised)):
            return f"says {str(raised)[:90]!r}, torch {sample.error_regex[:90]!r}"
        return None
    except Exception as raised:
        return f"raised {type(raised).__name__} ({str(raised)[:80]}), torch {expected.__name__}"
    return f"raised nothing, torch {expected.__name__}: {str(sample.error_regex)[:80]}"


def message(op: Any, sample: Any) -> Outcome:
    """The text of the exceptions too."""
    return error(op, sample, messages=True)


RUN: dict[str, Callable[[Any, Any], Outcome]] = {
    "forward": forward,
    "grad": grad,
    "gradgrad": gradgrad,
    "jvp": jvp,
    "strides": strides,
    "noncontig": noncontig,
    "method": method,
    "inplace": inplace,
    "out": out,
    "outcast": outcast,
    "meta": meta,
    "view": view,
    "alias": alias,
    "operator": operator,
    "error": error,
    "message": message,
}
