"""Functions where their results become subnormal and 0: results by function and dtype, as JSON.

Run by itself, at the level that SHMTENSOR_CPU_CAPABILITY says.
"""

from __future__ import annotations

import json

import numpy as np

import shmtensor as st
from shmtensor.nn import functional as F

#: By dtype: where exp and exp2 of numbers become 0, and how far around that is looked.
EDGES = {"float32": (-104.0, -150.0, 25.0), "float64": (-746.0, -1075.0, 60.0)}
_FAR = (-3e38, -1e9, -1e4, -np.inf, np.nan, 0.0, -0.0, 1.0)
FUNCTIONS = {"exp": st.exp, "exp2": st.exp2, "softplus": F.softplus, "log_sigmoid": F.logsigmoid}


def arguments(name: str, dtype: str) -> np.ndarray:
    """Return numbers on both sides of the edge, and some far away."""
    of_exp, of_exp2, around = EDGES[dtype]
    edge = of_exp2 if name == "exp2" else of_exp
    near = np.concatenate([np.linspace(edge - around, edge + around, 2001), [edge], _FAR])
    return (-near if name == "log_sigmoid" else near).astype(dtype)


def main() -> None:
    """Print the results."""
    found = {}
    for dtype in EDGES:
        for name, function in FUNCTIONS.items():
            result = function(st.from_numpy(arguments(name, dtype)))
            found[f"{name} {dtype}"] = [float(v).hex() for v in result.tolist()]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
