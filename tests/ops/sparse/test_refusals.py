"""No operator reads or writes outside of memory when it is given sparse tensors.

What operators give is held to in tests/sparse; here only that the process lives.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shmtensor as st

_ROOT = Path(__file__).resolve().parents[3]
_PARTS = 4


@pytest.mark.parametrize("part", range(_PARTS))
def test_every_operator_survives_sparse_arguments(part: int) -> None:
    paths = [_ROOT, _ROOT / "tests", _ROOT / "csrc"]
    run = subprocess.run(
        [
            sys.executable,
            __file__.replace("test_refusals", "call_operators"),
            str(part),
            str(_PARTS),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
    )
    last = run.stdout.splitlines()[-1] if run.stdout else ""
    assert run.returncode == 0, f"{last}: {run.stderr[-2000:]}"
    word, calls, results = last.split()
    assert word == "end"
    assert int(calls) > 10_000
    assert int(results) > 500


def _kinds() -> list[st.Tensor]:
    dense = st.eye(3)
    return [dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()]


@pytest.mark.parametrize("kind", range(3))
def test_operators_for_dense_tensors_name_the_backend(kind: int) -> None:
    backend = "SparseCPU" if kind == 0 else "SparseCsrCPU"
    with pytest.raises(NotImplementedError, match=f"'aten::cos' .* from the '{backend}' backend"):
        st.cos(_kinds()[kind])
    with pytest.raises(NotImplementedError, match=r"aten::eq\.Tensor"):
        _ = _kinds()[kind] == st.eye(3)
    with pytest.raises(NotImplementedError, match="aten::maximum"):
        st.maximum(st.eye(3), _kinds()[kind])
    with pytest.raises(NotImplementedError, match=r"aten::cos\.out"):
        st.cos(st.eye(3), out=_kinds()[kind])


@pytest.mark.parametrize("kind", range(3))
def test_what_needs_a_storage_says_so(kind: int) -> None:
    t = _kinds()[kind]
    with pytest.raises(NotImplementedError, match="Cannot access storage of Sparse"):
        t.untyped_storage()
    with pytest.raises(RuntimeError, match="doesn't have storage"):
        t.data_ptr()
    with pytest.raises(RuntimeError, match="doesn't have storage"):
        t.tolist()
    with pytest.raises(TypeError, match="can't convert Sparse layout tensor to numpy"):
        t.numpy()
    with pytest.raises(BufferError, match="sparse"):
        memoryview(t)  # type: ignore[arg-type]
    with pytest.raises(BufferError, match=r"other than torch\.strided"):
        t.__dlpack__()
    with pytest.raises(RuntimeError, match="nbytes is not defined"):
        _ = t.nbytes
    assert t.stride() == (0, 0)
    assert t.storage_offset() == 0
    assert not t.is_contiguous()


@pytest.mark.check
def test_a_tensor_of_another_layout_becomes_one_by_data_and_back() -> None:
    dense, coo = st.ones(2, 2), st.eye(3).to_sparse()
    dense.data = coo
    assert dense.layout is st.sparse_coo
    assert dense.shape == (3, 3)
    assert st.equal((dense + dense).to_dense(), 2 * st.eye(3))
    dense.data = st.ones(4)
    assert dense.layout is st.strided
    assert (dense + 1).tolist() == [2.0] * 4
    with pytest.raises(RuntimeError, match="set_"):
        coo.set_(st.ones(2))
