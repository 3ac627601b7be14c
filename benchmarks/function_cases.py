"""Cases of element-wise functions and of normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from groups import Make, function

# Operands by domain: p positive, x any, u inside (-1, 1), g above 1.
_FLOAT32 = {
    "p": "exp log log2 log10 log1p expm1 exp2 tanh sigmoid erf erfc sin cos tan lgamma digamma "
    "rsqrt",
    "x": "asinh atan sinh cosh i0 nn.functional.gelu nn.functional.silu nn.functional.softplus "
    "nn.functional.mish nn.functional.elu nn.functional.logsigmoid",
    "u": "asin acos atanh erfinv",
    "g": "acosh",
}
_FLOAT64 = {
    "p64": "exp log log2 log10 log1p expm1 exp2 tanh sigmoid erf erfc sin cos tan",
    "x64": "asinh atan sinh cosh",
    "u64": "asin acos atanh",
    "g64": "acosh",
}


def _functions() -> dict[str, Make]:
    cases: dict[str, Make] = {}
    for suffix, table in (("", _FLOAT32), (" float64", _FLOAT64)):
        for operand, names in table.items():
            for name in names.split():
                cases[name.rpartition(".")[2] + suffix] = function(name, operand)
    for name in ("exp", "log", "tanh", "sigmoid", "erf", "sin", "nn.functional.gelu"):
        short = name.rpartition(".")[2]
        cases[f"{short} bfloat16"] = function(name, "pb")
        cases[f"{short} float16"] = function(name, "ph")
    for suffix in ("", "64"):
        title = " float64" if suffix else ""
        for name, a, b in (("pow", "p", "x"), ("atan2", "x", "p"), ("hypot", "x", "p")):
            cases[name + title] = _binary(name, a + suffix, b + suffix)
        cases["logaddexp" + title] = _binary("logaddexp", "x" + suffix, "p" + suffix)
    cases["gelu tanh"] = lambda lib, d: (
        lambda x=d["x"]: lib.nn.functional.gelu(x, approximate="tanh")
    )
    cases["a ** 1.5"] = lambda lib, d: lambda p=d["p"]: p**1.5
    return cases


def _binary(name: str, a: str, b: str) -> Make:
    return lambda lib, d: lambda: getattr(lib, name)(d[a], d[b])


FUNCTIONS = _functions()


def function_arrays(n: int) -> dict[str, Any]:
    """Return operands of *n* elements in the domains of the functions."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    wide = {
        "x": x,
        "p": np.abs(x) + 1e-3,
        "u": rng.uniform(-0.999, 0.999, n),
        "g": np.abs(x) + 1.001,
    }
    arrays: dict[str, Any] = {name: value.astype(np.float32) for name, value in wide.items()}
    arrays |= {f"{name}64": value for name, value in wide.items()}
    arrays["ph"] = wide["p"].astype(np.float16)
    return arrays


def function_tensors(lib: Any, tensors: dict[str, Any]) -> None:
    """Add the operands that NumPy has no type for."""
    tensors["pb"] = tensors["p"].to(lib.bfloat16)


NORMALISATION: dict[str, Make] = {
    "layer_norm": lambda lib, d: (
        lambda s=d["s"], w=d["w"], b=d["b"]: lib.nn.functional.layer_norm(s, s.shape[1:], w, b)
    ),
    "layer_norm bfloat16": lambda lib, d: (
        lambda sb=d["sb"], wb=d["wb"], bb=d["bb"]: lib.nn.functional.layer_norm(
            sb, sb.shape[1:], wb, bb
        )
    ),
    "rms_norm": lambda lib, d: (
        lambda s=d["s"], w=d["w"]: lib.nn.functional.rms_norm(s, s.shape[1:], w)
    ),
    "batch_norm training": lambda lib, d: (
        lambda x=d["x"], m=d["m"], v=d["v"], cw=d["cw"], cb=d["cb"]: lib.nn.functional.batch_norm(
            x, m, v, cw, cb, training=True
        )
    ),
    "batch_norm": lambda lib, d: (
        lambda x=d["x"], m=d["m"], v=d["v"], cw=d["cw"], cb=d["cb"]: lib.nn.functional.batch_norm(
            x, m, v, cw, cb
        )
    ),
    "group_norm": lambda lib, d: (
        lambda x=d["x"], cw=d["cw"], cb=d["cb"]: lib.nn.functional.group_norm(x, 4, cw, cb)
    ),
    "instance_norm": lambda lib, d: lambda x=d["x"]: lib.nn.functional.instance_norm(x),
    "normalize": lambda lib, d: lambda s=d["s"]: lib.nn.functional.normalize(s),
    "layer_norm backward": lambda lib, d: _layer_norm_backward(lib, d),
    "batch_norm backward": lambda lib, d: _batch_norm_backward(lib, d),
    "local_response_norm": lambda lib, d: (
        lambda x=d["x"]: lib.nn.functional.local_response_norm(x, 5)
    ),
}


def _layer_norm_backward(lib: Any, d: dict[str, Any]) -> Any:
    s = d["s"].clone().requires_grad_()
    w, b = d["w"].clone().requires_grad_(), d["b"].clone().requires_grad_()
    grad = d["s"]

    def call() -> object:
        y = lib.nn.functional.layer_norm(s, s.shape[1:], w, b)
        return lib.autograd.grad(y, (s, w, b), grad)

    return call


def _batch_norm_backward(lib: Any, d: dict[str, Any]) -> Any:
    x = d["x"].clone().requires_grad_()
    w, b = d["cw"].clone().requires_grad_(), d["cb"].clone().requires_grad_()
    grad = d["x"]

    def call() -> object:
        y = lib.nn.functional.batch_norm(x, None, None, w, b, training=True)
        return lib.autograd.grad(y, (x, w, b), grad)

    return call


def normalisation_arrays(n: int) -> dict[str, Any]:
    """Return 512 rows of *n*, and 8 images of 32 channels with about as many elements."""
    rng = np.random.default_rng(0)
    side = int((512 * n / 256) ** 0.5)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    return {
        "s": normal(512, n),
        "w": normal(n),
        "b": normal(n),
        "x": normal(8, 32, side, side),
        "cw": normal(32),
        "cb": normal(32),
        "m": normal(32),
        "v": np.abs(normal(32)) + np.float32(0.1),
    }


def normalisation_tensors(lib: Any, tensors: dict[str, Any]) -> None:
    """Add the operands that NumPy has no type for."""
    for name in ("s", "w", "b"):
        tensors[f"{name}b"] = tensors[name].to(lib.bfloat16)
