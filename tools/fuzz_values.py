"""What the lines of ``fuzz_calls.py`` call: tensors that lie oddly in memory, checks of results.

A line is evaluated with the names of this module's :data:`NAMES` and ``st``.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import shmtensor as st

#: Words of errors that are about how a tensor lies in memory: other strides, another answer.
OF_LAYOUT = (
    "stride view contiguous overlap single memory resize named names dims storage channels_last "
    "read-only lazily memory_format"
).split()
#: Elements of results that are differentiated: expanded ones may seem to have any number.
MOST_ELEMENTS = 1 << 22
#: Results that are compared at each end of a longer list, or differentiated.
MOST = 500
#: Differences between two orders of summing, relative to the largest number in the result.
TOLERANCE = {
    "bfloat16": 0.1,
    "float16": 0.02,
    "complex32": 0.02,
    "float32": 1e-3,
    "complex64": 1e-3,
}


class DisagreementError(Exception):
    """A call on tensors that lie oddly gives other values than on dense ones."""


def make(
    dtype: str,
    shape: tuple[int, ...],
    seed: int = 0,
    layout: str = "dense",
    *,
    low: float = -3,
    high: float = 3,
    grad: bool = False,
    device: str = "cpu",
) -> Any:
    """A tensor of random values; *layout* says how it lies in memory."""
    kind = getattr(st, dtype)
    if device == "meta":
        made = st.empty(shape, dtype=kind, device="meta")
    else:
        st.manual_seed(seed)
        span = st.rand(shape, dtype=st.float64) * (high - low) + low
        made = (span.floor() if not (kind.is_floating_point or kind.is_complex) else span).to(kind)
        if seed % 5 == 0 and made.numel() and layout != "expanded":
            _put_special_values(made, seed)
    made = _laid_out(made, layout)
    return made.detach().requires_grad_() if grad else made


def _put_special_values(made: Any, seed: int) -> None:
    flat = made.view(-1)
    if made.dtype.is_floating_point or made.dtype.is_complex:
        info = st.finfo(made.dtype)
        values = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 6e4]
        values += [info.max, info.min, info.smallest_normal / 8]
    elif made.dtype is st.bool:
        return
    else:
        whole = st.iinfo(made.dtype)
        values = [whole.max, whole.min, 0]
    flat[seed % flat.numel()] = values[seed // 5 % len(values)]


def _laid_out(x: Any, layout: str) -> Any:
    n = x.dim()
    if layout == "transposed":
        order = list(range(n))[::-1]
        return x.permute(order).contiguous().permute(order)
    if layout == "grouped" and n > 1:
        return x.permute([*range(1, n), 0]).contiguous().permute([n - 1, *range(n - 1)])
    if layout == "stepped" and n:
        wide = x.new_zeros((*x.shape[:-1], 2 * x.shape[-1]))
        wide[..., ::2] = x
        return wide[..., ::2]
    if layout == "shifted":
        flat = x.new_zeros(x.numel() + 5)
        return flat[3 : 3 + x.numel()].view(x.shape).copy_(x)
    if layout == "expanded" and n and x.numel():
        return x[:1].expand(x.shape)
    if layout == "overlapping" and n:
        room = x.new_zeros(sum(x.shape) + 1)
        return room.as_strided(x.shape, (1,) * n)
    if layout == "behind" and n:  # strides against the order of memory
        return x.as_strided(x.shape, tuple(-s for s in x.stride()), max(x.numel() - 1, 0))
    if layout == "lazy" and x.is_complex():
        return x.conj().resolve_conj().conj()
    if layout == "negated" and (x.is_complex() or x.is_floating_point()):
        return st.ops.aten._neg_view.default(x)
    if layout == "named" and n:
        return x.refine_names(*"abcdefghijklmnop"[:n])
    if layout == "readonly" and x.device.type == "cpu":
        return read_only(x)
    return x


def read_only(x: Any) -> Any:
    """The same numbers on pages that cannot be written to."""
    if x.dtype in (st.bfloat16, st.complex32, st.bool) or not x.numel():
        return x
    with tempfile.TemporaryFile() as file:
        file.write(x.contiguous().numpy().tobytes())
        file.flush()
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return st.from_dlpack(np.frombuffer(pages, dtype=x.numpy().dtype).reshape(x.shape))


def huge(dtype: str, shape: tuple[int, ...]) -> Any:
    """One element that looks like many."""
    return st.ones((), dtype=getattr(st, dtype)).expand(shape)


def assign(x: Any, index: Any, value: Any) -> Any:
    """``x[index] = value``."""
    x[index] = value
    return x


def back(result: Any) -> Any:
    """Differentiate what came out, twice where that can be done and is not too much."""
    outs = [t for t in _flat(result) if isinstance(t, st.Tensor) and t.requires_grad]
    outs = [t for t in outs if t.numel() <= MOST_ELEMENTS]
    for out in outs[:MOST]:
        total = out.real.sum() if out.is_complex() else out.sum()
        total.backward(retain_graph=True)
    for out in outs[:1]:
        leaves = _leaves(out.grad_fn)
        total = (out * out).real.sum() if out.is_complex() else (out * out).sum()
        first = st.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
        again = [g for g in first if g is not None and g.requires_grad]
        for g in again[:2]:
            (g.real.sum() if g.is_complex() else g.sum()).backward(retain_graph=True)
    return result


def _leaves(node: Any) -> list[Any]:
    found, seen, todo = [], set(), [node]
    while todo:
        here = todo.pop()
        if here is None or id(here) in seen:
            continue
        seen.add(id(here))
        if hasattr(here, "variable"):
            found.append(here.variable)
        todo += [edge[0] for edge in here.next_functions]
    return found


def _flat(value: Any) -> list[Any]:
    return [x for v in value for x in _flat(v)] if isinstance(value, (list, tuple)) else [value]


# --- the same on dense tensors -------------------------------------------------------------------


def agree(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The call; the same on dense copies of its tensors must have the same values and gradients.

    Raises:
        DisagreementError: It has others, or only one of the two calls fails, for a reason that is
            not how the tensors lie in memory.
    """
    dense = [_dense(a) for a in args]
    dense_named = {key: _dense(value) for key, value in kwargs.items()}
    got, failed = _call(function, args, kwargs, 0x7F)
    want, failed_dense = _call(function, dense, dense_named, 0x11)
    if not _both(failed, failed_dense):
        return got
    spread = _spread(function, [*dense, *dense_named.values()])
    _compare(got, want, spread)
    inputs = (_wanted([*args, *kwargs.values()]), _wanted([*dense, *dense_named.values()]))
    slopes, failed = _call(_gradients, (got, inputs[0]), {}, 0x7F)
    slopes_dense, failed_dense = _call(_gradients, (want, inputs[1]), {}, 0x11)
    if _both(failed, failed_dense):
        _compare(slopes, slopes_dense, spread)
    return got


def _spread(function: Callable[..., Any], dense: list[Any]) -> float:
    """The largest number that a part of a result may be; 0 where numbers stay apart.

    Transforms add all numbers of a line in an order that depends on how the line lies; so do means,
    of whose rounding covariances are products, and gradients of softmax, which are differences of
    products in attention. Products are multiplied in such an order.
    """
    squares = (".cov.", "attention")
    power = 1 if "fft" in str(function) else 2 if any(w in str(function) for w in squares) else 0
    is_product = ".prod." in str(function)
    if not power and not is_product:
        return 0.0
    numbers = [np.abs(_wide(x.detach())) for x in _flat(dense) if isinstance(x, st.Tensor)
               and x.device.type == "cpu" and x.numel()]  # fmt: skip
    with np.errstate(over="ignore"):
        if is_product:
            large = float(np.prod([np.maximum(n[np.isfinite(n)], 1).prod() for n in numbers]))
            doubles = {st.float64, st.complex128} & {
                getattr(x, "dtype", None) for x in _flat(dense)
            }
            most = st.finfo(st.float64 if doubles else st.float32).max
            return large if large > most / 8 else 0.0
        return float(sum((n[np.isfinite(n)] ** power).sum() for n in numbers))


def _both(failed: Exception | None, failed_dense: Exception | None) -> bool:
    """Are there two results?"""
    if (failed is None) != (failed_dense is None):
        error = failed or failed_dense
        if not any(word in str(error) for word in OF_LAYOUT) and type(error) is not MemoryError:
            raise DisagreementError(f"only {'these' if failed else 'dense ones'} fail: {error}")
    if failed:
        raise failed
    return failed_dense is None


def _wanted(values: list[Any]) -> list[Any]:
    return [x for x in _flat(values) if isinstance(x, st.Tensor) and x.requires_grad and x.is_leaf]


def _gradients(result: Any, inputs: list[Any]) -> list[Any]:
    outs = [t for t in _flat(result) if isinstance(t, st.Tensor) and t.requires_grad]
    outs = [t for t in outs if t.numel() <= MOST_ELEMENTS and t.device.type == "cpu"]
    outs = [(t * t).sum() for t in outs[:MOST]]
    if not inputs or not outs:
        return []
    total = sum(t.real if t.is_complex() else t for t in outs)
    return list(st.autograd.grad(total, inputs, retain_graph=True, allow_unused=True))


def _call(
    function: Callable[..., Any], args: Any, kwargs: Any, soil: int
) -> tuple[Any, Exception | None]:
    st.manual_seed(0)
    _soil(soil)
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, error


def _soil(byte: int) -> None:
    """Fill memory that the allocator is about to give out: results nobody wrote to show it."""
    for nbytes in (64, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048, 4096, 16384):
        blocks = [st.empty(nbytes, dtype=st.uint8) for _ in range(6)]
        for block in blocks:
            block.fill_(byte)


def _dense(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_dense(v) for v in value)
    if not isinstance(value, st.Tensor) or value.device.type == "meta":
        return value
    plain = value.detach().rename(None).resolve_conj().resolve_neg()
    return plain.clone(memory_format=st.contiguous_format).requires_grad_(value.requires_grad)


def _compare(got: Any, want: Any, spread: float) -> None:
    ours, theirs = _flat(got), _flat(want)
    if len(ours) != len(theirs):
        raise DisagreementError(f"{len(ours)} results, {len(theirs)} of dense tensors")
    pairs = list(zip(ours, theirs, strict=True))
    for a, b in pairs if len(pairs) <= 2 * MOST else pairs[:MOST] + pairs[-MOST:]:
        if isinstance(a, st.Tensor) and isinstance(b, st.Tensor) and a.device.type == "cpu":
            _compare_tensors(a.detach(), b.detach(), spread)


def _compare_tensors(a: Any, b: Any, spread: float) -> None:
    if a.shape != b.shape or a.dtype is not b.dtype:
        raise DisagreementError(f"{a.dtype} {a.shape}, of dense tensors {b.dtype} {b.shape}")
    share = TOLERANCE.get(str(a.dtype).split(".")[1], 1e-6)
    left, right = _wide(a), _wide(b)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if same.all():
        return
    finite = np.isfinite(left) & np.isfinite(right)
    largest = np.abs(right[np.isfinite(right)]).max(initial=max(spread, 1.0))
    real = a.dtype.is_floating_point or a.dtype.is_complex
    if real and spread > st.finfo(a.dtype).max / 8:
        return  # whether it overflows depends on the order, too
    if not (same | finite).all() or np.abs((left - right)[finite]).max(initial=0) > share * largest:
        at = int(np.argmin(same.reshape(-1)))
        raise DisagreementError(
            f"{left.reshape(-1)[at]} at {at} of {a.shape} {a.dtype}, "
            f"of dense tensors {right.reshape(-1)[at]}"
        )


def _wide(x: Any) -> Any:
    """Its numbers as float64, complex ones as pairs of them."""
    plain = x.rename(None).resolve_conj().resolve_neg()
    if plain.is_complex():
        return st.view_as_real(plain.to(st.complex128)).numpy()
    return plain.to(st.float64).numpy()


NAMES = {"st": st, "make": make, "huge": huge, "back": back, "agree": agree, "assign": assign}
