"""Operators against torch, in groups, from a few elements to ten million.

Run ``python benchmarks/bench_ops.py`` where torch is installed. One process, interleaved samples,
CPU time of one thread; ``--threads 2`` takes wall time, and so does ``--crowded``, which keeps
every core busy with other processes. Results are new tensors, as in ordinary use. Cases of which
one side has no operator are named at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
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
    "add": lambda lib, d: lambda: d["a"] + d["b"],
    "add int64": lambda lib, d: lambda: d["i"] + d["i"],
    "a * 2.0": lambda lib, d: lambda: d["a"] * 2.0,
    "relu": lambda lib, d: lambda: lib.relu(d["a"]),
    "a > b": lambda lib, d: lambda: d["a"] > d["b"],
    "row broadcast": lambda lib, d: lambda: d["s"] + d["r"],
    "column broadcast": lambda lib, d: lambda: d["s"] + d["c"],
    "float32 -> float64": lambda lib, d: lambda: d["a"].to(lib.float64),
    "float32 -> bfloat16": lambda lib, d: lambda: d["a"].to(lib.bfloat16),
    "clone": lambda lib, d: lambda: d["a"].clone(),
    "transposed copy": lambda lib, d: lambda: d["s"].t().contiguous(),
    "cat": lambda lib, d: lambda: lib.cat([d["s"], d["s"]], 1),
    "repeat": lambda lib, d: lambda: d["s"].repeat(2, 1),
    "flip": lambda lib, d: lambda: d["s"].flip(1),
    "add_": lambda lib, d: lambda: d["z"].add_(d["b"]),
    "div": lambda lib, d: lambda: d["a"] / d["p"],
    "int64 // 7": lambda lib, d: lambda: d["i"] // 7,
    "a ** 2": lambda lib, d: lambda: d["a"] ** 2,
    "clamp": lambda lib, d: lambda: d["a"].clamp(-1.0, 1.0),
    "addcmul": lambda lib, d: lambda: lib.addcmul(d["a"], d["b"], d["p"]),
    "logical_and": lambda lib, d: lambda: d["m"] & d["m0"],
    "float32 -> int64": lambda lib, d: lambda: d["a"].long(),
    "bool -> float32": lambda lib, d: lambda: d["m"].float(),
    "strided copy": lambda lib, d: lambda: d["s"][:, ::2].contiguous(),
    "stack": lambda lib, d: lambda: lib.stack([d["a"], d["b"]]),
    "stack last": lambda lib, d: lambda: lib.stack([d["a"], d["b"]], -1),
    "roll": lambda lib, d: lambda: d["s"].roll(3, 1),
    "tril": lambda lib, d: lambda: d["s"].tril(),
    "full": lambda lib, d: lambda: lib.full((d["n"],), 1.5),
    "arange": lambda lib, d: lambda: lib.arange(d["n"]),
}


def _function(name: str) -> Make:
    return lambda lib, d: lambda: getattr(lib, name)(d["p"])


SMALL_FUNCTIONS: dict[str, Make] = {
    name: _function(name)
    for name in ("exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "log1p", "expm1")
}
SMALL_FUNCTIONS["exp float64"] = lambda lib, d: lambda: lib.exp(d["w"])
SMALL_FUNCTIONS["gelu"] = lambda lib, d: lambda: lib.nn.functional.gelu(d["a"])
CHOICES: dict[str, Make] = {
    "where": lambda lib, d: lambda: lib.where(d["m"], d["a"], d["b"]),
    "masked_fill": lambda lib, d: lambda: d["a"].masked_fill(d["m"], 0.0),
    "a[mask]": lambda lib, d: lambda: d["a"][d["m"]],
    "argmax": lambda lib, d: lambda: d["s"].argmax(1),
    "argmax dim 0": lambda lib, d: lambda: d["s"].argmax(0),
    "var": lambda lib, d: lambda: d["s"].var(1),
    "any": lambda lib, d: lambda: d["m0"].any(),
    "var dim 0": lambda lib, d: lambda: d["s"].var(0),
    "std": lambda lib, d: lambda: d["a"].std(),
    "min dim 0": lambda lib, d: lambda: d["s"].min(0),
    "nonzero": lambda lib, d: lambda: d["m"].nonzero(),
    "a[mask] = 0": lambda lib, d: lambda: d["z"].__setitem__(d["m"], 0.0),
}
INDEXING: dict[str, Make] = {
    "a[rows]": lambda lib, d: lambda: d["s"][d["t"]],
    "index_select": lambda lib, d: lambda: d["s"].index_select(0, d["t"]),
    "index_select dim 1": lambda lib, d: lambda: d["s"].index_select(1, d["t"]),
    "embedding": lambda lib, d: lambda: lib.nn.functional.embedding(d["t"], d["s"]),
    "gather": lambda lib, d: lambda: d["s"].gather(1, d["j"]),
    "gather dim 0": lambda lib, d: lambda: d["s"].gather(0, d["j"]),
    "take": lambda lib, d: lambda: d["a"].take(d["e"]),
    "a[i, j]": lambda lib, d: lambda: d["s"][d["t"], d["t"]],
    "a[rows] = b": lambda lib, d: lambda: d["z2"].__setitem__(d["t"], d["s"]),
    "scatter": lambda lib, d: lambda: d["s"].scatter(1, d["j"], d["s"]),
    "scatter_add": lambda lib, d: lambda: d["s"].scatter_add(1, d["j"], d["s"]),
    "index_add": lambda lib, d: lambda: d["s"].index_add(0, d["t"], d["s"]),
    "one_hot": lambda lib, d: lambda: lib.nn.functional.one_hot(d["t"] % 10, 10),
    "bincount": lambda lib, d: lambda: lib.bincount(d["k"]),
    "searchsorted": lambda lib, d: lambda: lib.searchsorted(d["o"], d["a"]),
    "histc": lambda lib, d: lambda: lib.histc(d["a"], 64),
}
REDUCTIONS: dict[str, Make] = {
    "sum": lambda lib, d: lambda: d["a"].sum(),
    "sum dim 1": lambda lib, d: lambda: d["s"].sum(1),
    "sum dim 0": lambda lib, d: lambda: d["s"].sum(0),
    "mean": lambda lib, d: lambda: d["a"].mean(),
    "max": lambda lib, d: lambda: d["a"].max(),
    "max dim 1": lambda lib, d: lambda: d["s"].max(1),
    "cumsum": lambda lib, d: lambda: d["s"].cumsum(1),
    "softmax": lambda lib, d: lambda: lib.softmax(d["s"], 1),
    "softmax dim 0": lambda lib, d: lambda: lib.softmax(d["s"], 0),
    "log_softmax": lambda lib, d: lambda: lib.log_softmax(d["s"], 1),
    "norm": lambda lib, d: lambda: d["a"].norm(),
    "layer_norm": lambda lib, d: lambda: lib.layer_norm(d["s"], (d["s"].shape[1],)),
    "cross_entropy": lambda lib, d: lambda: lib.nn.functional.cross_entropy(d["s"], d["t"]),
    "mse_loss": lambda lib, d: lambda: lib.nn.functional.mse_loss(d["a"], d["b"]),
    "attention": lambda lib, d: (
        lambda: lib.nn.functional.scaled_dot_product_attention(d["q"], d["q"], d["q"])
    ),
    "causal attention": lambda lib, d: (
        lambda: lib.nn.functional.scaled_dot_product_attention(
            d["q"], d["q"], d["q"], is_causal=True
        )
    ),
    "prod dim 1": lambda lib, d: lambda: d["s"].prod(1),
    "mean dim 0": lambda lib, d: lambda: d["s"].mean(0),
    "sum int64": lambda lib, d: lambda: d["i"].sum(),
    "sum bool": lambda lib, d: lambda: d["m"].sum(),
    "norm dim 1": lambda lib, d: lambda: lib.linalg.vector_norm(d["s"], dim=1),
    "logsumexp": lambda lib, d: lambda: d["s"].logsumexp(1),
    "cumsum dim 0": lambda lib, d: lambda: d["s"].cumsum(0),
    "cumprod": lambda lib, d: lambda: d["s"].cumprod(1),
    "batch_norm train": lambda lib, d: (
        lambda: lib.nn.functional.batch_norm(d["y"], None, None, training=True)
    ),
    "batch_norm": lambda lib, d: lambda: lib.nn.functional.batch_norm(d["y"], d["g"], d["h"]),
    "group_norm": lambda lib, d: lambda: lib.nn.functional.group_norm(d["y"], 2),
    "rms_norm": lambda lib, d: lambda: lib.rms_norm(d["s"], (d["s"].shape[1],)),
    "normalize": lambda lib, d: lambda: lib.nn.functional.normalize(d["s"], dim=1),
    "cosine_similarity": lambda lib, d: (
        lambda: lib.nn.functional.cosine_similarity(d["s"], d["s"], 1)
    ),
    "nll_loss": lambda lib, d: lambda: lib.nn.functional.nll_loss(d["s"], d["t"]),
    "l1_loss": lambda lib, d: lambda: lib.nn.functional.l1_loss(d["a"], d["b"]),
    "smooth_l1_loss": lambda lib, d: lambda: lib.nn.functional.smooth_l1_loss(d["a"], d["b"]),
    "bce": lambda lib, d: lambda: lib.nn.functional.binary_cross_entropy(d["u"], d["u"]),
    "bce with logits": lambda lib, d: (
        lambda: lib.nn.functional.binary_cross_entropy_with_logits(d["a"], d["u"])
    ),
    "kl_div": lambda lib, d: (
        lambda: lib.nn.functional.kl_div(d["a"], d["u"], reduction="batchmean")
    ),
}
SORTING: dict[str, Make] = {
    "sort": lambda lib, d: lambda: lib.sort(d["a"]),
    "argsort": lambda lib, d: lambda: lib.argsort(d["a"]),
    "sort rows": lambda lib, d: lambda: lib.sort(d["s"], 1),
    "unique": lambda lib, d: lambda: lib.unique(d["k"]),
    "topk": lambda lib, d: lambda: lib.topk(d["a"], 10),
    "topk rows": lambda lib, d: lambda: lib.topk(d["s"], 5, 1),
    "sort int64": lambda lib, d: lambda: lib.sort(d["k"]),
    "sort columns": lambda lib, d: lambda: lib.sort(d["s"], 0, descending=True),
    "unique inverse": lambda lib, d: lambda: lib.unique(d["k"], return_inverse=True),
    "median": lambda lib, d: lambda: d["a"].median(),
    "kthvalue": lambda lib, d: lambda: d["a"].kthvalue(7),
    "quantile": lambda lib, d: lambda: d["a"].quantile(0.5),
}
RANDOM: dict[str, Make] = {
    "rand": lambda lib, d: lambda: lib.rand(d["n"]),
    "randn": lambda lib, d: lambda: lib.randn(d["n"]),
    "randint": lambda lib, d: lambda: lib.randint(0, 1000, (d["n"],)),
    "randperm": lambda lib, d: lambda: lib.randperm(d["n"]),
    "bernoulli": lambda lib, d: lambda: lib.bernoulli(d["u"]),
    "rand float64": lambda lib, d: lambda: lib.rand(d["n"], dtype=lib.float64),
    "uniform_": lambda lib, d: lambda: d["z"].uniform_(-1.0, 1.0),
    "normal_": lambda lib, d: lambda: d["z"].normal_(1.0, 2.0),
    "bernoulli_": lambda lib, d: lambda: d["z"].bernoulli_(0.3),
    "dropout": lambda lib, d: lambda: lib.nn.functional.dropout(d["a"], 0.5),
    "exponential_": lambda lib, d: lambda: d["z"].exponential_(),
    "multinomial": lambda lib, d: lambda: lib.multinomial(d["u"], 100, True),
}
POOLING: dict[str, Make] = {
    "max_pool2d": lambda lib, d: lambda: lib.nn.functional.max_pool2d(d["x"], 2),
    "avg_pool2d": lambda lib, d: lambda: lib.nn.functional.avg_pool2d(d["x"], 2),
    "max_pool2d 3x3": lambda lib, d: lambda: lib.nn.functional.max_pool2d(d["x"], 3, 2, 1),
    "avg_pool2d 3x3": lambda lib, d: lambda: lib.nn.functional.avg_pool2d(d["x"], 3, 1, 1),
    "max_pool1d": lambda lib, d: lambda: lib.nn.functional.max_pool1d(d["x"][0], 2),
    "avg_pool1d": lambda lib, d: lambda: lib.nn.functional.avg_pool1d(d["x"][0], 2),
    "max_pool3d": lambda lib, d: lambda: lib.nn.functional.max_pool3d(d["x"], 2),
    "avg_pool3d": lambda lib, d: lambda: lib.nn.functional.avg_pool3d(d["x"], 2),
    "adaptive_avg_pool2d 1": lambda lib, d: (
        lambda: lib.nn.functional.adaptive_avg_pool2d(d["x"], 1)
    ),
    "adaptive_avg_pool2d 7": lambda lib, d: (
        lambda: lib.nn.functional.adaptive_avg_pool2d(d["x"], 7)
    ),
    "adaptive_max_pool2d 7": lambda lib, d: (
        lambda: lib.nn.functional.adaptive_max_pool2d(d["x"], 7)
    ),
    "interpolate": lambda lib, d: (
        lambda: lib.nn.functional.interpolate(d["x"], scale_factor=2.0, mode="bilinear")
    ),
}
LENGTHS = (10_000, 1_000_000, 10_000_000)
#: Seconds until the threads of NumPy's products, which made the operands, sleep: the time that they
#: spin is this process's CPU time.
_SETTLING = 0.2

GROUPS: dict[str, Group] = {
    "small calls": Group(
        0.10, (16,), {**ARITHMETIC, **SMALL_FUNCTIONS, **CHOICES, **INDEXING, **REDUCTIONS}
    ),
    "arithmetic, casts, copies": Group(0.6, LENGTHS, ARITHMETIC),
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
            title = f"{case} {n}"
            if only not in title:
                continue
            a, b = make(shmtensor, ours), make(torch, theirs)
            if not (_works(a) and _works(b)):
                missing.append(title)
                continue
            yield compare(title, a, b, samples=samples, **timing)


_CROWDED_GOAL = 0.2
_BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


@contextlib.contextmanager
def crowd() -> Iterator[None]:
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
        "--crowded", action="store_true", help="beside one busy process a core: wall time"
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
    timing: dict[str, Any] = {"wall": options.threads > 1 or options.crowded}
    if options.crowded:  # who sleeps among busy processes goes first afterwards: no crowd any more
        timing["rest"] = 0.0
    with crowd() if options.crowded else contextlib.nullcontext():
        for name in options.group:
            found = list(measure_group(name, options.samples, options.only, timing, missing))
            if not found:
                continue
            print(f"\n{name}")
            print_table(found)
            rows += found
            mean = geometric_mean(found)
            goal = _CROWDED_GOAL if options.crowded else GROUPS[name].goal
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
