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
        "rows": normal(600, 1000),
        "small": rng.integers(0, 200, size=600_000).astype(np.int32),
        "classes": rng.integers(0, SIDE, size=SIDE),
        "grid": (rng.random((4, 64, 64, 2)) * 2 - 1).astype(np.float32),
        "wide": normal(600, 500),
        "tall": normal(500, 300),
        "p": rng.random((600, 500)).astype(np.float32),
        "index": rng.integers(0, 500, (600, 500)),
        "set": rng.random((600, 500)) > 0.5,
        "row": normal(500),
        "signal": normal(64, 45, 63),
        "pencil": normal(8, 48, 48),
    }


def _gradient(lib: Any, function: Callable[..., Any], *operands: Any) -> Callable[[], object]:
    leaves = [x.clone().requires_grad_() for x in operands]

    def call() -> object:
        return lib.autograd.grad(function(*leaves).sum(), leaves)

    return call


def _lstm(lib: Any, d: dict[str, Any]) -> Callable[[], object]:
    layer = lib.nn.LSTM(128, 128)
    return lambda: layer(d["steps"])


def _indexing(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    x, k, rows, mask = d["wide"], d["index"], d["index"][:, 0], d["set"]
    halves = x[:300], k[:300]

    def changed(change: Callable[[Any], object]) -> Callable[[], object]:
        # In place, of a tensor with the operand's strides.
        own = lib.empty_like(x).copy_(x)
        return lambda: change(own)

    return {
        "index_select dim 0": lambda: x.index_select(0, rows),
        "index_select dim 1": lambda: x.index_select(1, rows),
        "gather dim 0": lambda: x.gather(0, k),
        "gather dim 1": lambda: x.gather(1, k),
        "take_along_dim 1": lambda: lib.take_along_dim(x, k, 1),
        "take": lambda: x.take(k),
        "a[rows, rows]": lambda: x[rows, rows],
        "a[k]": lambda: x[k[:8]],
        "a[:, k]": lambda: x[:, rows],
        "a[mask rows]": lambda: x[mask[:, 0]],
        "masked_select": lambda: x.masked_select(mask),
        "masked_select of a row": lambda: x.masked_select(mask[0]),
        "masked_scatter": lambda: x.masked_scatter(mask, d["p"]),
        "masked_fill": lambda: x.masked_fill(mask, 1.0),
        "argwhere": lambda: lib.argwhere(mask),
        "nonzero": lambda: lib.nonzero(x),
        "where": lambda: lib.where(mask),
        "count_nonzero": lambda: lib.count_nonzero(x, 1),
        "masked_fill_": changed(lambda a: a.masked_fill_(mask, 1.0)),
        "masked_scatter_": changed(lambda a: a.masked_scatter_(mask, d["p"])),
        "a[mask] =": changed(lambda a: a.__setitem__(mask, 1.0)),
        "a[rows] =": changed(lambda a: a.__setitem__(rows, 1.0)),
        "put_": changed(lambda a: a.put_(k, d["p"])),
        "put_ accumulate": changed(lambda a: a.put_(k, d["p"], accumulate=True)),
        "index_put_ accumulate": changed(
            lambda a: a.index_put_((rows, rows), d["p"][:, 0], accumulate=True)
        ),
        "scatter 0": lambda: x.scatter(0, k, d["p"]),
        "scatter value": lambda: x.scatter(1, k, 1.0),
        "scatter_add 1": lambda: x.scatter_add(1, k, d["p"]),
        "scatter_reduce 1": lambda: x.scatter_reduce(1, k, d["p"], "mean"),
        "scatter_": changed(lambda a: a.scatter_(1, k, d["p"])),
        "scatter_add_": changed(lambda a: a.scatter_add_(0, k, d["p"])),
        "index_add dim 1": lambda: x.index_add(1, k[0], d["p"]),
        "index_add_": changed(lambda a: a.index_add_(0, rows, d["p"])),
        "index_copy": lambda: x.index_copy(0, k[:300, 0], halves[0]),
        "index_copy_": changed(lambda a: a.index_copy_(0, k[:300, 0], halves[0])),
        "index_fill": lambda: x.index_fill(0, rows, 2.0),
        "index_fill_": changed(lambda a: a.index_fill_(1, rows, 2.0)),
        "index_reduce_": changed(lambda a: a.index_reduce_(0, rows, d["p"], "amax")),
        "bincount": lambda: lib.bincount(k.reshape(-1)),
        "bincount of a column": lambda: lib.bincount(
            k.view(-1)[::2] if k.is_contiguous() else k.t().view(-1)[::2]
        ),
        "bincount weights": lambda: lib.bincount(k[:, 0], weights=x[:, 0]),
        "one_hot": lambda: lib.nn.functional.one_hot(rows),
        "tril": lambda: lib.tril(x),
        "diag_embed": lambda: lib.diag_embed(x[:40]),
    }


IN_PLACE = {
    "normal_": (),
    "uniform_": (),
    "random_": (),
    "geometric_": (0.3,),
    "log_normal_": (),
    "cauchy_": (),
    "exponential_": (),
    "bernoulli_": (0.3,),
}


def _random(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    f = lib.nn.functional
    x, p = d["wide"], d["p"]
    own = lib.empty_like(x)
    found = {
        name: lambda name=name, given=given: getattr(own, name)(*given)
        for name, given in IN_PLACE.items()
    }
    few = p[:40]
    return found | {
        "bernoulli": lambda: lib.bernoulli(p),
        "bernoulli_ of a tensor": lambda: own.bernoulli_(p),
        "bernoulli_ of a row": lambda: own.bernoulli_(p[0]),
        "rand_like": lambda: lib.rand_like(x),
        "randn_like": lambda: lib.randn_like(x),
        "randint_like": lambda: lib.randint_like(x, 10),
        "normal of tensors": lambda: lib.normal(x, p),
        "normal of means": lambda: lib.normal(x, 1.0),
        "poisson": lambda: lib.poisson(p),
        "binomial": lambda: lib.binomial(p * 8 + 1, p),
        "multinomial": lambda: lib.multinomial(p, 4),
        "multinomial all": lambda: lib.multinomial(p, 400, True),
        "multinomial few": lambda: lib.multinomial(p, 4, True),
        "gamma": lambda: lib._standard_gamma(few),
        "dirichlet": lambda: lib._sample_dirichlet(few),
        "dropout": lambda: f.dropout(x),
        "native_dropout": lambda: lib.native_dropout(x, 0.5, True),
        "feature_dropout": lambda: lib.feature_dropout(x, 0.5, True),
        "alpha_dropout": lambda: lib.alpha_dropout(x, 0.5, True),
        "randperm": lambda: lib.randperm(300000),
        "randperm int32": lambda: lib.randperm(300000, dtype=lib.int32),
    }


def _reductions(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    x, cube = d["wide"], d["signal"]
    found = {}
    names = "sum mean amax amin nansum var std all any aminmax argmax prod logsumexp".split()
    for name in names:
        call = getattr(lib, name)
        found[f"{name} of all"] = lambda call=call: call(x)
        for dim in (0, 1):
            found[f"{name} dim {dim}"] = lambda call=call, dim=dim: call(x, dim=dim)
    found["logsumexp of all"] = lambda: lib.logsumexp(x, (0, 1))
    for name in "sum mean amax nansum var std logsumexp any".split():
        call = getattr(lib, name)
        found[f"{name} dims 0 2"] = lambda call=call: call(cube, (0, 2), keepdim=True)
    for name in "cumsum cumprod cummax cummin logcumsumexp".split():
        call = getattr(lib, name)
        for dim in (0, 1):
            found[f"{name} {dim}"] = lambda call=call, dim=dim: call(x, dim)
            if name[:6] != "cummax" and name != "cummin":
                found[f"{name} {dim}, gradient"] = _gradient(
                    lib, lambda a, call=call, dim=dim: call(a, dim), x
                )
    for order in (0, 1, 2, 3, float("inf")):
        found |= {
            f"norm {order} of all": lambda order=order: lib.linalg.vector_norm(x, order),
            f"norm {order} dim 0": lambda order=order: lib.linalg.vector_norm(x, order, 0),
            f"norm {order} dims": lambda order=order: lib.linalg.vector_norm(cube, order, (0, 2)),
        }
    for order in ("fro", "nuc", 1, 2, float("inf")):
        found[f"matrix_norm {order}"] = lambda order=order: lib.linalg.matrix_norm(
            d["pencil"], order
        )
    return found | {
        "var_mean": lambda: lib.var_mean(x, 0),
        "std of float": lambda: x.std(),
        "renorm": lambda: lib.renorm(x, 2, 0, 1.0),
        "dist": lambda: lib.dist(x, d["p"]),
        "corrcoef": lambda: lib.corrcoef(x[:100]),
        "diff": lambda: lib.diff(x, dim=0),
        "trapezoid": lambda: lib.trapezoid(x),
        "trace": lambda: lib.trace(x),
        "nanmean": lambda: lib.nanmean(x, 1),
        "sum to float64": lambda: x.sum(1, dtype=lib.float64),
        "allclose": lambda: lib.allclose(x, x),
        "equal": lambda: lib.equal(x, x),
        "renorm, gradient": _gradient(lib, lambda a: lib.renorm(a, 2, 0, 1.0), x),
        "prod, gradient": _gradient(lib, lambda a: a.prod(1), x),
        "std, gradient": _gradient(lib, lambda a: a.std((0, 2)), cube),
        "norm 3, gradient": _gradient(lib, lambda a: lib.linalg.vector_norm(a, 3, 1), x),
        "amax, gradient": _gradient(lib, lambda a: a.amax(1), x),
    }


def _products(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    f = lib.nn.functional
    m, n, cube, x, row = d["m"], d["n"], d["cube"], d["wide"], d["row"]
    spread = m.expand(16, SIDE, SIDE)
    found: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "mm": (lib.mm, (m, n)),
        "mm sliced": (lib.mm, (m[:, ::2], n[::2])),
        "mm transposed": (lib.mm, (m.t(), n.t())),
        "mm expanded": (lib.mm, (m[:1].expand(SIDE, SIDE), n)),
        "mm of columns": (lib.mm, (x[:, 3:259], m)),
        "mv": (lib.mv, (x, row)),
        "mv transposed": (lib.mv, (x.t(), x[:, 0])),
        "mv sliced": (lib.mv, (x[:, ::2], row[::2])),
        "dot": (lib.dot, (row, row)),
        "outer": (lib.outer, (row, row)),
        "addmm": (lib.addmm, (m, n, m)),
        "addmm of a row": (lib.addmm, (m[0], n, m)),
        "addmv": (lib.addmv, (x[:, 0], x, row)),
        "addr": (lib.addr, (m, m[0], n[0])),
        "bmm": (lib.bmm, (cube, cube)),
        "bmm transposed": (lib.bmm, (cube, cube.transpose(1, 2))),
        "bmm sliced": (lib.bmm, (cube[:, :, ::2], cube[:, ::2])),
        "bmm expanded": (lib.bmm, (spread, spread)),
        "baddbmm": (lib.baddbmm, (cube, cube, cube)),
        "baddbmm of a row": (lib.baddbmm, (cube[0, 0], cube, cube)),
        "addbmm": (lib.addbmm, (cube[0], cube, cube)),
        "matmul of one": (lib.matmul, (cube, cube[0])),
        "matmul of one left": (lib.matmul, (cube[0], cube)),
        "matmul of batches": (lib.matmul, (cube.unsqueeze(1), cube[:4])),
        "matmul of a vector": (lib.matmul, (cube, cube[0, 0])),
        "vector matmul": (lib.matmul, (cube[0, 0], cube)),
        "matmul permuted": (lib.matmul, (cube.permute(1, 0, 2), cube[0])),
        "linear": (f.linear, (cube, cube[0], cube[0, 0])),
        "linear plain": (f.linear, (cube, cube[0])),
        "bilinear": (f.bilinear, (m[:, :32], n[:, :16], cube[:16, :32, :16])),
        "einsum": (lambda a, b: lib.einsum("bij,bjk->bik", a, b), (cube, cube)),
        "einsum outer": (lambda a, b: lib.einsum("i,j->ij", a, b), (row, row)),
        "einsum trace": (lambda a, b: lib.einsum("ij,ij->", a, b), (m, n)),
        "einsum hadamard": (lambda a, b: lib.einsum("ij,ij->ij", a, b), (m, n)),
        "einsum permuted": (lambda a, b: lib.einsum("bij,bkj->ibk", a, b), (cube, cube)),
        "einsum sums": (lambda a, b: lib.einsum("bij,kj->bk", a, b), (cube, cube[0])),
        "tensordot 2": (lambda a, b: lib.tensordot(a, b, 2), (cube, cube.reshape(64, 64, 32))),
        "tensordot dims": (lambda a, b: lib.tensordot(a, b, ([0], [0])), (m, n)),
        "inner": (lib.inner, (m, n)),
        "kron": (lib.kron, (m[:16, :32], n[:32, :16])),
        "chain_matmul": (lambda a, b: lib.linalg.multi_dot([a, b, a]), (m, n)),
        "vecdot": (lib.linalg.vecdot, (x, x)),
        "cdist": (lib.cdist, (m, n)),
        "cdist 1": (lambda a, b: lib.cdist(a, b, 1), (m, n)),
        "cross": (lambda a, b: lib.linalg.cross(a, b), (x[:, :3], x[:, 3:6])),
        "pdist": (f.pdist, (m,)),
        "matrix_power": (lambda a: lib.linalg.matrix_power(a, 5), (m,)),
    }
    calls = {}
    for name, (function, given) in found.items():
        calls[name] = lambda function=function, given=given: function(*given)
        calls[f"{name}, gradient"] = _gradient_as_is(lib, function, *given)
    return calls


def _gradient_as_is(lib: Any, function: Callable[..., Any], *operands: Any) -> Callable[[], object]:
    # Of leaves that lie as the operands do.
    def call() -> object:
        leaves = [x.detach().requires_grad_() for x in operands]
        result = function(*leaves)
        return lib.autograd.grad(result, leaves, lib.ones_like(result))

    return call


def _decompositions(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    linalg = lib.linalg
    m, tall, batch = d["m"], d["tall"], d["pencil"]
    if m.dtype in (lib.float16, lib.bfloat16):
        return {}
    spd = m @ m.mT / SIDE + lib.eye(SIDE, dtype=m.dtype)
    spds = batch @ batch.mT / 48 + lib.eye(48, dtype=m.dtype)
    both = {"": (m, spd, d["n"]), " of a batch": (batch, spds, batch)}
    found: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
    for kind, (a, s, b) in both.items():
        found |= {
            f"det{kind}": (linalg.det, (a,)),
            f"slogdet{kind}": (lambda a: linalg.slogdet(a)[1], (a,)),
            f"inv{kind}": (linalg.inv, (a,)),
            f"solve{kind}": (linalg.solve, (a, b)),
            f"solve left{kind}": (lambda a, b: linalg.solve(a, b, left=False), (a, b)),
            f"solve_triangular{kind}": (
                lambda a, b: linalg.solve_triangular(a, b, upper=True),
                (s, b),
            ),
            f"cholesky{kind}": (linalg.cholesky, (s,)),
            f"cholesky_solve{kind}": (lib.cholesky_solve, (b, s)),
            f"cholesky_inverse{kind}": (lib.cholesky_inverse, (s,)),
            f"lu{kind}": (lambda a: linalg.lu(a)[1], (a,)),
            f"lu_factor{kind}": (lambda a: linalg.lu_factor(a)[0], (a,)),
            f"qr{kind}": (lambda a: linalg.qr(a)[0], (a,)),
            f"eigh{kind}": (lambda a: linalg.eigh(a)[1], (s,)),
            f"eigvalsh{kind}": (linalg.eigvalsh, (s,)),
            f"svdvals{kind}": (linalg.svdvals, (a,)),
            f"svd{kind}": (lambda a: linalg.svd(a)[1], (a,)),
            f"pinv{kind}": (linalg.pinv, (a,)),
            f"matrix_exp{kind}": (linalg.matrix_exp, (a,)),
            f"lstsq{kind}": (lambda a, b: linalg.lstsq(a, b)[0], (a, b)),
        }
    found |= {
        "qr of a tall one": (lambda a: linalg.qr(a)[0], (tall,)),
        "lstsq of a tall one": (lambda a, b: linalg.lstsq(a, b)[0], (tall, tall[:, :20])),
        "svdvals of a tall one": (linalg.svdvals, (tall,)),
        "pinv of a tall one": (linalg.pinv, (tall,)),
    }
    calls = {}
    for name, (function, given) in found.items():
        calls[name] = lambda function=function, given=given: function(*given)
        calls[f"{name}, gradient"] = _gradient_as_is(lib, function, *given)
    eigen = {"eig": linalg.eig, "eigvals": linalg.eigvals}
    more = {
        "ldl_factor": lambda: linalg.ldl_factor(spd),
        "geqrf": lambda: lib.geqrf(m),
        "householder_product": lambda: linalg.householder_product(m, m[0]),
        "ormqr": lambda: lib.ormqr(m, m[0], d["n"]),
        "triangular_solve": lambda: lib.triangular_solve(d["n"], spd),
        "tensorinv": lambda: linalg.tensorinv(spd.reshape(16, 16, SIDE), 2),
        "vander": lambda: linalg.vander(d["row"], N=100),
        "lu_solve": lambda: linalg.lu_solve(*linalg.lu_factor(spd), d["n"]),
        "inv_ex": lambda: linalg.inv_ex(m),
        "cholesky_ex": lambda: linalg.cholesky_ex(spd),
    }
    return (
        calls
        | more
        | {
            name + kind: lambda call=call, a=a: call(a)
            for name, call in eigen.items()
            for kind, (a, _, _) in both.items()
        }
    )


def _fourier(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    x, cube = d["wide"], d["signal"]
    fft = lib.fft
    if x.dtype in (lib.float16, lib.bfloat16):
        return {}
    z, cubes = lib.complex(x, d["p"]), lib.complex(cube, cube)
    if not x.is_contiguous():
        z, cubes = (a.transpose(-1, -2).contiguous().transpose(-1, -2) for a in (z, cubes))
    names = {
        x: ("fft", "ifft", "rfft", "ihfft"), z: ("fft", "ifft", "irfft", "hfft"),
        cube: ("fft2", "fftn", "rfft2", "rfftn"), cubes: ("fft2", "ifftn", "irfft2", "irfftn"),
    }  # fmt: skip
    calls = {}
    for given, those in names.items():
        kind = " complex" if given.is_complex() else ""
        for name in those:
            call = getattr(fft, name)
            calls[name + kind] = lambda call=call, given=given: call(given)
            calls[f"{name}{kind}, gradient"] = _gradient_as_is(lib, call, given)
            if name[-1] == "t":
                calls[f"{name} dim 0{kind}"] = lambda call=call, given=given: call(given, dim=0)
                calls[f"{name} padded{kind}"] = lambda call=call, given=given: call(given, n=600)
    window = lib.hann_window(64, dtype=x.dtype)
    return calls | {
        "fftn of two": lambda: fft.fftn(cube, dim=(0, 1)),
        "rfftn of two": lambda: fft.rfftn(cube, dim=(0, 1)),
        "fftshift": lambda: fft.fftshift(x),
        "stft": lambda: lib.stft(x, 64, window=window, return_complex=True),
        "istft": lambda: lib.istft(
            lib.stft(x, 64, window=window, return_complex=True), 64, window=window
        ),
    }


def _orders(lib: Any, x: Any, small: Any) -> dict[str, Callable[[], object]]:
    """Return sorts, order statistics and counts of many elements."""
    edges = lib.arange(-2.0, 2.0, 0.1).to(x.dtype)
    return {
        "sort rows": lambda: lib.sort(x, 1),
        "sort columns": lambda: lib.sort(x, 0),
        "argsort stable": lambda: lib.argsort(x, dim=0, stable=True),
        "kthvalue rows": lambda: lib.kthvalue(x, 100, 1),
        "kthvalue columns": lambda: lib.kthvalue(x, 100, 0),
        "median": lambda: lib.median(x),
        "nanmedian columns": lambda: lib.nanmedian(x, 0),
        "mode rows": lambda: lib.mode(x, 1),
        "mode columns": lambda: lib.mode(x, 0),
        "cummax columns": lambda: lib.cummax(x, 0),
        "cummin rows": lambda: lib.cummin(x, 1),
        "quantile columns": lambda: lib.quantile(x, 0.3, 0),
        "nanquantile rows": lambda: lib.nanquantile(x, 0.3, 1, interpolation="nearest"),
        "unique numbers": lambda: lib.unique(x, return_inverse=True, return_counts=True),
        "unique of few": lambda: lib.unique(small, return_inverse=True, return_counts=True),
        "unique rows": lambda: lib.unique(x, dim=0),
        "unique_consecutive": lambda: lib.unique_consecutive(x),
        "searchsorted": lambda: lib.searchsorted(edges, x),
        "searchsorted of doubles": lambda: lib.searchsorted(edges.double(), x),
        "bucketize int32": lambda: lib.bucketize(x, edges, out_int32=True),
        "isin": lambda: lib.isin(x, edges),
        "histogram": lambda: lib.histogram(x, 100),
        "histogram weights": lambda: lib.histogram(x, edges, weight=x),
        "histogramdd": lambda: lib.histogramdd(x.reshape(-1, 2), [20, 20]),
        "bincount int32": lambda: lib.bincount(small),
        "bincount sums": lambda: lib.bincount(small, small.float()),
    }


def cases(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the calls by name, for one library and its operands."""
    parts = (_some, _indexing, _random, _reductions, _products, _decompositions, _fourier)
    return {name: call for part in parts for name, call in part(lib, d).items()}


def _some(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
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
        **_orders(lib, d["rows"], d["small"]),
        "stft": lambda: lib.stft(m, 64, window=lib.hann_window(64), return_complex=True),
    }
