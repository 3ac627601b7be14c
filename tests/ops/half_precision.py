"""Checks operators of 16-bit floats at the level of this process; prints what differs as JSON.

test_half_precision.py runs it in a process for each level. A result must be that of float32,
rounded once: the same bits for every memory layout.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np

import shmtensor as st
from shmtensor import Tensor
from shmtensor.nn import functional

HALVES = (st.float16, st.bfloat16)
#: More than two blocks of 256, and not a whole number of them.
LENGTH = 700

UNARY = (
    "abs acos acosh angle asin atan ceil cos cosh deg2rad digamma erfc erfinv exp exp2 expm1 "
    "floor frac i0 isfinite isinf isnan isneginf lgamma log log10 log1p log2 logical_not neg "
    "reciprocal round rsqrt sgn sign signbit sin sinc sinh sqrt square tan tanh trunc"
).split()
BINARY = (
    "add sub mul div atan2 copysign eq ne lt le gt ge floor_divide fmax fmin maximum minimum "
    "fmod remainder heaviside hypot logaddexp logaddexp2 logical_and logical_xor pow xlogy"
).split()
ACTIVATIONS = (
    "relu silu mish hardsigmoid hardswish hardtanh softplus elu leaky_relu logsigmoid "
    "softshrink hardshrink"
).split()
REDUCTIONS = ("sum prod amax amin argmax argmin any all count_nonzero nansum mean var").split()

Call = Callable[..., Tensor]


def _bits(t: Tensor) -> np.ndarray:
    """Elements as integers, every NaN the same."""
    if t.dtype not in HALVES:
        return np.asarray(t.contiguous().numpy())
    bits = t.contiguous().view(st.int16).numpy().view(np.uint16).copy()
    bits[st.isnan(t).contiguous().numpy()] = 0xFFFF
    return np.asarray(bits)


def _as_float(call: Call, *args: Tensor, **keywords: int) -> Tensor:
    made = call(*(a.float() for a in args), **keywords)
    return made.to(args[0].dtype) if made.dtype is st.float32 else made


def _operands(dtype: st.dtype) -> dict[str, Tensor]:
    rng = np.random.default_rng(20)
    every = st.tensor(np.arange(1 << 16, dtype=np.uint16).view(np.int16)).view(dtype)
    mixed = st.tensor(rng.permutation(1 << 16).astype(np.uint16).view(np.int16)).view(dtype)
    usual = st.tensor(rng.standard_normal(4 * LENGTH) * 3).to(dtype)
    return {"every": every, "mixed": mixed, "usual": usual}


def _elementwise(dtype: st.dtype) -> Iterator[tuple[str, Call, tuple[Tensor, ...]]]:
    o = _operands(dtype)
    dense, strided = o["usual"][:LENGTH], o["usual"][::3][:LENGTH]
    one = o["usual"][5]
    for name in UNARY:
        for x in (o["every"], strided, one):
            yield name, getattr(st, name), (x,)
    for name in ACTIVATIONS:
        for x in (o["every"], strided):
            yield name, getattr(functional, name), (x,)
    for name in BINARY:
        for x, y in (
            (o["every"], o["mixed"]),
            (dense, strided),
            (dense, one),
            (one, strided),
            (dense, dense),
            (dense.view(20, 35), o["usual"][:20].view(20, 1)),
        ):
            yield name, getattr(st, name), (x, y)
    yield "addcmul", st.addcmul, (dense, strided, one)
    yield "addcdiv", st.addcdiv, (o["every"], o["mixed"], one)
    yield "lerp", st.lerp, (strided, dense, dense)
    yield "clamp", st.clamp, (o["every"], one, o["usual"][9])


def elementwise() -> list[str]:
    """Calls whose result is not float32's: a new tensor, in place, and in every third place."""
    wrong = []
    for dtype in HALVES:
        for name, call, args in _elementwise(dtype):
            want = _bits(_as_float(call, *args))
            if not np.array_equal(_bits(call(*args)), want):
                wrong.append(f"{dtype} {name}")
            in_place = getattr(args[0], f"{name}_", None)
            if in_place is not None and want.dtype == np.uint16 and args[0].dim() == 1:
                row = st.zeros(3 * len(args[0]), dtype=dtype)[::3]
                for target in (args[0].clone(), row.copy_(args[0])):
                    getattr(target, f"{name}_")(*args[1:])
                    if not np.array_equal(_bits(target), want):
                        wrong.append(f"{dtype} {name}_ {target.stride()}")
    return wrong


def reductions() -> list[str]:
    """Reductions that are further than a rounding from float32's."""
    wrong = []
    for dtype in HALVES:
        x = st.tensor(np.random.default_rng(21).standard_normal((3, 70, 330))).to(dtype)
        x[1, 5, 7] = float("inf")
        x[2, 6, 8] = float("nan")
        views = (x, x.transpose(0, 2), x[:, ::2, 1::3], x[0, 0], x[0:1, :, 0:1], x[:0])
        for name in REDUCTIONS:
            call = getattr(st, name)
            for v, view in enumerate(views):
                for dim in range(view.dim()):
                    if view.size(dim) == 0 and name not in ("sum", "prod", "any", "all", "nansum"):
                        continue
                    got, want = call(view, dim=dim), _as_float(call, view, dim=dim)
                    close = st.allclose(
                        got.double(),
                        want.double(),
                        rtol=st.finfo(dtype).eps,
                        atol=1e-3,
                        equal_nan=True,
                    )
                    if not close or got.dtype is not want.dtype:
                        wrong.append(f"{dtype} {name} {v} {dim}")
        long = st.tensor(np.random.default_rng(22).random(70001)).to(dtype)
        long[66000] = 3
        if (
            int(long.argmax()) != 66000
            or float(long.amax()) != 3
            or int(st.count_nonzero(long)) != int((long != 0).sum())
        ):
            wrong.append(f"{dtype} long")
        if abs(float(long.mean()) - float(long.float().mean())) > 0.004:
            wrong.append(f"{dtype} mean")
    return wrong


def complex_half_functions() -> list[str]:
    """complex32 against complex64."""
    wrong = []
    parts = np.random.default_rng(23).standard_normal((900, 2))
    z = st.view_as_complex(st.tensor(parts).to(st.float16))
    other = z.flip(0)
    for name, args in {
        "add": (z, other),
        "mul": (z[::2], other[::2]),
        "eq": (z, other),
        "abs": (z,),
        "neg": (z[::3],),
        "any": (z,),
        "count_nonzero": (z,),
    }.items():
        call = getattr(st, name)
        got, want = call(*args), call(*(a.to(st.complex64) for a in args))
        if not bool((got == want.to(got.dtype)).all()):
            wrong.append(name)
    return wrong


if __name__ == "__main__":
    print(
        json.dumps(
            {
                "elementwise": elementwise(),
                "reductions": reductions(),
                "complex": complex_half_functions(),
            }
        )
    )
