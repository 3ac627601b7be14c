"""Cases of images as they lie in memory, and of calls that no other group has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from groups import Make

_Function = Callable[[Any, Any], Any]


def _nn(name: str, operand: str, *args: Any, **options: Any) -> Make:
    return lambda lib, d: lambda: getattr(lib.nn.functional, name)(d[operand], *args, **options)


def _sample(operand: str, mode: str) -> Make:
    return lambda lib, d: (
        lambda grid=d["grid"]: lib.nn.functional.grid_sample(
            d[operand], grid, mode, align_corners=False
        )
    )


def _gradient(function: _Function, operand: str) -> Make:
    """Forward and backward."""

    def make(lib: Any, d: dict[str, Any]) -> Callable[[], object]:
        x = d[operand].clone().requires_grad_()
        grad = lib.ones_like(function(lib, d[operand]))
        return lambda: lib.autograd.grad(function(lib, x), x, grad)

    return make


def _pad(mode: str) -> _Function:
    return lambda lib, x: lib.nn.functional.pad(x, (1, 2, 3, 1), mode=mode)


IMAGES: dict[str, Make] = {
    **{
        f"pad {mode}{name}": _nn("pad", x, (1, 2, 3, 1), mode=mode)
        for mode in ("constant", "reflect", "replicate", "circular")
        for name, x in (("", "x"), (" channels last", "last"))
    },
    "pad reflect 1d": _nn("pad", "line", (2, 2), mode="reflect"),
    **{
        f"grid_sample {mode}{name}": _sample(x, mode)
        for mode in ("bilinear", "nearest", "bicubic")
        for name, x in (("", "x"), (" channels last", "last"))
    },
    "grid_sample of 3 channels": _sample("rgb", "bilinear"),
    **{
        f"interpolate {mode} channels last": _nn("interpolate", "last", scale_factor=2, mode=mode)
        for mode in ("nearest", "bilinear", "bicubic")
    },
    "interpolate linear": _nn("interpolate", "line", scale_factor=2, mode="linear"),
    "interpolate smaller": _nn("interpolate", "x", size=(20, 30), mode="bilinear"),
    "pixel_shuffle": _nn("pixel_shuffle", "x", 2),
    "pixel_shuffle channels last": _nn("pixel_shuffle", "last", 2),
    "unfold": _nn("unfold", "x", 3, padding=1),
    "group_norm channels last": _nn("group_norm", "last", 4),
    "batch_norm channels last": _nn("batch_norm", "last", None, None, training=True),
    "instance_norm": _nn("instance_norm", "x"),
    "max_pool2d channels last": _nn("max_pool2d", "last", 3, 2, 1),
    "avg_pool2d channels last": _nn("avg_pool2d", "last", 3, 2, 1),
    "max_pool1d strided": _nn("max_pool1d", "every second", 3, 2, 1),
    "avg_pool1d strided": _nn("avg_pool1d", "every second", 3, 2, 1),
    "max_pool1d transposed": _nn("max_pool1d", "transposed", 3, 2, 1),
    "avg_pool1d transposed": _nn("avg_pool1d", "transposed", 3, 2, 1),
    "conv2d 1x1 channels last": lambda lib, d: (
        lambda last=d["last"], w1=d["w1"]: lib.nn.functional.conv2d(last, w1)
    ),
    "pad reflect backward": _gradient(_pad("reflect"), "x"),
    "pad replicate backward": _gradient(_pad("replicate"), "x"),
    "interpolate bilinear backward": _gradient(
        lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"), "x"
    ),
    "group_norm channels last backward": _gradient(
        lambda lib, x: lib.nn.functional.group_norm(x, 4), "last"
    ),
}


def image_arrays(channels: int) -> dict[str, Any]:
    """Return images of so many channels, some hundred thousand numbers each."""
    rng = np.random.default_rng(0)
    side = 448 // channels * 4

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    return {
        "x": normal(2, channels, side, side),
        "rgb": normal(4, 3, 64, 64)[:2].copy(),
        "line": normal(4, channels, side * 16),
        "wide": normal(4, channels, side * 32),
        "tall": normal(4, side * 16, channels),
        "grid": rng.uniform(-1.1, 1.1, (2, 40, 40, 2)).astype(np.float32),
        "w1": normal(channels, channels, 1, 1),
    }


def image_tensors(lib: Any, tensors: dict[str, Any]) -> None:
    """Add the views."""
    tensors["last"] = tensors["x"].contiguous(memory_format=lib.channels_last)
    tensors["every second"] = tensors["wide"][:, :, ::2]
    tensors["transposed"] = tensors["tall"].transpose(1, 2)


FURTHER: dict[str, Make] = {
    "multinomial apart": lambda lib, d: lambda u=d["u"]: lib.multinomial(u, 400),
    "multinomial rows apart": lambda lib, d: lambda us=d["us"]: lib.multinomial(us, 40),
    "bincount uint8": lambda lib, d: lambda k8=d["k8"]: lib.bincount(k8),
    "bincount int32": lambda lib, d: lambda k32=d["k32"]: lib.bincount(k32),
    "sort rows of 8": lambda lib, d: lambda r8=d["r8"]: lib.sort(r8, 1),
    "sort int64 rows of 8": lambda lib, d: lambda i8=d["i8"]: lib.sort(i8, 1),
    "topk rows of 8": lambda lib, d: lambda r8=d["r8"]: lib.topk(r8, 2, 1),
    "topk bfloat16 rows": lambda lib, d: lambda rb=d["rb"]: lib.topk(rb, 10, 1),
    "kthvalue rows": lambda lib, d: lambda r=d["r"]: r.kthvalue(3, 1),
    "a[mask] backward": _gradient(lambda _, x: x[x > 0], "a"),
    "tolist": lambda lib, d: lambda k=d["k"]: k[:1000].tolist(),
    "neg bfloat16": lambda lib, d: lambda rb=d["rb"]: -rb,
    "abs bfloat16": lambda lib, d: lambda rb=d["rb"]: rb.abs(),
    "cdist": lambda lib, d: lambda p=d["p"]: lib.cdist(p, p),
    "cdist backward": _gradient(lambda lib, x: lib.cdist(x, x), "p"),
    "linspace": lambda lib, d: lambda n=d["n"]: lib.linspace(0.0, 1.0, n),
    "sqrt float64": lambda lib, d: lambda w=d["w"]: w.sqrt(),
    "searchsorted rows": lambda lib, d: (
        lambda sorted=d["sorted"], r=d["r"]: lib.searchsorted(sorted, r)
    ),
}


def further_arrays(n: int) -> dict[str, Any]:
    """Return operands of *n* elements, some in rows of eight or a hundred."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=n).astype(np.float32)
    k = rng.integers(0, 200, n)
    return {
        "a": a,
        "w": np.abs(a).astype(np.float64),
        "u": rng.random(1000).astype(np.float32),
        "us": rng.random((n // 100, 100)).astype(np.float32),
        "k": k,
        "k8": k.astype(np.uint8),
        "k32": k.astype(np.int32),
        "r8": a[: n // 8 * 8].reshape(-1, 8).copy(),
        "i8": k[: n // 8 * 8].reshape(-1, 8).copy(),
        "r": a.reshape(-1, 100).copy(),
        "sorted": np.sort(a.reshape(-1, 100), 1),
        "p": a[: min(n, 20_000)].reshape(-1, 100).copy(),
    }


def further_tensors(lib: Any, tensors: dict[str, Any]) -> None:
    """Add the operand that NumPy has no type for."""
    tensors["rb"] = tensors["r"].to(lib.bfloat16)
