"""Cases for bench_dtypes: one call an operator, on operands of any dtype.

A case takes the library and its operands (see ``operands``) and returns the call to measure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], object]
Operands = dict[str, Any]
Case = Callable[[Any, Operands], Call]

DTYPES = (
    "float32 float64 float16 bfloat16 int64 int32 int16 uint8 bool complex64 complex128"
).split()

_ELEMENTWISE = (
    "abs acos acosh angle asin asinh atan atanh bitwise_not ceil conj_physical cos cosh deg2rad"
    " digamma erf erfc erfinv exp exp2 expm1 floor frac i0 isfinite isinf isnan isneginf isposinf"
    " isreal lgamma log log10 log1p log2 logical_not logit nan_to_num neg positive rad2deg"
    " reciprocal round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc relu"
    " clone"
)
_SPECIAL = (
    "entr erfcx i0e i1 i1e ndtri ndtr log_ndtr bessel_j0 bessel_j1 bessel_y0 bessel_y1"
    " modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1"
    " scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 airy_ai"
)
_OF_ALL = (
    "sum mean prod amax amin argmax argmin any all var std median mode norm unique sort argsort"
    " msort nonzero count_nonzero diff trapz histc bincount nansum nanmean aminmax nanmedian"
)
_ALONG_DIM = "cumsum cumprod logcumsumexp cummax softmax log_softmax logsumexp"
_CASTS = "float double half bfloat16 int long bool cfloat byte short"
_ACTIVATIONS = (
    "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6"
    " selu silu softplus softshrink softsign tanhshrink"
)
_BINARY = (
    "add sub mul div floor_divide remainder fmod pow atan2 copysign hypot nextafter fmax fmin"
    " maximum minimum gcd lcm logaddexp logaddexp2 logical_and logical_or logical_xor bitwise_and"
    " bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift eq ne lt le gt ge isclose"
    " heaviside ldexp xlogy float_power dot vdot inner kron special.xlog1py special.zeta"
    " special.gammainc special.gammaincc polar complex"
)
_LOSSES = "mse_loss l1_loss smooth_l1_loss binary_cross_entropy huber_loss"

#: On lines a and b, matrices s and t, indices i (into a) and k (into s), a permutation p, a mask m.
OTHERS: dict[str, Case] = {
    "where": lambda lib, d: lambda: lib.where(d["m"], d["a"], d["b"]),
    "lerp": lambda lib, d: lambda: lib.lerp(d["a"], d["b"], 0.3),
    "addcmul": lambda lib, d: lambda: lib.addcmul(d["a"], d["a"], d["b"]),
    "addcdiv": lambda lib, d: lambda: lib.addcdiv(d["a"], d["a"], d["b"]),
    "clamp": lambda lib, d: lambda: lib.clamp(d["a"], 0, 1),
    "masked_fill": lambda lib, d: lambda: lib.masked_fill(d["a"], d["m"], 0),
    "take": lambda lib, d: lambda: lib.take(d["a"], d["i"]),
    "gather": lambda lib, d: lambda: lib.gather(d["s"], 1, d["k"]),
    "scatter_add": lambda lib, d: lambda: lib.scatter_add(d["s"], 1, d["k"], d["t"]),
    "index_add": lambda lib, d: lambda: lib.index_add(d["a"], 0, d["i"], d["b"]),
    "index_copy": lambda lib, d: lambda: lib.index_copy(d["a"], 0, d["p"], d["b"]),
    "cdist": lambda lib, d: lambda: lib.cdist(d["s"], d["t"]),
    "searchsorted": lambda lib, d: lambda: lib.searchsorted(d["sorted"], d["b"]),
    "isin": lambda lib, d: lambda: lib.isin(d["a"], d["b"][:100]),
    "a + row": lambda lib, d: lambda: d["s"] + d["s"][0],
    "a * row": lambda lib, d: lambda: d["s"] * d["s"][0],
    "a + column": lambda lib, d: lambda: d["s"] + d["s"][:, :1],
    "topk": lambda lib, d: lambda: d["s"].topk(5),
    "kthvalue dim 1": lambda lib, d: lambda: d["s"].kthvalue(3, 1),
    "transposed copy": lambda lib, d: lambda: d["s"].t().contiguous(),
    "cat": lambda lib, d: lambda: lib.cat([d["s"], d["t"]], 1),
    "stack": lambda lib, d: lambda: lib.stack([d["s"], d["t"]], 2),
    "repeat": lambda lib, d: lambda: d["s"].repeat(2, 2),
    "roll": lambda lib, d: lambda: d["s"].roll(3, 1),
    "flip": lambda lib, d: lambda: d["a"].flip(0),
    "unfold": lambda lib, d: lambda: d["s"].unfold(1, 5, 1).contiguous(),
    "pad": lambda lib, d: lambda: lib.nn.functional.pad(d["s"], (1, 2, 3, 4)),
    "diag": lambda lib, d: lambda: lib.diag(d["s"]),
    "tril": lambda lib, d: lambda: lib.tril(d["s"]),
    "triu": lambda lib, d: lambda: lib.triu(d["s"]),
    "mm": lambda lib, d: lambda: d["s"] @ d["t"],
    "bmm": lambda lib, d: lambda: d["s"].reshape(4, -1, d["s"].shape[1]) @ d["t"],
    "mv": lambda lib, d: lambda: d["s"] @ d["t"][0],
    "a + 2": lambda lib, d: lambda: d["a"] + 2,
    "a * 2": lambda lib, d: lambda: d["a"] * 2,
    "1 - a": lambda lib, d: lambda: 1 - d["a"],
    "3 / a": lambda lib, d: lambda: 3 / d["a"],
    "a < 1": lambda lib, d: lambda: d["a"] < 1,
    "a ** 2.5": lambda lib, d: lambda: d["a"] ** 2.5,
    "a ** -1": lambda lib, d: lambda: d["a"] ** -1,
    "2 ** a": lambda lib, d: lambda: 2 ** d["a"],
    "normalize": lambda lib, d: lambda: lib.nn.functional.normalize(d["s"]),
    "cross_entropy": lambda lib, d: lambda: lib.nn.functional.cross_entropy(d["s"], d["classes"]),
    "nll_loss": lambda lib, d: lambda: lib.nn.functional.nll_loss(d["s"], d["classes"]),
    "kl_div": lambda lib, d: lambda: lib.nn.functional.kl_div(d["a"], d["b"], reduction="sum"),
}

_BY_DIM = "sum mean max argmax var cumsum sort prod any logsumexp softmax mode median norm".split()


def _find(lib: Any, path: str) -> Callable[..., object]:
    found = lib
    for part in path.split("."):
        found = getattr(found, part)
    result: Callable[..., object] = found
    return result


def _function(path: str, names: tuple[str, ...], *more: Any) -> Case:
    def make(lib: Any, d: Operands) -> Call:
        function, arguments = _find(lib, path), [d[name] for name in names]
        return lambda: function(*arguments, *more)

    return make


def _method(name: str, operand: str, *more: Any, **named: Any) -> Case:
    return lambda lib, d: lambda: getattr(d[operand], name)(*more, **named)


def cases() -> dict[str, Case]:
    """Return every case by its name."""
    found: dict[str, Case] = {}
    for name in f"{_ELEMENTWISE} {_OF_ALL}".split():
        found[name] = _function(name, ("a",))
    for name in _SPECIAL.split():
        found[f"special.{name}"] = _function(f"special.{name}", ("a",))
    for name in _ALONG_DIM.split():
        found[name] = _function(name, ("a",), 0)
    for name in _CASTS.split():
        found[f".{name}()"] = _method(name, "a")
    for name in _ACTIVATIONS.split():
        found[f"F.{name}"] = _function(f"nn.functional.{name}", ("a",))
    for name in _BINARY.split():
        found[name] = _function(name, ("a", "b"))
    for name in _LOSSES.split():
        found[f"F.{name}"] = _function(f"nn.functional.{name}", ("a", "b"))
    for name in _BY_DIM:
        for dim in (0, 1):
            found[f"{name} dim {dim}"] = _method(name, "s", dim=dim)
    return {**found, **OTHERS}


def _values(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    """Numbers in (0.1, 0.9), as integers from 11 to 90, for every library the same."""
    x = np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(np.float32)
    if dtype == "bool":
        return x > 0.5
    if dtype in ("int64", "int32", "int16", "uint8"):
        return (x * 100 + 1).astype(dtype)
    if dtype.startswith("complex"):
        return (x + 1j * x[::-1]).astype(dtype)
    return x if dtype == "bfloat16" else x.astype(dtype)


def operands(lib: Any, dtype: str, n: int) -> Operands:
    """Return lines of *n* elements and square matrices of about as many, of one dtype."""
    side = int(n**0.5) // 4 * 4
    rng = np.random.default_rng(0)

    def tensor(values: Any) -> Any:
        return lib.from_numpy(values)

    made = {
        "a": tensor(_values(dtype, (n,), 1)),
        "b": tensor(_values(dtype, (n,), 2)),
        "s": tensor(_values(dtype, (side, side), 3)),
        "t": tensor(_values(dtype, (side, side), 4)),
    }
    if dtype == "bfloat16":
        made = {name: t.to(lib.bfloat16) for name, t in made.items()}
    made["i"] = tensor(rng.integers(0, n, n))
    made["p"] = tensor(rng.permutation(n))
    made["k"] = tensor(rng.integers(0, side, (side, side)))
    made["classes"] = tensor(rng.integers(0, side, side))
    made["m"] = tensor(rng.random(n) < 0.5)
    made["sorted"] = made["a"] if dtype.startswith("complex") else lib.sort(made["a"])[0]
    return made
