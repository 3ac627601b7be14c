"""Operators compared with torch's, in groups, from a few elements to ten million.

Run ``python benchmarks/bench_ops.py`` where torch is installed. One process, interleaved samples,
CPU time of one thread; ``--threads 2`` takes wall time, and so does ``--busy``, which keeps
every core busy with other processes. Results are new tensors, as in ordinary use. The end lists
cases that one side has no operator for.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import function_cases as fc
import image_cases as ic
import linear_cases as lc
import numpy as np
import torch
from groups import Group, Make
from measure import Call, Result, compare, geometric_mean, print_table, write_json

import shmtensor

ARITHMETIC: dict[str, Make] = {
    "add": lambda lib, d: lambda a=d["a"], b=d["b"]: a + b,
    "add int64": lambda lib, d: lambda i=d["i"]: i + i,
    "a * 2.0": lambda lib, d: lambda a=d["a"]: a * 2.0,
    "relu": lambda lib, d: lambda a=d["a"]: lib.relu(a),
    "a > b": lambda lib, d: lambda a=d["a"], b=d["b"]: a > b,
    "row broadcast": lambda lib, d: lambda s=d["s"], r=d["r"]: s + r,
    "column broadcast": lambda lib, d: lambda s=d["s"], c=d["c"]: s + c,
    "float32 -> float64": lambda lib, d: lambda a=d["a"]: a.to(lib.float64),
    "float32 -> bfloat16": lambda lib, d: lambda a=d["a"]: a.to(lib.bfloat16),
    "clone": lambda lib, d: lambda a=d["a"]: a.clone(),
    "transposed copy": lambda lib, d: lambda s=d["s"]: s.t().contiguous(),
    "cat": lambda lib, d: lambda s=d["s"]: lib.cat([s, s], 1),
    "repeat": lambda lib, d: lambda s=d["s"]: s.repeat(2, 1),
    "flip": lambda lib, d: lambda s=d["s"]: s.flip(1),
    "add_": lambda lib, d: lambda z=d["z"], b=d["b"]: z.add_(b),
    "div": lambda lib, d: lambda a=d["a"], p=d["p"]: a / p,
    "int64 // 7": lambda lib, d: lambda i=d["i"]: i // 7,
    "a ** 2": lambda lib, d: lambda a=d["a"]: a**2,
    "clamp": lambda lib, d: lambda a=d["a"]: a.clamp(-1.0, 1.0),
    "addcmul": lambda lib, d: lambda a=d["a"], b=d["b"], p=d["p"]: lib.addcmul(a, b, p),
    "logical_and": lambda lib, d: lambda m=d["m"], m0=d["m0"]: m & m0,
    "float32 -> int64": lambda lib, d: lambda a=d["a"]: a.long(),
    "bool -> float32": lambda lib, d: lambda m=d["m"]: m.float(),
    "strided copy": lambda lib, d: lambda s=d["s"]: s[:, ::2].contiguous(),
    "stack": lambda lib, d: lambda a=d["a"], b=d["b"]: lib.stack([a, b]),
    "stack last": lambda lib, d: lambda a=d["a"], b=d["b"]: lib.stack([a, b], -1),
    "roll": lambda lib, d: lambda s=d["s"]: s.roll(3, 1),
    "tril": lambda lib, d: lambda s=d["s"]: s.tril(),
    "full": lambda lib, d: lambda n=d["n"]: lib.full((n,), 1.5),
    "arange": lambda lib, d: lambda n=d["n"]: lib.arange(n),
}


def _function(name: str) -> Make:
    return lambda lib, d: lambda p=d["p"]: getattr(lib, name)(p)


SMALL_FUNCTIONS: dict[str, Make] = {
    name: _function(name)
    for name in ("exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "log1p", "expm1")
}
SMALL_FUNCTIONS["exp float64"] = lambda lib, d: lambda w=d["w"]: lib.exp(w)
SMALL_FUNCTIONS["gelu"] = lambda lib, d: lambda a=d["a"]: lib.nn.functional.gelu(a)
CHOICES: dict[str, Make] = {
    "where": lambda lib, d: lambda m=d["m"], a=d["a"], b=d["b"]: lib.where(m, a, b),
    "masked_fill": lambda lib, d: lambda a=d["a"], m=d["m"]: a.masked_fill(m, 0.0),
    "a[mask]": lambda lib, d: lambda a=d["a"], m=d["m"]: a[m],
    "argmax": lambda lib, d: lambda s=d["s"]: s.argmax(1),
    "argmax dim 0": lambda lib, d: lambda s=d["s"]: s.argmax(0),
    "var": lambda lib, d: lambda s=d["s"]: s.var(1),
    "any": lambda lib, d: lambda m0=d["m0"]: m0.any(),
    "var dim 0": lambda lib, d: lambda s=d["s"]: s.var(0),
    "std": lambda lib, d: lambda a=d["a"]: a.std(),
    "min dim 0": lambda lib, d: lambda s=d["s"]: s.min(0),
    "nonzero": lambda lib, d: lambda m=d["m"]: m.nonzero(),
    "a[mask] = 0": lambda lib, d: lambda z=d["z"], m=d["m"]: z.__setitem__(m, 0.0),
}
INDEXING: dict[str, Make] = {
    "a[rows]": lambda lib, d: lambda s=d["s"], t=d["t"]: s[t],
    "index_select": lambda lib, d: lambda s=d["s"], t=d["t"]: s.index_select(0, t),
    "index_select dim 1": lambda lib, d: lambda s=d["s"], t=d["t"]: s.index_select(1, t),
    "embedding": lambda lib, d: lambda t=d["t"], s=d["s"]: lib.nn.functional.embedding(t, s),
    "gather": lambda lib, d: lambda s=d["s"], j=d["j"]: s.gather(1, j),
    "gather dim 0": lambda lib, d: lambda s=d["s"], j=d["j"]: s.gather(0, j),
    "take": lambda lib, d: lambda a=d["a"], e=d["e"]: a.take(e),
    "a[i, j]": lambda lib, d: lambda s=d["s"], t=d["t"]: s[t, t],
    "a[rows] = b": lambda lib, d: lambda z2=d["z2"], t=d["t"], s=d["s"]: z2.__setitem__(t, s),
    "scatter": lambda lib, d: lambda s=d["s"], j=d["j"]: s.scatter(1, j, s),
    "scatter_add": lambda lib, d: lambda s=d["s"], j=d["j"]: s.scatter_add(1, j, s),
    "index_add": lambda lib, d: lambda s=d["s"], t=d["t"]: s.index_add(0, t, s),
    "one_hot": lambda lib, d: lambda t=d["t"]: lib.nn.functional.one_hot(t % 10, 10),
    "bincount": lambda lib, d: lambda k=d["k"]: lib.bincount(k),
    "searchsorted": lambda lib, d: lambda o=d["o"], a=d["a"]: lib.searchsorted(o, a),
    "histc": lambda lib, d: lambda a=d["a"]: lib.histc(a, 64),
}
REDUCTIONS: dict[str, Make] = {
    "sum": lambda lib, d: lambda a=d["a"]: a.sum(),
    "sum dim 1": lambda lib, d: lambda s=d["s"]: s.sum(1),
    "sum dim 0": lambda lib, d: lambda s=d["s"]: s.sum(0),
    "mean": lambda lib, d: lambda a=d["a"]: a.mean(),
    "max": lambda lib, d: lambda a=d["a"]: a.max(),
    "max dim 1": lambda lib, d: lambda s=d["s"]: s.max(1),
    "cumsum": lambda lib, d: lambda s=d["s"]: s.cumsum(1),
    "softmax": lambda lib, d: lambda s=d["s"]: lib.softmax(s, 1),
    "softmax dim 0": lambda lib, d: lambda s=d["s"]: lib.softmax(s, 0),
    "log_softmax": lambda lib, d: lambda s=d["s"]: lib.log_softmax(s, 1),
    "norm": lambda lib, d: lambda a=d["a"]: a.norm(),
    "layer_norm": lambda lib, d: lambda s=d["s"]: lib.layer_norm(s, (s.shape[1],)),
    "cross_entropy": lambda lib, d: (
        lambda s=d["s"], t=d["t"]: lib.nn.functional.cross_entropy(s, t)
    ),
    "mse_loss": lambda lib, d: lambda a=d["a"], b=d["b"]: lib.nn.functional.mse_loss(a, b),
    "attention": lambda lib, d: (
        lambda q=d["q"]: lib.nn.functional.scaled_dot_product_attention(q, q, q)
    ),
    "causal attention": lambda lib, d: (
        lambda q=d["q"]: lib.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    ),
    "prod dim 1": lambda lib, d: lambda s=d["s"]: s.prod(1),
    "mean dim 0": lambda lib, d: lambda s=d["s"]: s.mean(0),
    "sum int64": lambda lib, d: lambda i=d["i"]: i.sum(),
    "sum bool": lambda lib, d: lambda m=d["m"]: m.sum(),
    "norm dim 1": lambda lib, d: lambda s=d["s"]: lib.linalg.vector_norm(s, dim=1),
    "logsumexp": lambda lib, d: lambda s=d["s"]: s.logsumexp(1),
    "cumsum dim 0": lambda lib, d: lambda s=d["s"]: s.cumsum(0),
    "cumprod": lambda lib, d: lambda s=d["s"]: s.cumprod(1),
    "batch_norm train": lambda lib, d: (
        lambda y=d["y"]: lib.nn.functional.batch_norm(y, None, None, training=True)
    ),
    "batch_norm": lambda lib, d: (
        lambda y=d["y"], g=d["g"], h=d["h"]: lib.nn.functional.batch_norm(y, g, h)
    ),
    "group_norm": lambda lib, d: lambda y=d["y"]: lib.nn.functional.group_norm(y, 2),
    "rms_norm": lambda lib, d: lambda s=d["s"]: lib.rms_norm(s, (s.shape[1],)),
    "normalize": lambda lib, d: lambda s=d["s"]: lib.nn.functional.normalize(s, dim=1),
    "cosine_similarity": lambda lib, d: (
        lambda s=d["s"]: lib.nn.functional.cosine_similarity(s, s, 1)
    ),
    "nll_loss": lambda lib, d: lambda s=d["s"], t=d["t"]: lib.nn.functional.nll_loss(s, t),
    "l1_loss": lambda lib, d: lambda a=d["a"], b=d["b"]: lib.nn.functional.l1_loss(a, b),
    "smooth_l1_loss": lambda lib, d: (
        lambda a=d["a"], b=d["b"]: lib.nn.functional.smooth_l1_loss(a, b)
    ),
    "bce": lambda lib, d: lambda u=d["u"]: lib.nn.functional.binary_cross_entropy(u, u),
    "bce with logits": lambda lib, d: (
        lambda a=d["a"], u=d["u"]: lib.nn.functional.binary_cross_entropy_with_logits(a, u)
    ),
    "kl_div": lambda lib, d: (
        lambda a=d["a"], u=d["u"]: lib.nn.functional.kl_div(a, u, reduction="batchmean")
    ),
}
SORTING: dict[str, Make] = {
    "sort": lambda lib, d: lambda a=d["a"]: lib.sort(a),
    "argsort": lambda lib, d: lambda a=d["a"]: lib.argsort(a),
    "sort rows": lambda lib, d: lambda s=d["s"]: lib.sort(s, 1),
    "unique": lambda lib, d: lambda k=d["k"]: lib.unique(k),
    "topk": lambda lib, d: lambda a=d["a"]: lib.topk(a, 10),
    "topk rows": lambda lib, d: lambda s=d["s"]: lib.topk(s, 5, 1),
    "sort int64": lambda lib, d: lambda k=d["k"]: lib.sort(k),
    "sort columns": lambda lib, d: lambda s=d["s"]: lib.sort(s, 0, descending=True),
    "unique inverse": lambda lib, d: lambda k=d["k"]: lib.unique(k, return_inverse=True),
    "median": lambda lib, d: lambda a=d["a"]: a.median(),
    "kthvalue": lambda lib, d: lambda a=d["a"]: a.kthvalue(7),
    "quantile": lambda lib, d: lambda a=d["a"]: a.quantile(0.5),
}
RANDOM: dict[str, Make] = {
    "rand": lambda lib, d: lambda n=d["n"]: lib.rand(n),
    "randn": lambda lib, d: lambda n=d["n"]: lib.randn(n),
    "randint": lambda lib, d: lambda n=d["n"]: lib.randint(0, 1000, (n,)),
    "randperm": lambda lib, d: lambda n=d["n"]: lib.randperm(n),
    "bernoulli": lambda lib, d: lambda u=d["u"]: lib.bernoulli(u),
    "rand float64": lambda lib, d: lambda n=d["n"]: lib.rand(n, dtype=lib.float64),
    "uniform_": lambda lib, d: lambda z=d["z"]: z.uniform_(-1.0, 1.0),
    "normal_": lambda lib, d: lambda z=d["z"]: z.normal_(1.0, 2.0),
    "bernoulli_": lambda lib, d: lambda z=d["z"]: z.bernoulli_(0.3),
    "dropout": lambda lib, d: lambda a=d["a"]: lib.nn.functional.dropout(a, 0.5),
    "exponential_": lambda lib, d: lambda z=d["z"]: z.exponential_(),
    "multinomial": lambda lib, d: lambda u=d["u"]: lib.multinomial(u, 100, True),
}
POOLING: dict[str, Make] = {
    "max_pool2d": lambda lib, d: lambda x=d["x"]: lib.nn.functional.max_pool2d(x, 2),
    "avg_pool2d": lambda lib, d: lambda x=d["x"]: lib.nn.functional.avg_pool2d(x, 2),
    "max_pool2d 3x3": lambda lib, d: lambda x=d["x"]: lib.nn.functional.max_pool2d(x, 3, 2, 1),
    "avg_pool2d 3x3": lambda lib, d: lambda x=d["x"]: lib.nn.functional.avg_pool2d(x, 3, 1, 1),
    "max_pool1d": lambda lib, d: lambda x=d["x"]: lib.nn.functional.max_pool1d(x[0], 2),
    "avg_pool1d": lambda lib, d: lambda x=d["x"]: lib.nn.functional.avg_pool1d(x[0], 2),
    "max_pool3d": lambda lib, d: lambda x=d["x"]: lib.nn.functional.max_pool3d(x, 2),
    "avg_pool3d": lambda lib, d: lambda x=d["x"]: lib.nn.functional.avg_pool3d(x, 2),
    "adaptive_avg_pool2d 1": lambda lib, d: (
        lambda x=d["x"]: lib.nn.functional.adaptive_avg_pool2d(x, 1)
    ),
    "adaptive_avg_pool2d 7": lambda lib, d: (
        lambda x=d["x"]: lib.nn.functional.adaptive_avg_pool2d(x, 7)
    ),
    "adaptive_max_pool2d 7": lambda lib, d: (
        lambda x=d["x"]: lib.nn.functional.adaptive_max_pool2d(x, 7)
    ),
    "interpolate": lambda lib, d: (
        lambda x=d["x"]: lib.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
    ),
}
LENGTHS = (10_000, 1_000_000, 10_000_000)
#: Arithmetic whose result of ten million elements is below 32 MB, from where on malloc takes memory
#: from the kernel unless its heap happens to have grown, or that has no new result.
_RECYCLED = frozenset({"add_", "a > b", "logical_and", "float32 -> bfloat16", "strided copy"})
#: Seconds until the threads of NumPy's products, which made the operands, sleep: the time that they
#: spin is this process's CPU time.
_SETTLING = 0.2

GROUPS: dict[str, Group] = {
    "small calls": Group(
        0.10, (16,), {**ARITHMETIC, **SMALL_FUNCTIONS, **CHOICES, **INDEXING, **REDUCTIONS}
    ),
    "arithmetic, casts, copies": Group(0.6, LENGTHS, ARITHMETIC),
    "the same, fresh results": Group(
        0.2, LENGTHS[2:], {k: v for k, v in ARITHMETIC.items() if k not in _RECYCLED}, is_fresh=True
    ),
    "functions": Group(0.4, LENGTHS[:2], fc.FUNCTIONS, fc.function_arrays, fc.function_tensors),
    "choices": Group(0.15, LENGTHS[:2], CHOICES),
    "indexing": Group(0.7, LENGTHS[:2], INDEXING),
    "reductions": Group(0.7, LENGTHS[:2], REDUCTIONS),
    "sorting": Group(0.25, LENGTHS[:2], SORTING),
    "random": Group(0.2, LENGTHS[:2], RANDOM),
    "normalisation": Group(
        0.7, (256, 1024), fc.NORMALISATION, fc.normalisation_arrays, fc.normalisation_tensors
    ),
    "pooling": Group(0.4, (16, 64), POOLING, lc.image_arrays, lc.image_tensors),
    "convolution": Group(0.9, (16, 64, 256), lc.CONVOLUTION, lc.image_arrays, lc.image_tensors),
    "images": Group(0.9, (16, 64), ic.IMAGES, ic.image_arrays, ic.image_tensors),
    "further calls": Group(0.9, LENGTHS[:2], ic.FURTHER, ic.further_arrays, ic.further_tensors),
    "products": Group(0.98, (64, 256, 512), lc.PRODUCTS, lc.matrix_arrays, lc.matrix_tensors),
    "decompositions": Group(1.3, (64, 256), lc.DECOMPOSITIONS, lc.matrix_arrays, lc.matrix_tensors),
    "Fourier transforms": Group(1.3, lc.FOURIER_LENGTHS, lc.FOURIER, lc.line_arrays),
    "Fourier transforms of planes": Group(
        1.3, (64, 100, 256, 512), lc.FOURIER_PLANES, lc.plane_arrays
    ),
}


def _vectors(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    side = int(n**0.5)
    a = rng.normal(size=n).astype(np.float32)
    square = a[: side * side].reshape(side, side).copy()
    return {
        "a": a,
        "b": a[::-1].copy(),
        "p": np.abs(a) + np.float32(1e-3),
        "i": np.arange(n),
        "k": rng.integers(0, 1000, n),
        "w": a.astype(np.float64),
        "u": rng.random(n).astype(np.float32),
        "m": a > 0,
        "m0": np.zeros(n, bool),
        "s": square,
        "r": a[:side].copy(),
        "c": a[:side].reshape(side, 1).copy(),
        "t": rng.integers(0, side, side),
        "q": rng.normal(size=(1, 4, min(side, 256), 64)).astype(np.float32),
        "e": rng.integers(0, n, n),
        "z": a.copy(),
        "z2": square.copy(),
        "j": rng.integers(0, side, (side, side)),
        "o": np.sort(a)[:: max(1, n // 1000)].copy(),
        "y": a[: n // 16 * 16].reshape(4, 4, -1).copy(),
        "g": np.zeros(4, np.float32),
        "h": np.ones(4, np.float32),
    }


def operands(lib: Any, group: str, n: int) -> dict[str, Any]:
    """The tensors of one size for one library."""
    arrays = (GROUPS[group].arrays or _vectors)(n)
    found = {"n": n, **{name: lib.from_numpy(value) for name, value in arrays.items()}}
    finish = GROUPS[group].finish
    if finish:
        finish(lib, found)
    return found


def _give_back() -> None:
    """Free what malloc keeps: else a large result is new memory or not as the heap has grown."""
    ctypes.CDLL(None).malloc_trim(0)


def _works(call: Call) -> bool:
    try:
        call()
    except (AttributeError, NotImplementedError, TypeError):
        return False
    return True


def measure_group(
    name: str, samples: int, only: str, timing: dict[str, Any], missing: list[str]
) -> Iterator[Result]:
    """Measure the cases of a group whose name contains *only*."""
    group = GROUPS[name]
    for n in group.sizes:
        ours, theirs = operands(shmtensor, name, n), operands(torch, name, n)
        time.sleep(_SETTLING)
        for case, make in group.cases.items():
            title = f"{case}, fresh {n}" if group.is_fresh else f"{case} {n}"
            if only not in title:
                continue
            if group.is_fresh:
                _give_back()
            a, b = make(shmtensor, ours), make(torch, theirs)
            if not (_works(a) and _works(b)):
                missing.append(title)
                continue
            yield compare(title, a, b, samples=samples, **timing)


_BUSY_GOAL = 0.2
#: Ordinary work: bursts that end with a short wait. Processes that never wait would take turns with
#: both threads of a caller in step, tick by tick, so that these hardly miss each other.
_BUSY = """
import os, random, time
parent = os.getppid()
while os.getppid() == parent:
    end = time.monotonic() + random.uniform(0, 0.04)
    while time.monotonic() < end:
        sum(range(1000))
    time.sleep(random.uniform(0, 0.002))
"""


@contextlib.contextmanager
def busy_processes() -> Iterator[None]:
    """Keep every core busy with a process of its own; they end with this one, whatever ends it."""
    busy = [
        subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(len(os.sched_getaffinity(0)))
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=7)
    parser.add_argument("--group", choices=list(GROUPS), nargs="*", default=list(GROUPS))
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--threads", type=int, default=1, help="above 1: wall time")
    parser.add_argument(
        "--busy", action="store_true", help="beside one busy process a core: wall time"
    )
    parser.add_argument(
        "--realtime", action="store_true", help="before all ordinary processes; needs the right to"
    )
    parser.add_argument("--json", type=Path, help="also write the results here")
    return parser.parse_args()


def main() -> int:
    """Print the tables; the exit status is 1 when a group misses its goal."""
    options = _parse()
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    torch.set_num_threads(options.threads)
    shmtensor.set_num_threads(options.threads)
    summary: list[str] = []
    missing: list[str] = []
    groups: dict[str, Any] = {}
    rows: list[Result] = []
    timing: dict[str, Any] = {"wall": options.threads > 1 or options.busy}
    if options.busy:
        # No rests: a process that has slept is scheduled before the busy ones. Long samples and
        # their mean: a call takes 100 times longer when a thread that it waits for has no core, and
        # callers see that.
        timing |= {"rest": 0.0, "sample_ms": 100.0, "middle": statistics.fmean}
    with busy_processes() if options.busy else contextlib.nullcontext():
        for name in options.group:
            found = list(measure_group(name, options.samples, options.only, timing, missing))
            if not found:
                continue
            print(f"\n{name}")
            print_table(found)
            rows += found
            mean = geometric_mean(found)
            goal = _BUSY_GOAL if options.busy else GROUPS[name].goal
            worst = max(found, key=lambda r: r.ratio)
            groups[name] = {"mean": mean, "goal": goal, "cases": [r.name for r in found]}
            summary.append(f"{name:28} {mean:6.3f} {goal:6.2f}   {worst.ratio:6.2f} {worst.name}")
    print(f"\n{'group':28} {'mean':>6} {'goal':>6}   worst")
    print("\n".join(summary))
    if missing:
        print("not on both sides:", ", ".join(missing))
    if options.json:
        write_json(options.json, rows, groups=groups)
    return int(any(group["mean"] > group["goal"] for group in groups.values()))


if __name__ == "__main__":
    sys.exit(main())
