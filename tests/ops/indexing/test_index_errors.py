"""Wrong indices, shapes and dtypes: errors of torch's type, with the numbers of torch's text.

Calls are drawn at random, from few shapes and values, so that most are wrong in one or two ways.
What right calls give is in test_index.py and test_scatter.py.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor

SHAPES = [(), (0,), (1,), (3,), (2, 3), (0, 3), (2, 0), (1, 1)]
INDEX_SHAPES = [(), (0,), (1,), (2,), (3,), (2, 3), (1, 3), (2, 1)]
# At most one of them is out of range, because libraries may report any of several.
INDICES = [[0], [0, 1], [0, 1, 2], [-1, 0], [1], [0, 0, 5]]
INDEX_DTYPES = ["int64"] * 4 + ["int32", "float32", "bool", "uint8"]
DTYPES = ["float32"] * 4 + ["int64", "bool", "float64"]

Call = Callable[[Any, Any, int, Any, Any], Any]
CALLS: dict[str, Call] = {
    "index_add": lambda m, t, d, i, s: t.index_add(d, i, s),
    "index_add_": lambda m, t, d, i, s: t.index_add_(d, i, s),
    "index_copy": lambda m, t, d, i, s: t.index_copy(d, i, s),
    "index_copy_": lambda m, t, d, i, s: t.index_copy_(d, i, s),
    "index_fill": lambda m, t, d, i, s: t.index_fill(d, i, 1),
    "index_fill of complex": lambda m, t, d, i, s: t.index_fill(d, i, 1j),
    "index_reduce": lambda m, t, d, i, s: t.index_reduce(d, i, s, "amax"),
    "index_reduce by another name": lambda m, t, d, i, s: t.index_reduce(d, i, s, "sum"),
    "index_reduce_": lambda m, t, d, i, s: t.index_reduce_(d, i, s, "mean", include_self=False),
    "index_select": lambda m, t, d, i, s: m.index_select(t, d, i),
    "gather": lambda m, t, d, i, s: m.gather(t, d, i),
    "take_along_dim": lambda m, t, d, i, s: m.take_along_dim(t, i, d),
    "scatter": lambda m, t, d, i, s: t.scatter(d, i, s),
    "scatter of a number": lambda m, t, d, i, s: t.scatter(d, i, 1),
    "scatter_add_": lambda m, t, d, i, s: t.scatter_add_(d, i, s),
    "scatter_reduce": lambda m, t, d, i, s: t.scatter_reduce(d, i, s, "amin"),
    "take": lambda m, t, d, i, s: m.take(t, i),
    "put": lambda m, t, d, i, s: t.put(i, s),
    "masked_fill": lambda m, t, d, i, s: t.masked_fill(i, 1),
    "masked_fill by a tensor": lambda m, t, d, i, s: t.masked_fill(i, s),
    "masked_scatter": lambda m, t, d, i, s: t.masked_scatter(i, s),
    "repeat_interleave": lambda m, t, d, i, s: m.repeat_interleave(t, i.abs(), d),
    "repeat_interleave of counts": lambda m, t, d, i, s: m.repeat_interleave(i.abs()),
    "repeat_interleave by a number": lambda m, t, d, i, s: m.repeat_interleave(t, 2, d),
}
# Torch refuses what its storage has no room for, or has an error of its kernel for one layout.
_TORCH_ALONE = ("setStorage", "INDICES element", "INTERNAL ASSERT", '_cpu" not implemented for')


def made(m: Any, shape: tuple[int, ...], dtype: str, values: list[int]) -> Any:
    n = 1
    for size in shape:
        n *= size
    known = (values * (n + 1))[:n]
    if dtype in ("uint8", "bool"):
        known = [abs(value) for value in known]
    return m.tensor(known, dtype=getattr(m, dtype)).reshape(shape)


def outcome(m: Any, call: Call, arguments: tuple[Any, ...]) -> tuple[str, str]:
    dim, *parts = arguments
    tensor, index, source = (made(m, *part) for part in parts)
    try:
        result = call(m, tensor, dim, index, source)
    except Exception as error:
        return type(error).__name__, str(error)
    return "", f"{tuple(result.shape)} {result.tolist()}"


@pytest.mark.check
@pytest.mark.parametrize("name", CALLS)
def test_errors_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    draw = random.Random(name)
    for _ in range(250):
        dtype, shape, index_shape = (draw.choice(x) for x in (DTYPES, SHAPES, INDEX_SHAPES))
        other = dtype if draw.random() < 0.85 else draw.choice(DTYPES)
        arguments = (
            draw.choice([0, 0, 0, 1, -1, 2, -3]),
            (shape, dtype, [1, 2, 3, 4, 5, 6]),
            (index_shape, draw.choice(INDEX_DTYPES), draw.choice(INDICES)),
            (draw.choice([index_shape, shape, draw.choice(SHAPES)]), other, [10, 20, 30]),
        )
        ours = outcome(shmtensor, CALLS[name], arguments)
        theirs = outcome(torch, CALLS[name], arguments)
        if any(text in theirs[1] for text in _TORCH_ALONE):
            assert ours[0] == theirs[0] or theirs[0] == "RuntimeError", (arguments, ours, theirs)
            continue
        assert ours[0] == theirs[0], (arguments, ours, theirs)
        if ours[0]:
            numbers, needed = (set(re.findall(r"-?\d+", x[1])) for x in (ours, theirs))
            assert numbers >= needed, (arguments, ours, theirs)
        else:
            assert ours == theirs, arguments


@pytest.mark.parametrize("name", ["index_add", "index_select", "index_reduce"])
def test_index_out_of_range_is_named(name: str) -> None:
    tensors = shmtensor.ones(3), 0, shmtensor.tensor([0, 5]), shmtensor.ones(2)
    with pytest.raises(IndexError, match=r"index out of range in self: index 5.* size 3"):
        CALLS[name](shmtensor, *tensors)


@pytest.mark.parametrize("call", ["scatter", "scatter_add", "scatter_reduce"])
def test_number_as_index_reads_one_element_of_the_source(call: str) -> None:
    arguments = ("amax",) if call == "scatter_reduce" else ()
    for shape in [(1,), ()]:
        target = shmtensor.ones(shape)
        with pytest.raises(RuntimeError, match=r"no larger size than src \[0\]"):
            getattr(target, call)(0, shmtensor.tensor(0), shmtensor.ones(0), *arguments)


def test_repeats_of_nothing_are_nothing() -> None:
    none = shmtensor.tensor([], dtype=shmtensor.int64)
    for output_size in (None, 0, 3):
        of_counts = shmtensor.repeat_interleave(none, output_size=output_size)
        assert (of_counts.dtype, of_counts.tolist()) == (shmtensor.int64, [])
        along = shmtensor.ones(0, 2).repeat_interleave(none, 0, output_size=output_size)
        assert along.shape == (0, 2)
        one = shmtensor.tensor([4])
        assert shmtensor.ones(0).repeat_interleave(one, output_size=output_size).shape == (0,)
    with pytest.raises(RuntimeError, match="Invalid output_size, expected 0 but got 3"):
        shmtensor.repeat_interleave(shmtensor.ones(0), 2, output_size=3)
    with pytest.raises(RuntimeError, match="got 3 and 2"):
        shmtensor.repeat_interleave(shmtensor.tensor([2]), output_size=3)
