"""Cases for bench_peak that bench_ops has not: operators that work in memory of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SIDE = 256


def arrays() -> dict[str, Any]:
    """Return the operands as NumPy arrays."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    return {
        "m": normal(SIDE, SIDE),
        "n": normal(SIDE, SIDE),
        "cube": normal(32, 64, 64),
        "image": normal(4, 16, 64, 64),
        "volume": normal(2, 4, 16, 16, 16),
        "query": normal(2, 8, 256, 32),
        "steps": normal(64, 16, 128),
        "k": rng.integers(0, SIDE, size=(SIDE, SIDE)),
        "classes": rng.integers(0, SIDE, size=SIDE),
        "grid": (rng.random((4, 64, 64, 2)) * 2 - 1).astype(np.float32),
    }


def _gradient(lib: Any, function: Callable[..., Any], *operands: Any) -> Callable[[], object]:
    leaves = [x.clone().requires_grad_() for x in operands]

    def call() -> object:
        return lib.autograd.grad(function(*leaves).sum(), leaves)

    return call


def _lstm(lib: Any, d: dict[str, Any]) -> Callable[[], object]:
    layer = lib.nn.LSTM(128, 128)
    return lambda: layer(d["steps"])


def cases(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the calls by name, for one library and its operands."""
    f = lib.nn.functional
    image, m, n, k = d["image"], d["m"], d["n"], d["k"]
    return {
        "sort dim 0": lambda: lib.sort(m, 0),
        "argsort": lambda: lib.argsort(m, 1),
        "topk": lambda: lib.topk(m, 8, 0),
        "kthvalue": lambda: lib.kthvalue(m, 8, 0),
        "median dim": lambda: lib.median(m, 0),
        "mode": lambda: lib.mode(k, 0),
        "quantile": lambda: lib.quantile(m, 0.3, 0),
        "unique": lambda: lib.unique(k, return_inverse=True),
        "unique dim": lambda: lib.unique(k, dim=0),
        "msort": lambda: lib.msort(m),
        "scatter_add": lambda: lib.scatter_add(m, 0, k, n),
        "scatter_reduce": lambda: lib.scatter_reduce(m, 0, k, n, "amax"),
        "index_add": lambda: lib.index_add(m, 0, d["classes"], n),
        "index_put": lambda: m.index_put((d["classes"],), n, accumulate=True),
        "take_along_dim": lambda: lib.take_along_dim(m, k, 0),
        "cumsum dim 0": lambda: lib.cumsum(m, 0),
        "logcumsumexp": lambda: lib.logcumsumexp(m, 1),
        "cross_entropy": lambda: f.cross_entropy(m, d["classes"]),
        "cross_entropy backward": _gradient(lib, lambda x: f.cross_entropy(x, d["classes"]), m),
        "smooth_l1": lambda: f.smooth_l1_loss(m, n),
        "kl_div": lambda: f.kl_div(m, n, reduction="batchmean"),
        "cosine_similarity": lambda: f.cosine_similarity(m, n),
        "pairwise_distance": lambda: f.pairwise_distance(m, n),
        "cdist": lambda: lib.cdist(m, n),
        "cdist backward": _gradient(lib, lib.cdist, m, n),
        "layer_norm backward": _gradient(lib, lambda x: f.layer_norm(x, (SIDE,)), m),
        "batch_norm": lambda: f.batch_norm(image, None, None, training=True),
        "group_norm": lambda: f.group_norm(image, 4),
        "instance_norm": lambda: f.instance_norm(image),
        "local_response_norm": lambda: f.local_response_norm(image, 3),
        "max_pool3d": lambda: f.max_pool3d(d["volume"], 2),
        "adaptive_avg_pool": lambda: f.adaptive_avg_pool2d(image, 5),
        "avg_pool backward": _gradient(lib, lambda x: f.avg_pool2d(x, 2), image),
        "lp_pool": lambda: f.lp_pool2d(image, 2, 2),
        "unfold": lambda: f.unfold(image, 3, padding=1),
        "interpolate bilinear": lambda: f.interpolate(image, scale_factor=2, mode="bilinear"),
        "interpolate bicubic": lambda: f.interpolate(image, scale_factor=2, mode="bicubic"),
        "grid_sample": lambda: f.grid_sample(image, d["grid"], align_corners=False),
        "lstm": _lstm(lib, d),
        "attention": lambda: f.scaled_dot_product_attention(d["query"], d["query"], d["query"]),
        "attention backward": _gradient(
            lib, f.scaled_dot_product_attention, d["query"], d["query"], d["query"]
        ),
        "einsum": lambda: lib.einsum("bij,bkj->bik", d["cube"], d["cube"]),
        "einsum of three": lambda: lib.einsum("ij,jk,kl->il", m, n, m),
        "tensordot": lambda: lib.tensordot(m, n, 1),
        "kron": lambda: lib.kron(m[:16, :16], n[:16, :16]),
        "cross": lambda: lib.linalg.cross(m[:, :3], n[:, :3]),
        "matrix_rank": lambda: lib.linalg.matrix_rank(m),
        "cond": lambda: lib.linalg.cond(m),
        "matrix_norm": lambda: lib.linalg.matrix_norm(m, 2),
        "softmax backward": _gradient(lib, lambda x: lib.softmax(x, 0), m),
        "cov": lambda: lib.cov(m),
        "histc": lambda: lib.histc(m, 100),
        "bucketize": lambda: lib.bucketize(m, lib.arange(10.0)),
        "repeat_interleave": lambda: m.repeat_interleave(2, 0),
        "roll": lambda: lib.roll(m, 3, 0),
        "stft": lambda: lib.stft(m, 64, window=lib.hann_window(64), return_complex=True),
    }
