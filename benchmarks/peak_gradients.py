"""Cases for bench_peak: a call and the gradients of what it was given, as in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ROWS, COLUMNS = 400, 500


def arrays() -> dict[str, Any]:
    """Return the operands as NumPy arrays."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    square = normal(128, 128)
    return {
        "x": normal(ROWS, COLUMNS),
        "y": normal(ROWS, COLUMNS),
        "p": rng.random((ROWS, COLUMNS)).astype(np.float32),
        "signs": np.where(rng.random((ROWS, COLUMNS)) > 0.5, 1, -1).astype(np.float32),
        "classes": rng.integers(0, ROWS, ROWS),
        "image": normal(4, 16, 64, 64),
        "filters": normal(16, 16, 3, 3),
        "volume": normal(2, 4, 16, 16, 16),
        "filters3": normal(4, 4, 3, 3, 3),
        "weights": normal(300, COLUMNS),
        "rows": normal(200, 50),
        "batch": normal(8, 64, 64),
        "spd": (square @ square.T / 128 + np.eye(128)).astype(np.float32),
        "steps": normal(32, 8, 64),
    }


def _gradient(lib: Any, function: Callable[..., Any], *operands: Any) -> Callable[[], object]:
    def call() -> object:
        leaves = [x.detach().requires_grad_() for x in operands]
        result = function(*leaves)
        return lib.autograd.grad(result, leaves, lib.ones_like(result))

    return call


def _losses(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    f = lib.nn.functional
    x, y, p, classes = d["x"], d["y"], d["p"], d["classes"]
    found = {}
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        loss = getattr(f, name)
        found[name] = _gradient(lib, lambda a, loss=loss: loss(a, y), x)
        found[f"{name} none"] = _gradient(lib, lambda a, loss=loss: loss(a, y, reduction="none"), x)
        found[f"{name} of both"] = _gradient(lib, loss, x, y)
    found |= {
        "binary_cross_entropy": _gradient(lib, lambda a: f.binary_cross_entropy(a, p), p),
        "bce with logits": _gradient(lib, lambda a: f.binary_cross_entropy_with_logits(a, p), x),
        "bce with pos_weight": _gradient(
            lib, lambda a: f.binary_cross_entropy_with_logits(a, p, pos_weight=y[0]), x
        ),
        "kl_div": _gradient(lib, lambda a: f.kl_div(a, p, reduction="batchmean"), x),
        "poisson_nll": _gradient(lib, lambda a: f.poisson_nll_loss(a, p), x),
        "soft_margin": _gradient(lib, lambda a: f.soft_margin_loss(a, d["signs"]), x),
        "hinge_embedding": _gradient(lib, lambda a: f.hinge_embedding_loss(a, d["signs"]), x),
        "multi_margin": _gradient(lib, lambda a: f.multi_margin_loss(a, classes), x),
        "multilabel_margin": _gradient(
            lib, lambda a: f.multilabel_margin_loss(a, (classes * 0).unsqueeze(1) - a.long() * 0), x
        ),
        "triplet_margin": _gradient(lib, lambda a: f.triplet_margin_loss(a, y, p), x),
        "cross_entropy": _gradient(lib, lambda a: f.cross_entropy(a, classes), x),
        "cross_entropy smoothed": _gradient(
            lib, lambda a: f.cross_entropy(a, classes, label_smoothing=0.1), x
        ),
        "cross_entropy of probabilities": _gradient(lib, lambda a: f.cross_entropy(a, p), x),
    }
    return found


ACTIVATIONS = (
    "relu elu selu gelu silu mish softplus softsign tanhshrink hardtanh hardswish hardsigmoid "
    "leaky_relu logsigmoid hardshrink softshrink glu dropout normalize gumbel_softmax"
).split()
FUNCTIONS = (
    "exp log sin cos tan sqrt rsqrt square abs sinh tanh asin atan erf erfinv log1p expm1 "
    "reciprocal sigmoid lgamma digamma sinc logit nan_to_num"
).split()
BINARY = "mul div pow atan2 maximum fmod hypot copysign logaddexp xlogy fmax".split()
ALONG = (
    "cumsum cumprod logcumsumexp cummax sort logsumexp softmax var mean prod amax max median norm"
).split()


def _pointwise(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    f = lib.nn.functional
    x, p = d["x"], d["p"]
    found = {name: _gradient(lib, getattr(f, name), x) for name in ACTIVATIONS}
    found |= {name: _gradient(lib, getattr(lib, name), p) for name in FUNCTIONS}
    found |= {name: _gradient(lib, getattr(lib, name), p, p + 0.5) for name in BINARY}

    def along(name: str, a: Any) -> Any:
        result = getattr(a, name)(dim=1)
        return result if isinstance(result, lib.Tensor) else result[0]

    found |= {f"{n} dim 1": _gradient(lib, lambda a, n=n: along(n, a), p) for n in ALONG}
    found |= {
        "prelu": _gradient(lib, lambda a: f.prelu(a, lib.tensor([0.2])), x),
        "where": _gradient(lib, lambda a, b: lib.where(a > b, a, b), x, p),
        "lerp": _gradient(lib, lambda a, b: lib.lerp(a, b, p), x, p),
        "addcmul": _gradient(lib, lambda a, b: lib.addcmul(a, b, p), x, p),
        "layer_norm": _gradient(lib, lambda a: f.layer_norm(a, (COLUMNS,)), x),
        "cosine_similarity": _gradient(lib, lambda a: f.cosine_similarity(a, p), x),
    }
    return found


def _gathered(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    x, y, classes = d["x"], d["y"], d["classes"]
    zeros = lib.zeros(ROWS, COLUMNS, dtype=lib.int64)
    return {
        "a[rows]": _gradient(lib, lambda a: a[classes], x),
        "index_select": _gradient(lib, lambda a: a.index_select(0, classes), x),
        "gather": _gradient(lib, lambda a: a.gather(0, zeros), x),
        "take": _gradient(lib, lambda a: a.take(classes), x),
        "a[mask]": _gradient(lib, lambda a: a[y > 0], x),
        "masked_fill": _gradient(lib, lambda a: a.masked_fill(y > 0, 1.0), x),
        "scatter_add": _gradient(lib, lambda a: lib.zeros_like(a).scatter_add(0, zeros, a), x),
        "cat": _gradient(lib, lambda a, b: lib.cat([a, b], 1), x, y),
        "flip": _gradient(lib, lambda a: a.flip(1), x),
        "embedding": _gradient(lib, lambda a: lib.nn.functional.embedding(classes, a), x),
        "embedding_bag": _gradient(
            lib,
            lambda a: lib.nn.functional.embedding_bag(classes, a, lib.arange(0, ROWS, 4)),
            x,
        ),
    }


def _images(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    f = lib.nn.functional
    image = d["image"]
    found = {
        f"pad {mode}": _gradient(lib, lambda a, mode=mode: f.pad(a, (1, 1, 1, 1), mode=mode), image)
        for mode in ("constant", "reflect", "replicate", "circular")
    }
    found |= {
        f"interpolate {mode}": _gradient(
            lib, lambda a, mode=mode: f.interpolate(a, scale_factor=2, mode=mode), image
        )
        for mode in ("nearest", "bilinear", "bicubic")
    }
    found |= {
        "conv2d": _gradient(lib, lambda a, w: f.conv2d(a, w, padding=1), image, d["filters"]),
        "conv_transpose2d": _gradient(
            lib, lambda a, w: f.conv_transpose2d(a, w, padding=1), image, d["filters"]
        ),
        "conv3d": _gradient(
            lib, lambda a, w: f.conv3d(a, w, padding=1), d["volume"], d["filters3"]
        ),
        "max_pool2d": _gradient(lib, lambda a: f.max_pool2d(a, 2), image),
        "avg_pool2d": _gradient(lib, lambda a: f.avg_pool2d(a, 2), image),
        "batch_norm": _gradient(lib, lambda a: f.batch_norm(a, None, None, training=True), image),
        "group_norm": _gradient(lib, lambda a: f.group_norm(a, 4), image),
        "unfold": _gradient(lib, lambda a: f.unfold(a, 3), image),
    }
    return found


def _products(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    f, linalg = lib.nn.functional, lib.linalg
    batch, rows, spd = d["batch"], d["rows"], d["spd"]
    found = {
        "linear": _gradient(lib, f.linear, d["x"], d["weights"]),
        "bmm": _gradient(lib, lib.matmul, batch, batch),
        "einsum": _gradient(lib, lambda a, b: lib.einsum("bij,bjk->bik", a, b), batch, batch),
        "addmm": _gradient(lib, lib.addmm, spd, spd, spd),
        "cdist": _gradient(lib, lib.cdist, rows, rows),
        "pdist": _gradient(lib, f.pdist, rows),
        "solve": _gradient(lib, linalg.solve, spd, spd),
        "qr": _gradient(lib, lambda a: linalg.qr(a)[0], spd),
        "slogdet": _gradient(lib, lambda a: linalg.slogdet(a)[1], spd),
        "rfft": _gradient(lib, lambda a: lib.fft.rfft(a).abs(), d["x"]),
        "gru": _gradient(lib, lambda a: lib.nn.GRU(64, 64)(a)[0], d["steps"]),
    }
    names = ("inv", "det", "cholesky", "svdvals", "eigvalsh", "pinv", "matrix_exp")
    return found | {name: _gradient(lib, getattr(linalg, name), spd) for name in names}


def cases(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the calls by name, for one library and its operands."""
    parts = (_losses, _pointwise, _gathered, _images, _products)
    return {f"{name}, gradient": call for part in parts for name, call in part(lib, d).items()}
