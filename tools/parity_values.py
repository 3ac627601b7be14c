"""The same value on both sides, shmtensor's and torch's, and how two results differ."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

import shmtensor as st

SEED = 42  # what the operators of torch's list that set one set
WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
# Relative and absolute, where they differ from torch.testing's own.
_TOLERANCES = {torch.float32: (1e-5, 1e-5), torch.float16: (2e-3, 1e-3)}
_GRADIENT_TOLERANCE = {
    torch.float64: 1e-6,
    torch.complex128: 1e-6,
    torch.float16: 1e-2,
    torch.bfloat16: 4e-2,
}

# What torch's list calls by a name that torch keeps to itself.
_PUBLIC = {"_segment_reduce": "segment_reduce"}

Outcome = str | None  # None: passed; "-": does not apply; else what is wrong


class Missing(Exception):
    """The operator is not there."""


def name_of(dtype: Any) -> str:
    """A dtype's name without its module."""
    return str(dtype).rpartition(".")[2]


def ours(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """The same value for shmtensor: tensors with the same bytes and strides, dtypes, devices.

    What shares memory there shares it here, within a call or a *memo*.
    """
    memo = {} if memo is None else memo
    if isinstance(value, torch.Tensor):
        if id(value) not in memo:
            memo[id(value)] = _our_tensor(value, memo)
        return memo[id(value)]
    if isinstance(value, torch.dtype):
        return getattr(st, name_of(value))
    if isinstance(value, torch.device):
        return st.device(value.type)
    if isinstance(value, (torch.memory_format, torch.layout)):
        return getattr(st, name_of(value))
    if isinstance(value, torch.Generator):
        return st.Generator()
    if isinstance(value, dict):
        return {key: ours(item, memo) for key, item in value.items()}
    if isinstance(value, torch.Size):
        return st.Size(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(ours(item, memo) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(ours(item, memo) for item in value)
    if isinstance(value, types.FunctionType):
        return on_our_side(value)
    if isinstance(value, torch.nn.LinearCrossEntropyOptions):
        return st.nn.LinearCrossEntropyOptions(**ours(dataclasses.asdict(value), memo))
    if isinstance(value, torch.nn.PairwiseDistance):
        return st.nn.PairwiseDistance(value.norm, value.eps, value.keepdim)
    return value


def _our_tensor(value: torch.Tensor, memo: dict[int, Any]) -> Any:
    if value.layout is not torch.strided:
        raise Missing(f"layout {value.layout}")
    needs_grad = value.requires_grad
    value = value.detach().resolve_conj().resolve_neg()
    dtype = ours(value.dtype)
    if value.device.type == "meta":
        return st.empty_strided(tuple(value.shape), value.stride(), dtype=dtype, device="meta")
    storage = value.untyped_storage()
    address = storage.data_ptr()
    if -address not in memo:
        memo[-address] = st.from_numpy(
            torch.empty(0, dtype=torch.uint8).set_(storage).numpy().copy()
        )
        # Another storage must not get this address while the memo knows it.
        memo[id(storage)] = storage
    raw = memo[-address]
    raw = raw[: raw.numel() // value.element_size() * value.element_size()]
    flat = raw.view(dtype) if raw.numel() else st.empty(0, dtype=dtype)
    made = flat.as_strided(tuple(value.shape), value.stride(), value.storage_offset())
    return made.requires_grad_() if needs_grad else made


def theirs(value: Any) -> Any:
    """The same value for torch."""
    if isinstance(value, st.Tensor):
        value = value.detach().resolve_conj().resolve_neg().contiguous()
        dtype = getattr(torch, name_of(value.dtype))
        if value.numel() == 0:
            return torch.empty(tuple(value.shape), dtype=dtype)
        raw = value.as_strided((value.numel(),), (1,)).view(st.uint8).numpy().copy()
        return torch.from_numpy(raw).view(dtype).reshape(tuple(value.shape))
    if isinstance(value, (list, tuple)):
        return [theirs(item) for item in value]
    if isinstance(value, st.dtype):
        return getattr(torch, name_of(value))
    return value


def tensors(value: Any) -> Iterator[Any]:
    """The tensors of a result, in order."""
    if isinstance(value, (torch.Tensor, st.Tensor)):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def copied(value: Any) -> Any:
    """The same for torch with tensors of their own storage, strides and overlaps kept."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    storage = value.untyped_storage()
    if value.device.type == "meta" or not storage.nbytes():
        return value.clone()
    made = torch.empty(0, dtype=value.dtype).set_(storage.clone())
    made = made.as_strided(value.shape, value.stride(), value.storage_offset())
    made = made.conj() if value.is_conj() else made
    return torch._neg_view(made) if value.is_neg() else made


def set_seeds() -> None:
    """Make what draws random numbers begin at the same place."""
    torch.manual_seed(SEED)
    st.manual_seed(SEED)


def on_our_side(function: Any) -> Any:
    """A function of torch's list, such as one that swaps arguments, calling shmtensor."""

    def set_seed(called: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        st.manual_seed(SEED)
        return called(*args, **kwargs)

    names = {**function.__globals__, "torch": st, "wrapper_set_seed": set_seed}
    return types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )


def find(op: Any) -> Callable[..., Any]:
    """Our function of an operator's name."""
    if getattr(op.op, "__name__", "") == "<lambda>":
        return on_our_side(op.op)
    return named(op.name)


def named(name: str) -> Callable[..., Any]:
    """Our function of a name below torch, or the method where there is no function."""
    found: Any = st
    name = _PUBLIC.get(name, name)
    for part in name.removeprefix("torch.").split("."):
        found = getattr(found, part, None)
        if found is None:
            break
    if callable(found) and not isinstance(found, type):
        return found
    method = getattr(st.Tensor, name, None)
    if method is None:
        raise Missing("no such name")
    return method if callable(method) else method.__get__


# --- comparing -----------------------------------------------------------------------------------


def differ(mine: Any, other: Any, values: bool = True) -> Outcome:
    """Say how two results differ, or None."""
    a, b = list(tensors(mine)), list(tensors(other))
    if len(a) != len(b):
        return f"{len(a)} tensors returned, torch returns {len(b)}"
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if tuple(x.shape) != tuple(y.shape):
            return f"result {i}: shape {tuple(x.shape)}, torch {tuple(y.shape)}"
        if name_of(x.dtype) != name_of(y.dtype):
            return f"result {i}: {x.dtype}, torch {y.dtype}"
        if values and (wrong := _values_differ(theirs(x), y.detach())):
            return f"result {i}: {wrong}"
    if not b and values and theirs(mine) != (list(other) if isinstance(other, tuple) else other):
        same_nan = mine != mine and other != other
        return None if same_nan else f"{mine!r}, torch {other!r}"
    return None


def _values_differ(x: torch.Tensor, y: torch.Tensor) -> Outcome:
    y = y.resolve_conj().resolve_neg()
    if x.dtype is torch.complex32:
        x, y = x.to(torch.complex64), y.to(torch.complex64)
    rtol, atol = _TOLERANCES.get(y.dtype, (None, None))
    if y.dtype is torch.complex64:
        rtol, atol = 1e-5, 1e-5
    try:
        torch.testing.assert_close(x, y, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:160]
    return None


def gradients_differ(mine: list[Any], other: list[Any]) -> Outcome:
    """Gradients, None where an input has none: near in relation to the largest of each."""
    for i, (x, y) in enumerate(zip(mine, other, strict=True)):
        if y is None or x is None:
            # No gradient and one of zeros, but for rounding, say the same.
            there = theirs(x) if y is None else y
            if there is not None and bool((there.abs() > 1e-12).any()):
                return f"gradient {i}: {'none' if x is None else 'one'}, torch says otherwise"
            continue
        if tuple(x.shape) != tuple(y.shape) or name_of(x.dtype) != name_of(y.dtype):
            return f"gradient {i}: {x.dtype} {tuple(x.shape)}, torch {y.dtype} {tuple(y.shape)}"
        a, b = theirs(x), y.detach().resolve_conj().resolve_neg()
        finite = b[torch.isfinite(b)]
        scale = float(finite.abs().max()) if finite.numel() else 1.0
        rtol = _GRADIENT_TOLERANCE.get(b.dtype, 1e-4)
        try:
            torch.testing.assert_close(
                a, b, rtol=rtol, atol=rtol * max(scale, 1e-3), equal_nan=True
            )
        except AssertionError as error:
            return f"gradient {i}: {' '.join(str(error).split())[:150]}"
    return None


def as_near(mine: list[Any], other: list[Any], exact: list[Any], factor: float) -> bool:
    """Are our values no further from the exact ones than *factor* times torch's own?"""
    if [tuple(t.shape) for t in mine] != [tuple(t.shape) for t in other]:
        return False
    for x, y, z in zip(mine, other, exact, strict=True):
        a, b, c = (t.detach().resolve_conj().to(z.dtype) for t in (theirs(x), y, z))
        if b.dtype.is_floating_point or b.dtype.is_complex:
            special = ~(torch.isfinite(a) & torch.isfinite(b) & torch.isfinite(c))
            same = (a == b) | (torch.isnan(a) & torch.isnan(b)) | (a == c)
            same |= torch.isnan(a) & torch.isnan(c)
            if not bool(same[special].all()):
                return False
            a, b, c = a[~special], b[~special], c[~special]
            if a.numel() and not (a - c).abs().max() <= factor * (b - c).abs().max():
                return False
        elif not torch.equal(a, b):
            return False
    return True
