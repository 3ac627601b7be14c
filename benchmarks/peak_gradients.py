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


def _errors(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Losses of two tensors, by reduction; some with weights, some with gradients of both."""
    f = lib.nn.functional
    x, y, p, signs = d["x"], d["y"], d["p"], d["signs"]
    rest: dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]]] = {
        "mse_loss": (f.mse_loss, x, (y,), {}),
        "mse_loss weighted": (f.mse_loss, x, (y,), {"weight": p}),
        "l1_loss": (f.l1_loss, x, (y,), {}),
        "l1_loss weighted": (f.l1_loss, x, (y,), {"weight": p}),
        "smooth_l1_loss": (f.smooth_l1_loss, x, (y,), {}),
        "huber_loss": (f.huber_loss, x, (y,), {}),
        "huber_loss weighted": (f.huber_loss, x, (y,), {"weight": p}),
        "soft_margin": (f.soft_margin_loss, x, (signs,), {}),
        "kl_div": (f.kl_div, x, (p,), {}),
        "kl_div of logarithms": (f.kl_div, x, (y,), {"log_target": True}),
        "bce": (f.binary_cross_entropy, p, (p,), {}),
        "bce weighted": (f.binary_cross_entropy, p, (p,), {"weight": p}),
        "bce with logits": (f.binary_cross_entropy_with_logits, x, (p,), {}),
        "bce with logits, weighted": (
            f.binary_cross_entropy_with_logits,
            x,
            (p,),
            {"weight": p},
        ),
        "bce with pos_weight": (
            f.binary_cross_entropy_with_logits,
            x,
            (p,),
            {"pos_weight": p[0]},
        ),
        "bce with both weights": (
            f.binary_cross_entropy_with_logits,
            x,
            (p,),
            {"weight": p, "pos_weight": p[0]},
        ),
        "poisson_nll": (f.poisson_nll_loss, x, (p,), {}),
        "poisson_nll full": (f.poisson_nll_loss, x, (p,), {"full": True}),
        "poisson_nll of rates": (f.poisson_nll_loss, p, (p,), {"log_input": False}),
        "gaussian_nll": (f.gaussian_nll_loss, x, (y, p), {}),
        "hinge_embedding": (f.hinge_embedding_loss, x, (signs,), {}),
        "margin_ranking": (f.margin_ranking_loss, x, (y, signs), {"margin": 0.5}),
        "multilabel_soft_margin": (f.multilabel_soft_margin_loss, x, (p,), {}),
    }
    found = {}
    for name, (loss, a, others, options) in rest.items():
        for reduction in ("mean", "sum", "none"):

            def call(
                a: Any,
                loss: Any = loss,
                rest: Any = others,
                options: Any = options,
                reduction: str = reduction,
            ) -> Any:
                return loss(a, *rest, reduction=reduction, **options)

            found[f"{name} {reduction}"] = _gradient(lib, call, a)
    both = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss")
    found |= {f"{name} of both": _gradient(lib, getattr(f, name), x, p) for name in both}
    found |= {
        "bce of both": _gradient(lib, f.binary_cross_entropy, p, p.clone()),
        "bce with logits of both": _gradient(lib, f.binary_cross_entropy_with_logits, x, p),
        "gaussian_nll of all": _gradient(lib, f.gaussian_nll_loss, x, y, p),
        "margin_ranking of both": _gradient(
            lib, lambda a, b: f.margin_ranking_loss(a, b, signs, margin=0.5), x, y
        ),
    }
    return found


def _losses(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    f = lib.nn.functional
    x, y, p, classes = d["x"], d["y"], d["p"], d["classes"]
    rows = d["signs"][:, 0].contiguous()
    return {
        "kl_div batchmean": _gradient(lib, lambda a: f.kl_div(a, p, reduction="batchmean"), x),
        "multi_margin": _gradient(lib, lambda a: f.multi_margin_loss(a, classes), x),
        "multilabel_margin": _gradient(
            lib, lambda a: f.multilabel_margin_loss(a, (classes * 0).unsqueeze(1) - a.long() * 0), x
        ),
        "triplet_margin": _gradient(lib, lambda a: f.triplet_margin_loss(a, y, p), x),
        "triplet_margin swapped": _gradient(
            lib, lambda a, b: f.triplet_margin_loss(a, b, p, swap=True), x, y
        ),
        "cosine_embedding": _gradient(lib, lambda a, b: f.cosine_embedding_loss(a, b, rows), x, y),
        "nll": _gradient(lib, lambda a: f.nll_loss(a, classes), x),
        "nll of planes": _gradient(lib, lambda a: f.nll_loss(a, a[:, 0].long() * 0), d["image"]),
        "cross_entropy": _gradient(lib, lambda a: f.cross_entropy(a, classes), x),
        "cross_entropy weighted": _gradient(
            lib, lambda a: f.cross_entropy(a, classes, weight=p[0]), x
        ),
        "cross_entropy of planes": _gradient(
            lib, lambda a: f.cross_entropy(a, a[:, 0].long() * 0), d["image"]
        ),
        "cross_entropy smoothed": _gradient(
            lib, lambda a: f.cross_entropy(a, classes, label_smoothing=0.1), x
        ),
        "cross_entropy smoothed, weighted": _gradient(
            lib, lambda a: f.cross_entropy(a, classes, weight=p[0], label_smoothing=0.1), x
        ),
        "cross_entropy of probabilities": _gradient(lib, lambda a: f.cross_entropy(a, p), x),
        "cross_entropy of weighted probabilities": _gradient(
            lib, lambda a: f.cross_entropy(a, p, weight=p[0], label_smoothing=0.1), x
        ),
        "ctc": _gradient(
            lib,
            lambda a: f.ctc_loss(
                a.log_softmax(2),
                lib.ones(8, 10, dtype=lib.int64),
                lib.full((8,), 32),
                lib.full((8,), 10),
            ),
            d["steps"],
        ),
    }


ACTIVATIONS = (
    "relu elu selu gelu silu mish softplus softsign tanhshrink hardtanh hardswish hardsigmoid "
    "leaky_relu logsigmoid hardshrink softshrink glu dropout normalize gumbel_softmax relu6 celu "
    "sigmoid tanh alpha_dropout feature_alpha_dropout dropout1d softmin rrelu"
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
        "prelu of both": _gradient(lib, f.prelu, x, p[0, :1].clone()),
        "prelu of channels": _gradient(lib, f.prelu, x, p[0]),
        "prelu of planes": _gradient(lib, f.prelu, d["image"], p[0, :16]),
        "glu dim 0": _gradient(lib, lambda a: f.glu(a, 0), x),
        "glu of planes": _gradient(lib, lambda a: f.glu(a, 1), d["image"]),
        "rrelu trained": _gradient(lib, lambda a: f.rrelu(a, training=True), x),
        "gumbel_softmax hard": _gradient(lib, lambda a: f.gumbel_softmax(a, hard=True), x),
        "gumbel_softmax dim 0": _gradient(lib, lambda a: f.gumbel_softmax(a, dim=0), x),
        "gelu tanh": _gradient(lib, lambda a: f.gelu(a, approximate="tanh"), x),
        "threshold": _gradient(lib, lambda a: f.threshold(a, 0.1, 0.2), x),
        "softmax dim 0": _gradient(lib, lambda a: f.softmax(a, 0), x),
        "log_softmax": _gradient(lib, lambda a: f.log_softmax(a, 1), x),
        "log_softmax dim 0": _gradient(lib, lambda a: f.log_softmax(a, 0), x),
        "pairwise_distance": _gradient(lib, f.pairwise_distance, x, p),
        "rms_norm": _gradient(lib, lambda a: f.rms_norm(a, (COLUMNS,)), x),
        "local_response_norm": _gradient(lib, lambda a: f.local_response_norm(a, 3), d["image"]),
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
    } | _bags(lib, d)


def _bags(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """embedding_bag: of bags of four, of other sizes, and of rows."""
    f = lib.nn.functional
    x, p, classes = d["x"], d["p"], d["classes"]
    fours, uneven = lib.arange(0, ROWS, 4), lib.tensor([0, 1, 1, 50, ROWS - 3])
    found = {}
    for mode in ("sum", "mean", "max"):

        def bag(a: Any, offsets: Any, mode: str = mode, **options: Any) -> Any:
            return f.embedding_bag(classes, a, offsets, mode=mode, **options)

        found |= {
            f"embedding_bag {mode}": _gradient(lib, lambda a, bag=bag: bag(a, fours), x),
            f"embedding_bag {mode} uneven": _gradient(lib, lambda a, bag=bag: bag(a, uneven), x),
            f"embedding_bag {mode} padded": _gradient(
                lib, lambda a, bag=bag: bag(a, fours, padding_idx=3), x
            ),
        }
    return found | {
        "embedding_bag weighted": _gradient(
            lib,
            lambda a, w: f.embedding_bag(classes, a, fours, mode="sum", per_sample_weights=w),
            x,
            p[0, :ROWS],
        ),
        "embedding_bag of rows": _gradient(
            lib, lambda a: f.embedding_bag(classes.reshape(-1, 4), a), x
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
    parts = (_errors, _losses, _pointwise, _gathered, _images, _products)
    return {f"{name}, gradient": call for part in parts for name, call in part(lib, d).items()}
