"""Cases for bench_shapes: calls of one tensor, any library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Case = Callable[[Any, Any], object]
"""Of a library and its tensor."""

SHAPES = (
    (100000, 2),
    (2, 100000),
    (1000, 200),
    (20000, 10),
    (10, 20000),
    (200000, 1),
    (1, 200000),
    (100, 40, 50),
    (50, 4000, 1),
    (16, 16, 28, 28),
    (4, 3, 128, 128),
    (256, 64, 3, 3),
    (8, 512, 7, 7),
)

_ALONG_A_DIM = (
    "sum mean amax amin argmax argmin prod var std logsumexp cumsum cumprod any softmax "
    "log_softmax sort argsort median norm max min nansum count_nonzero cummax logcumsumexp"
)


def _all_but_channels(x: Any) -> list[int]:
    return [d for d in range(x.dim()) if d != 1]


def _channels_last(lib: Any, x: Any) -> Any:
    return x.contiguous(memory_format=lib.channels_last)


def _method(name: str, dim: int) -> Case:
    return lambda lib, x: getattr(lib, name)(x, dim=dim)


def _nn(name: str, *args: Any, channels_last: bool = False, **options: Any) -> Case:
    def call(lib: Any, x: Any) -> object:
        operand = _channels_last(lib, x) if channels_last else x
        return getattr(lib.nn.functional, name)(operand, *args, **options)

    return call


def cases() -> dict[str, Case]:
    """Every case by its name."""
    found: dict[str, Case] = {
        f"{name} {dim}": _method(name, dim) for name in _ALONG_A_DIM.split() for dim in (0, 1, -1)
    }
    for dim in (0, 1, -1):
        found[f"flip {dim}"] = lambda _, x, dim=dim: x.flip((dim,))
        found[f"roll {dim}"] = lambda _, x, dim=dim: x.roll(1, dim)
        found[f"cat {dim}"] = lambda lib, x, dim=dim: lib.cat([x, x], dim)
        found[f"every second {dim}"] = lambda lib, x, dim=dim: x.index_select(
            dim, lib.arange(0, x.shape[dim], 2)
        )
    for name in ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"):
        found[name] = _nn(name, 2)
        found[f"{name} channels-last"] = _nn(name, 2, channels_last=True)
    batch = {"running_mean": None, "running_var": None, "training": True}
    return found | {
        "sum outer": lambda _, x: x.sum((0, -1)),
        "sum by channel": lambda _, x: x.sum(_all_but_channels(x)),
        "var by channel": lambda _, x: x.var(_all_but_channels(x)),
        "transposed copy": lambda _, x: x.transpose(0, 1).contiguous(),
        "transposed copy last": lambda _, x: x.transpose(0, -1).contiguous(),
        "add row": lambda _, x: x + x[:1],
        "add column": lambda _, x: x + x[..., :1],
        "add channel": lambda _, x: x + x[:1, :, ..., :1],
        "add transposed": lambda _, x: x.transpose(0, 1) + x.transpose(0, 1).contiguous(),
        "strided rows": lambda _, x: x[::2].exp(),
        "strided columns": lambda _, x: x[..., ::2] * 2,
        "where row": lambda lib, x: lib.where(x > 0, x[:1], x),
        "masked_fill": lambda _, x: x.masked_fill(x > 0, 0.0),
        "divided by sums": lambda _, x: x / x.sum(-1, keepdim=True),
        "repeat": lambda _, x: x.repeat(*(1,) * (x.dim() - 1), 2),
        "repeat_interleave": lambda _, x: x.repeat_interleave(2, -1),
        "stack last": lambda lib, x: lib.stack([x, x], -1),
        "topk": lambda _, x: x.topk(min(2, x.shape[-1]), -1),
        "kthvalue": lambda _, x: x.kthvalue(1, -1),
        "diff": lambda _, x: x.diff(dim=-1),
        "tril": lambda _, x: x.tril(),
        "matrix times narrow": lambda _, x: x @ x.transpose(-1, -2)[..., :8],
        "matrix times vector": lambda _, x: x @ x.new_ones(x.shape[-1]),
        "narrow times matrix": lambda _, x: x.transpose(-1, -2)[..., :8, :] @ x,
        "to float64": lambda _, x: x.double(),
        "to channels-last": _channels_last,
        "pad": _nn("pad", (1, 1)),
        "pad reflect": _nn("pad", (1, 1, 1, 1), mode="reflect"),
        "glu": _nn("glu", -1),
        "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, (x.shape[-1],)),
        "rms_norm": lambda lib, x: lib.nn.functional.rms_norm(x, (x.shape[-1],)),
        "normalize": _nn("normalize", dim=1),
        "group_norm": _nn("group_norm", 1),
        "group_norm channels-last": _nn("group_norm", 1, channels_last=True),
        "instance_norm": _nn("instance_norm"),
        "batch_norm": _nn("batch_norm", **batch),
        "batch_norm channels-last": _nn("batch_norm", channels_last=True, **batch),
        "interpolate nearest": _nn("interpolate", scale_factor=2),
        "interpolate bilinear": _nn("interpolate", scale_factor=2, mode="bilinear"),
        "unfold": _nn("unfold", 2),
        "pixel_shuffle": _nn("pixel_shuffle", 2),
    }
