"""Compare operators with torch's on the sample inputs that torch tests itself with.

    python tools/parity.py                       # every operator, float32, writes docs/parity.md
    python tools/parity.py --only add linalg.svd --dtypes float32 complex64
    python tools/parity.py --checks forward out --jobs 4

Needs torch 2.13 with what its own tests import (numpy, expecttest, hypothesis). Each operator runs
in a process of its own, so one that crashes or hangs is a line in the report.

Checks: ``forward`` (values, shape, dtype), ``strides`` (of the results), ``noncontig`` (arguments
with gaps), ``method``, ``inplace``, ``out``, ``meta`` (predicted shape and dtype), ``error``
(torch's error inputs raise its exception type). Values must be close to torch's, or as close to the
result in double precision.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

import shmtensor as st

ROOT = Path(__file__).resolve().parents[1]
CHECKS = ("forward", "strides", "noncontig", "method", "inplace", "out", "meta", "error")
MAX_SAMPLES = 60
SECONDS_PER_OPERATOR = 120
SEED = 42  # what the operators of torch's list that set one set

Outcome = str | None  # None: passed; "-": does not apply; else what is wrong


class Missing(Exception):
    """The operator is not there."""


# --- values of both sides ------------------------------------------------------------------------


def ours(value: Any) -> Any:
    """The same value for shmtensor: tensors with the same bytes and strides, dtypes, devices."""
    if isinstance(value, torch.Tensor):
        return _our_tensor(value)
    if isinstance(value, torch.dtype):
        return getattr(st, str(value).rpartition(".")[2])
    if isinstance(value, torch.device):
        return st.device(value.type)
    if isinstance(value, (torch.memory_format, torch.layout)):
        return getattr(st, str(value).rpartition(".")[2])
    if isinstance(value, torch.Generator):
        return st.Generator()
    if isinstance(value, dict):
        return {key: ours(item) for key, item in value.items()}
    if isinstance(value, torch.Size):
        return st.Size(value)
    if isinstance(value, (list, tuple)):
        return type(value)(ours(item) for item in value)
    return value


def _our_tensor(value: torch.Tensor) -> Any:
    if value.layout is not torch.strided:
        raise Missing(f"layout {value.layout}")
    value = value.resolve_conj().resolve_neg()
    dtype = ours(value.dtype)
    if value.device.type == "meta":
        return st.empty_strided(tuple(value.shape), value.stride(), dtype=dtype, device="meta")
    storage = value.untyped_storage()
    raw = torch.empty(0, dtype=torch.uint8).set_(storage).numpy().copy()
    flat = st.from_numpy(raw).view(dtype) if len(raw) else st.empty(0, dtype=dtype)
    made = flat.as_strided(tuple(value.shape), value.stride(), value.storage_offset())
    return made.requires_grad_() if value.requires_grad else made


def theirs(value: Any) -> Any:
    """The same value for torch."""
    if isinstance(value, st.Tensor):
        value = value.detach().contiguous()
        name = str(value.dtype).rpartition(".")[2]
        if value.dtype is st.bfloat16:
            return torch.from_numpy(value.view(st.int16).numpy().copy()).view(torch.bfloat16)
        if value.numel() == 0:
            return torch.empty(tuple(value.shape), dtype=getattr(torch, name))
        return torch.from_numpy(value.numpy().copy())
    if isinstance(value, (list, tuple)):
        return [theirs(item) for item in value]
    if isinstance(value, st.dtype):
        return getattr(torch, str(value).rpartition(".")[2])
    return value


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, (torch.Tensor, st.Tensor)):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def differ(mine: Any, other: Any, values: bool = True) -> Outcome:
    """Say how two results differ, or None."""
    a, b = list(_tensors(mine)), list(_tensors(other))
    if len(a) != len(b):
        return f"{len(a)} tensors returned, torch returns {len(b)}"
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if tuple(x.shape) != tuple(y.shape):
            return f"result {i}: shape {tuple(x.shape)}, torch {tuple(y.shape)}"
        if str(x.dtype).rpartition(".")[2] != str(y.dtype).rpartition(".")[2]:
            return f"result {i}: {x.dtype}, torch {y.dtype}"
        if values:
            try:
                torch.testing.assert_close(
                    theirs(x), y.detach().resolve_conj().resolve_neg(), equal_nan=True
                )
            except AssertionError as error:
                return f"result {i}: {' '.join(str(error).split())[:160]}"
    if not b and values and theirs(mine) != (list(other) if isinstance(other, tuple) else other):
        same_nan = mine != mine and other != other
        return None if same_nan else f"{mine!r}, torch {other!r}"
    return None


# --- calling -------------------------------------------------------------------------------------


def _on_our_side(function: Any) -> Any:
    """A lambda of torch's list, such as one that swaps arguments, calling shmtensor."""

    def set_seed(called: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        st.manual_seed(SEED)
        return called(*args, **kwargs)

    names = {**function.__globals__, "torch": st, "wrapper_set_seed": set_seed}
    return types.FunctionType(
        function.__code__, names, "<lambda>", function.__defaults__, function.__closure__
    )


def find(op: Any) -> Callable[..., Any]:
    """Our function of an operator's name."""
    if getattr(op.op, "__name__", "") == "<lambda>":
        return _on_our_side(op.op)
    found: Any = st
    for part in op.name.split("."):
        found = getattr(found, part, None)
        if found is None:
            break
    if callable(found) and not isinstance(found, type):
        return found
    method = getattr(st.Tensor, op.name, None)
    if method is None:
        raise Missing("no such name")
    return method if callable(method) else method.__get__


def _seeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    torch.manual_seed(SEED)
    st.manual_seed(SEED)
    return function(*args, **kwargs)


def _is_random(op: Any, sample: Any) -> bool:
    torch.manual_seed(1)
    a = list(_tensors(op(sample.input, *sample.args, **sample.kwargs)))
    torch.manual_seed(2)
    b = list(_tensors(op(sample.input, *sample.args, **sample.kwargs)))
    return any(
        x.dtype != y.dtype or not torch.equal(torch.nan_to_num(x), torch.nan_to_num(y))
        for x, y in zip(a, b, strict=True)
    )


def _reference(op: Any, sample: Any) -> Any:
    return _seeded(op, sample.input, *sample.args, **sample.kwargs)


def _call(function: Callable[..., Any], sample: Any) -> Any:
    return _seeded(function, ours(sample.input), *ours(sample.args), **ours(sample.kwargs))


def forward(op: Any, sample: Any) -> Outcome:
    """Values, shapes and dtypes."""
    return _compare(op, sample, _call(find(op), sample), _reference(op, sample))


def _compare(op: Any, sample: Any, result: Any, expected: Any) -> Outcome:
    wrong = differ(result, expected)
    if wrong is None:
        return None
    by_shape = (
        "empty" in op.name or _is_as_exact(op, sample, result, expected) or _is_random(op, sample)
    )
    return differ(result, expected, values=False) if by_shape else wrong


def _is_as_exact(op: Any, sample: Any, result: Any, expected: Any) -> bool:
    """Are the values no further from those in double precision than twice torch's own?"""
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    mine, other = list(_tensors(result)), list(_tensors(expected))
    same_shapes = [tuple(t.shape) for t in mine] == [tuple(t.shape) for t in other]
    if not mine or not same_shapes or not all(t.dtype in wide for t in other):
        return False
    try:
        exact = _reference(op, sample.transform(lambda t: t.to(wide.get(t.dtype, t.dtype))))
    except RuntimeError:
        return False
    for x, y, z in zip(mine, other, _tensors(exact), strict=True):
        theirs_off, ours_off = (y - z).abs().max(), (theirs(x) - z).abs().max()
        if not ours_off <= 2 * theirs_off:
            return False
    return True


def strides(op: Any, sample: Any) -> Outcome:
    """The strides of the results."""
    expected = list(_tensors(_reference(op, sample)))
    for x, y in zip(_tensors(_call(find(op), sample)), expected, strict=False):
        if y.numel() > 1 and [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1] != [
            s for s, n in zip(y.stride(), y.shape, strict=True) if n > 1
        ]:
            return f"strides {x.stride()} for {tuple(x.shape)}, torch {y.stride()}"
    return None


def noncontig(op: Any, sample: Any) -> Outcome:
    """Arguments with gaps between their elements."""
    return forward(op, sample.noncontiguous())


def meta(op: Any, sample: Any) -> Outcome:
    """What Meta predicts of shape and dtype."""
    expected = _reference(op, sample)

    def there(value: Any) -> Any:
        if isinstance(value, st.Tensor):
            return value.to(device="meta")
        if isinstance(value, (list, tuple)):
            return type(value)(there(item) for item in value)
        return value

    given = there((ours(sample.input), *ours(sample.args)))
    kwargs = {key: there(item) for key, item in ours(sample.kwargs).items()}
    if not list(_tensors(given)):
        return "-"
    try:
        predicted = find(op)(*given, **kwargs)
    except (NotImplementedError, RuntimeError) as refused:
        # Shapes that depend on values cannot be predicted.
        if "depends on data" in str(refused) or "item() cannot be called" in str(refused):
            return "-"
        raise
    return differ(predicted, expected, values=False)


def method(op: Any, sample: Any) -> Outcome:
    """The method form."""
    if op.method_variant is None:
        return "-"
    function = getattr(st.Tensor, op.method_variant.__name__, None)
    if function is None:
        raise Missing(f"no method {op.method_variant.__name__}")
    return _compare(op, sample, _call(function, sample), _reference(op.method_variant, sample))


def inplace(op: Any, sample: Any) -> Outcome:
    """The in-place form, on samples whose result fits in the argument."""
    name = getattr(op.inplace_variant, "__name__", None)
    if name is None or sample.broadcasts_input:
        return "-"
    function = getattr(st.Tensor, name, None)
    if function is None:
        raise Missing(f"no method {name}")
    copy = sample.transform(lambda t: t.clone() if isinstance(t, torch.Tensor) else t)
    try:
        expected = _seeded(op.inplace_variant, copy.input, *copy.args, **copy.kwargs)
    except RuntimeError:
        return "-"
    return _compare(op, sample, _call(function, sample), expected)


def out(op: Any, sample: Any) -> Outcome:
    """``out=`` into tensors of the right size."""
    if not op.supports_out:
        return "-"
    expected = _reference(op, sample)
    made = ours([torch.empty_like(t) for t in _tensors(expected)])
    given = made[0] if isinstance(expected, torch.Tensor) else tuple(made)
    kwargs = {**ours(sample.kwargs), "out": given}
    _seeded(find(op), ours(sample.input), *ours(sample.args), **kwargs)
    return _compare(op, sample, made, list(_tensors(expected)))


def error(op: Any, sample: Any) -> Outcome:
    """Torch's error inputs raise its exception type."""
    inputs = sample.sample_input
    expected = sample.error_type
    try:
        _call(find(op), inputs)
    except expected:
        return None
    except Exception as raised:
        return f"raised {type(raised).__name__} ({str(raised)[:80]}), torch {expected.__name__}"
    return f"raised nothing, torch {expected.__name__}: {str(sample.error_regex)[:80]}"


_RUN: dict[str, Callable[[Any, Any], Outcome]] = {
    "forward": forward,
    "strides": strides,
    "noncontig": noncontig,
    "method": method,
    "inplace": inplace,
    "out": out,
    "meta": meta,
    "error": error,
}


# --- one operator, in a process of its own -------------------------------------------------------


def _samples(op: Any, check: str, dtype: torch.dtype) -> list[Any]:
    if check == "error":
        return list(op.error_inputs("cpu")) if op.error_inputs_func is not None else []
    torch.manual_seed(0)
    return list(op.sample_inputs("cpu", dtype))[:MAX_SAMPLES]


def check_operator(op: Any, check: str, dtype: torch.dtype) -> Outcome:
    """Run one check on every sample: None, "-", or the first thing that is wrong."""
    applied = False
    for number, sample in enumerate(_samples(op, check, dtype)):
        try:
            outcome = _RUN[check](op, sample)
        except Missing as missing:
            return f"missing: {missing}"
        except AttributeError as missing:
            return f"missing: {missing}"
        except Exception as raised:
            outcome = f"{type(raised).__name__}: {' '.join(str(raised).split())[:160]}"
        applied = applied or outcome != "-"
        if outcome not in (None, "-"):
            return f"sample {number}: {outcome}"
    return None if applied else "-"


def _run_in_child(op: Any, checks: Sequence[str], dtypes: Sequence[torch.dtype], fd: int) -> None:
    signal.alarm(SECONDS_PER_OPERATOR)
    warnings.simplefilter("ignore")
    with os.fdopen(fd, "w") as pipe:
        for dtype in dtypes:
            for check in checks:
                name = str(dtype).rpartition(".")[2]
                outcome = check_operator(op, check, dtype)
                pipe.write(json.dumps([check, name, outcome]) + "\n")
                pipe.flush()


def _start(op: Any, checks: Sequence[str], dtypes: Sequence[torch.dtype]) -> tuple[int, int]:
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        try:
            _run_in_child(op, checks, dtypes, send)
        finally:
            os._exit(0)
    os.close(send)
    return pid, receive


def run_all(
    operators: list[Any], checks: Sequence[str], dtypes: Sequence[str], jobs: int
) -> dict[str, list[tuple[str, str, Outcome]]]:
    """Run the checks on each operator, *jobs* at a time."""
    waiting = list(reversed(operators))
    results: dict[str, list[tuple[str, str, Outcome]]] = {}
    running: dict[int, tuple[Any, int, bytearray]] = {}
    selector = selectors.DefaultSelector()
    while waiting or running:
        while waiting and len(running) < jobs:
            op = waiting.pop()
            wanted = [torch.float32] if dtypes == ["float32"] else []
            wanted = wanted or [d for d in op.dtypes if str(d).rpartition(".")[2] in dtypes]
            if not any(d in op.dtypes for d in wanted):
                wanted = sorted(op.dtypes, key=str)[:1]
            pid, fd = _start(op, checks, wanted)
            running[fd] = (op, pid, bytearray())
            selector.register(fd, selectors.EVENT_READ)
        for key, _ in selector.select():
            op, pid, text = running[key.fd]
            data = os.read(key.fd, 65536)
            text += data
            if not data:
                selector.unregister(key.fd)
                os.close(key.fd)
                del running[key.fd]
                status = os.waitpid(pid, 0)[1]
                rows = [tuple(json.loads(line)) for line in text.decode().splitlines()]
                if os.WIFSIGNALED(status):
                    name = signal.Signals(os.WTERMSIG(status)).name
                    rows.append((checks[0], "", f"the process ended by {name}"))
                variant = f".{op.variant_test_name}" if op.variant_test_name else ""
                results[op.name + variant] = rows
    return results


# --- the report ----------------------------------------------------------------------------------


def report(results: dict[str, list[tuple[str, str, Outcome]]], checks: Sequence[str]) -> str:
    """The page: a line per check, then every operator that fails, with the reason."""
    lines = ["# Parity with torch", "", f"Made by `make parity`; torch {torch.__version__}.", ""]
    lines += ["| check | apply | pass | share |", "|---|---:|---:|---:|"]
    for check in checks:
        outcomes = [[outcome for c, _, outcome in rows if c == check] for rows in results.values()]
        applied = [o for o in outcomes if any(x != "-" for x in o)]
        passed = [o for o in applied if all(x in (None, "-") for x in o)]
        share = 100 * len(passed) / len(applied) if applied else 100.0
        lines.append(f"| {check} | {len(applied)} | {len(passed)} | {share:.1f} % |")
    lines += ["", "## What fails", "", "| operator | check | dtype | reason |", "|---|---|---|---|"]
    for name, rows in sorted(results.items()):
        for check, dtype, outcome in rows:
            if outcome not in (None, "-"):
                reason = str(outcome).replace("|", "\\|")
                lines.append(f"| `{name}` | {check} | {dtype} | {reason} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run; the exit status is 1 when an operator crashed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="names of operators")
    parser.add_argument("--checks", nargs="*", choices=CHECKS, default=list(CHECKS))
    parser.add_argument("--dtypes", nargs="*", default=["float32"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "parity.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    operators = [
        op
        for op in op_db
        if not op.name.startswith("jiterator") and (not options.only or op.name in options.only)
    ]
    began = time.monotonic()
    results = run_all(operators, options.checks, options.dtypes, options.jobs)
    text = report(results, options.checks)
    options.output.write_text(text)
    print(text[: text.index("## What fails")])
    print(f"{len(results)} operators in {time.monotonic() - began:.0f} s; see {options.output}")
    crashed = [n for n, rows in results.items() if any("ended by" in str(r[2]) for r in rows)]
    if crashed:
        print("crashed:", ", ".join(crashed))
    return 1 if crashed else 0


if __name__ == "__main__":
    sys.exit(main())
