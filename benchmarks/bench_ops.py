"""Kernels against torch: element-wise operators, reductions and copies of a million elements.

Run ``python benchmarks/bench_ops.py`` where torch is installed. One process, one thread, CPU time,
interleaved samples. Results are new tensors, as in ordinary use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from measure import Call, Result, compare, geometric_mean, print_table, write_json

import shmtensor

Make = Callable[[Any, dict[str, Any]], Call]

CASES: dict[str, Make] = {
    "add": lambda lib, d: lambda: d["a"] + d["b"],
    "add int64": lambda lib, d: lambda: d["i"] + d["i"],
    "a * 2.0": lambda lib, d: lambda: d["a"] * 2.0,
    "exp": lambda lib, d: lambda: lib.exp(d["a"]),
    "log": lambda lib, d: lambda: lib.log(d["p"]),
    "tanh": lambda lib, d: lambda: lib.tanh(d["a"]),
    "sigmoid": lambda lib, d: lambda: lib.sigmoid(d["a"]),
    "erf": lambda lib, d: lambda: lib.erf(d["a"]),
    "sin": lambda lib, d: lambda: lib.sin(d["a"]),
    "exp float64": lambda lib, d: lambda: lib.exp(d["w"]),
    "relu": lambda lib, d: lambda: lib.relu(d["a"]),
    "a > b": lambda lib, d: lambda: d["a"] > d["b"],
    "where": lambda lib, d: lambda: lib.where(d["m"], d["a"], d["b"]),
    "float32 -> float64": lambda lib, d: lambda: d["a"].to(lib.float64),
    "float32 -> bfloat16": lambda lib, d: lambda: d["a"].to(lib.bfloat16),
    "sum": lambda lib, d: lambda: d["a"].sum(),
    "sum dim 1": lambda lib, d: lambda: d["s"].sum(1),
    "sum dim 0": lambda lib, d: lambda: d["s"].sum(0),
    "max": lambda lib, d: lambda: d["a"].max(),
    "max dim 1": lambda lib, d: lambda: d["s"].max(1),
    "argmax dim 1": lambda lib, d: lambda: d["s"].argmax(1),
    "argmax dim 0": lambda lib, d: lambda: d["s"].argmax(0),
    "var dim 1": lambda lib, d: lambda: d["s"].var(1),
    "any": lambda lib, d: lambda: d["m0"].any(),
    "cumsum dim 1": lambda lib, d: lambda: d["s"].cumsum(1),
    "transposed copy": lambda lib, d: lambda: d["s"].t().contiguous(),
    "row broadcast": lambda lib, d: lambda: d["s"] + d["r"],
    "column broadcast": lambda lib, d: lambda: d["s"] + d["c"],
}


def _operands(lib: ModuleType) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    a = rng.normal(size=1_000_000).astype(np.float32)
    arrays = {
        "a": a,
        "b": a[::-1].copy(),
        "p": np.abs(a) + np.float32(1e-3),
        "i": np.arange(1_000_000),
        "w": a.astype(np.float64),
        "m": a > 0,
        "m0": np.zeros(1_000_000, bool),
        "s": a.reshape(1000, 1000),
        "r": a[:1000].copy(),
        "c": a[:1000].reshape(1000, 1).copy(),
    }
    any_lib: Any = lib
    return {name: any_lib.from_numpy(value) for name, value in arrays.items()}


def measure_ops(samples: int, only: str) -> list[Result]:
    """Measure the cases whose name contains *only*."""
    ours, theirs = _operands(shmtensor), _operands(torch)
    return [
        compare(name, make(shmtensor, ours), make(torch, theirs), samples=samples)
        for name, make in CASES.items()
        if only in name
    ]


def main() -> int:
    """Print the table; exit 1 when the limit given on the command line is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--json", type=Path, help="also write the results here")
    parser.add_argument("--max-mean", type=float, help="fail when the geometric mean is above")
    args = parser.parse_args()
    torch.set_num_threads(1)
    shmtensor.set_num_threads(1)
    rows = measure_ops(args.samples, args.only)
    print_table(rows)
    if args.json:
        write_json(args.json, rows)
    return 1 if args.max_mean is not None and geometric_mean(rows) > args.max_mean else 0


if __name__ == "__main__":
    sys.exit(main())
