"""Softmax, log_softmax and logsumexp of rows of every length: which are wrong, as JSON.

Run by itself, at the level that SHMTENSOR_CPU_CAPABILITY says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

import shmtensor as st

#: Around whole vectors of every level, and around several of them at a time.
LENGTHS = (*range(1, 71), 127, 128, 129, 130, 255, 256, 257, 511, 1000, 1027)
_INF, _NAN = np.inf, np.nan
#: What one row has at its ends and in its middle.
_ENDS = (
    (),
    (1e4,),
    (-1e4,),
    (3e38, -3e38),
    (-_INF,),
    (_INF,),
    (_INF, _INF),
    (_INF, -_INF),
    (_NAN,),
    (_NAN, _INF),
    (_INF, _NAN),
    (_NAN, -_INF),
    (95.0, -95.0),
)
_LIMITS = {"float32": 4e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1e-2}


def _rows(length: int, rng: np.random.Generator) -> np.ndarray:
    rows = []
    for ends in _ENDS:
        for base in (rng.standard_normal(length) * 3, np.full(length, -_INF), np.full(length, 2.0)):
            for shift in (0, length // 2, length - 1):
                row = base.copy()
                row[: len(ends)] = ends[:length]
                rows.append(np.roll(row, shift))
    return np.stack(rows)


def _exact(x: np.ndarray) -> dict[str, np.ndarray]:
    """The right results in extended precision, by name; of infinite rows those of torch."""
    wide = x.astype(np.longdouble)
    top = wide.max(1, keepdims=True)
    with np.errstate(all="ignore"):
        e = np.exp(wide - top)
        total = e.sum(1, keepdims=True)
        finite = np.where(np.isfinite(top), top, 0)
        sums = finite + np.log(np.exp(wide - finite).sum(1, keepdims=True))
        return {
            "softmax": e / total,
            "log_softmax": wide - top - np.log(total),
            "logsumexp": np.where(top == _INF, np.where(np.isnan(sums), _NAN, _INF), sums)[:, 0],
        }


def _wrong(length: int, dtype: str) -> Iterator[str]:
    rng = np.random.default_rng(length)
    x = st.from_numpy(_rows(length, rng)).to(getattr(st, dtype))
    exact = _exact(x.double().numpy())
    found = {
        "softmax": x.softmax(1),
        "log_softmax": x.log_softmax(1),
        "logsumexp": x.logsumexp(1),
    }
    for name, result in found.items():
        got, want = result.double().numpy(), exact[name].astype(np.float64)
        with np.errstate(invalid="ignore"):
            want = np.where(np.abs(want) > st.finfo(x.dtype).max, np.sign(want) * _INF, want)
            near = np.abs(got - want) <= _LIMITS[dtype] * np.maximum(np.abs(want), 1)
            good = near | (got == want) | (np.isnan(got) & np.isnan(want))
        if not good.all():
            row = int(np.flatnonzero(~good.reshape(len(good), -1).all(1))[0])
            yield f"{name} {dtype} {length}, row {row}: {got[row]} for {want[row]}"


def main() -> None:
    """Print what is wrong."""
    print(json.dumps([text for dtype in _LIMITS for n in LENGTHS for text in _wrong(n, dtype)]))


if __name__ == "__main__":
    main()
