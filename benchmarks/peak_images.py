"""Cases for bench_peak: normalising, pooling, resizing and padding images, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[..., Any]

MODES = ("constant", "reflect", "replicate", "circular")


def arrays() -> dict[str, Any]:
    """Return the operands as NumPy arrays."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    return {
        "line": normal(8, 32, 2048),
        "image": normal(8, 32, 64, 64),
        "volume": normal(2, 16, 32, 32, 32),
        "grid": (rng.random((8, 64, 64, 2)) * 2 - 1).astype(np.float32),
        "grid3": (rng.random((2, 32, 32, 32, 3)) * 2 - 1).astype(np.float32),
        "theta": normal(8, 2, 3),
        "scale": normal(32),
    }


def _norms(lib: Any, d: dict[str, Any]) -> dict[str, tuple[Call, tuple[Any, ...]]]:
    f = lib.nn.functional
    image, line, scale = d["image"], d["line"], d["scale"]
    mean, var = lib.zeros_like(scale), lib.ones_like(scale)
    return {
        "batch_norm": (lambda a: f.batch_norm(a, None, None, training=True), (image,)),
        "batch_norm affine": (
            lambda a, w: f.batch_norm(a, mean, var, w, w, training=True),
            (image, scale),
        ),
        "batch_norm of lines": (lambda a: f.batch_norm(a, None, None, training=True), (line,)),
        "batch_norm eval": (lambda a, w: f.batch_norm(a, mean, var, w, w), (image, scale)),
        "group_norm": (lambda a, w: f.group_norm(a, 8, w, w), (image, scale)),
        "group_norm of one": (lambda a: f.group_norm(a, 1), (image,)),
        "instance_norm": (lambda a: f.instance_norm(a), (image,)),
        "instance_norm affine": (lambda a, w: f.instance_norm(a, weight=w, bias=w), (image, scale)),
        "layer_norm": (lambda a: f.layer_norm(a, (2048,)), (line,)),
        "layer_norm of planes": (lambda a: f.layer_norm(a, (64, 64)), (image,)),
        "rms_norm": (lambda a: f.rms_norm(a, (2048,)), (line,)),
        "local_response_norm": (lambda a: f.local_response_norm(a, 3), (image,)),
        "normalize": (lambda a: f.normalize(a, dim=1), (image,)),
    }


def _pools(lib: Any, d: dict[str, Any]) -> dict[str, tuple[Call, tuple[Any, ...]]]:
    f = lib.nn.functional
    line, image, volume = (d["line"],), (d["image"],), (d["volume"],)
    found: dict[str, tuple[Call, tuple[Any, ...]]] = {}
    for n, x in ((1, line), (2, image), (3, volume)):
        for kind in ("avg", "max"):
            pool = getattr(f, f"{kind}_pool{n}d")
            found[f"{kind}_pool{n}d"] = (lambda a, pool=pool: pool(a, 2), x)
            found[f"{kind}_pool{n}d 3 by 1"] = (
                lambda a, pool=pool: pool(a, 3, stride=1, padding=1),
                x,
            )
            adaptive = getattr(f, f"adaptive_{kind}_pool{n}d")
            found[f"adaptive_{kind}_pool{n}d"] = (lambda a, pool=adaptive: pool(a, 20), x)
        lp_pool = getattr(f, f"lp_pool{n}d")
        found[f"lp_pool{n}d"] = (lambda a, pool=lp_pool: pool(a, 2.0, 2), x)
        found[f"max_unpool{n}d"] = (
            lambda a, n=n: getattr(f, f"max_unpool{n}d")(
                *getattr(f, f"max_pool{n}d")(a, 2, return_indices=True), 2
            ),
            x,
        )
    found["fractional_max_pool2d"] = (
        lambda a: f.fractional_max_pool2d(a, 2, output_size=31),
        image,
    )
    found["fractional_max_pool3d"] = (
        lambda a: f.fractional_max_pool3d(a, 2, output_size=15),
        volume,
    )
    return found


def _sizes(lib: Any, d: dict[str, Any]) -> dict[str, tuple[Call, tuple[Any, ...]]]:
    f = lib.nn.functional
    line, image, volume = (d["line"],), (d["image"],), (d["volume"],)
    found: dict[str, tuple[Call, tuple[Any, ...]]] = {}
    named = [("linear", line), ("bilinear", image), ("bicubic", image), ("trilinear", volume)]
    named += [(mode, x) for mode in ("nearest", "nearest-exact") for x in (line, image, volume)]
    named += [("area", image)]
    for mode, x in named:
        for scale in (2, 0.6):
            found[f"interpolate {mode} {x[0].dim() - 2}d by {scale}"] = (
                lambda a, mode=mode, scale=scale: f.interpolate(a, scale_factor=scale, mode=mode),
                x,
            )
    for mode in ("bilinear", "bicubic"):
        found[f"interpolate {mode} antialias"] = (
            lambda a, mode=mode: f.interpolate(a, scale_factor=0.6, mode=mode, antialias=True),
            image,
        )
        found[f"grid_sample {mode}"] = (
            lambda a, g, mode=mode: f.grid_sample(a, g, mode=mode, align_corners=False),
            (d["image"], d["grid"]),
        )
    found["grid_sample 3d"] = (
        lambda a, g: f.grid_sample(a, g, align_corners=False),
        (d["volume"], d["grid3"]),
    )
    found["affine_grid"] = (
        lambda t: f.affine_grid(t, [8, 3, 128, 128], align_corners=False),
        (d["theta"],),
    )
    for mode in MODES:
        for n, x in ((1, line), (2, image), (3, volume)):
            found[f"pad {mode} {n}d"] = (
                lambda a, mode=mode, n=n: f.pad(a, (2, 3) * n, mode=mode),
                x,
            )
    found |= {
        "pixel_shuffle": (lambda a: f.pixel_shuffle(a, 2), image),
        "pixel_unshuffle": (lambda a: f.pixel_unshuffle(a, 2), image),
        "channel_shuffle": (lambda a: f.channel_shuffle(a, 4), image),
        "unfold": (lambda a: f.unfold(a, 3, padding=1), image),
        "fold": (lambda a: f.fold(a.reshape(8, 128, 1024), (64, 64), 2, stride=2), image),
    }
    return found


def _gradient(lib: Any, function: Call, operands: tuple[Any, ...]) -> Callable[[], object]:
    def call() -> object:
        leaves = [x.detach().requires_grad_() for x in operands]
        result = function(*leaves)
        return lib.autograd.grad(result, leaves, lib.ones_like(result))

    return call


def cases(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the calls by name, for one library and its operands."""
    found: dict[str, Callable[[], object]] = {}
    for part in (_norms, _pools, _sizes):
        for name, (function, operands) in part(lib, d).items():
            found[f"image {name}"] = lambda f=function, operands=operands: f(*operands)
            found[f"image {name}, gradient"] = _gradient(lib, function, operands)
    return found
