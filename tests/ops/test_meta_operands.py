"""Meta tensors where data is needed raise an error; nothing reads memory that is not there.

0-d CPU tensors may be mixed with meta tensors, so operators must check for the reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "tensorsolve": lambda x, m: st.linalg.tensorsolve(m, x),
    "put_": lambda x, m: x.clone().put_(m.long(), x),
    "put_ of": lambda x, m: x.clone().put_(x.long(), m),
    "masked_scatter": lambda x, m: x.masked_scatter(m.bool(), x),
    "masked_scatter of": lambda x, m: x.masked_scatter(x.bool(), m),
    "bernoulli_": lambda x, m: x.clone().bernoulli_(m),
    "scatter": lambda x, m: x.scatter(0, m.long(), x),
    "scatter_add": lambda x, m: x.scatter_add(0, x.long(), m),
    "index_add": lambda x, m: x.index_add(0, m.long(), x),
    "index_copy": lambda x, m: x.index_copy(0, x.long(), m),
    "backward of gather": lambda x, m: st.ops.aten._gather_backward.default(x, [], 0, m.long()),
    "backward of slogdet": lambda x, m: st.ops.aten._slogdet_backward.default(
        x, x, x, m.reshape(1, 1)
    ),
}


@pytest.mark.check
@pytest.mark.parametrize("name", CALLS)
def test_meta_operands_beside_numbers_are_refused(name: str) -> None:
    zero = st.zeros(())
    with pytest.raises(RuntimeError):
        CALLS[name](zero, st.empty((), device="meta"))
    assert zero.item() == 0
