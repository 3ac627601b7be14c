"""What users are warned of: deprecated functions, once in a process, and results to distrust.

Other tests ignore these (`filterwarnings` in pyproject.toml); warnings of single layers and losses
stand with those.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn

ONCE: dict[str, tuple[Callable[[], Any], str]] = {
    "cholesky": (lambda: st.cholesky(st.eye(3)), "linalg.cholesky"),
    "cholesky into out": (lambda: st.cholesky(st.eye(3), out=st.empty(3, 3)), "linalg.cholesky"),
    "method cholesky": (lambda: st.eye(3).cholesky(), "linalg.cholesky"),
    "chain_matmul": (lambda: st.chain_matmul(st.eye(3), st.eye(3)), "linalg.multi_dot"),
    "lu": (lambda: st.lu(st.eye(3)), "linalg.lu_factor"),
    "lu_solve": (
        lambda: st.lu_solve(st.ones(3, 1), *st.linalg.lu_factor(st.eye(3))),
        "linalg.lu_solve",
    ),
    "qr": (lambda: st.qr(st.eye(3)), "linalg.qr"),
    "triangular_solve": (
        lambda: st.triangular_solve(st.ones(3, 1), st.eye(3)),
        "linalg.solve_triangular",
    ),
    "nuclear_norm": (lambda: st.nuclear_norm(st.eye(3)), "linalg.matrix_norm"),
    "frobenius_norm": (lambda: st.frobenius_norm(st.eye(3), (0, 1)), "linalg.vector_norm"),
    "cross": (lambda: st.cross(st.ones(3), st.ones(3)), "linalg.cross"),
    "index_reduce_": (
        lambda: st.ones(3).index_reduce_(0, st.tensor([0]), st.ones(1), "prod"),
        "in beta",
    ),
    "scatter": (
        lambda: st.scatter(st.ones(3), 0, st.tensor([0]), st.ones(1), reduce="add"),
        "scatter_reduce",
    ),
    "where": (lambda: st.where(st.ones(3, dtype=st.uint8), st.ones(3), st.ones(3)), "uint8"),
    "T": (lambda: st.ones(()).T, "identity"),
    "T of three": (lambda: st.ones(2, 2, 2).T, "mT"),
    "mT": (lambda: st.ones(()).mT, "identity"),
    "H": (lambda: st.ones(()).H, "conj"),
    "mH": (lambda: st.ones(()).mH, "conj"),
    "stft": (lambda: st.stft(st.ones(64), 16, return_complex=True), "window"),
    "stft of pairs": (
        lambda: st.stft(st.ones(64), 16, window=st.ones(16), return_complex=False),
        "view_as_real",
    ),
    "istft": (lambda: st.istft(st.ones(9, 20, dtype=st.complex64), 16), "window"),
    "meshgrid": (lambda: st.meshgrid(st.ones(2), st.ones(3)), "indexing"),
    "same": (
        lambda: nn.functional.conv1d(st.ones(1, 1, 8), st.ones(1, 1, 4), padding="same"),
        "even kernel",
    ),
    "copy_": (lambda: st.ones(3).copy_(st.ones(3) * 1j), "imaginary part"),
    "float": (lambda: (st.ones(3) * 1j).float(), "imaginary part"),
    "fill_": (lambda: st.ones(3).fill_(st.tensor(1j)), "imaginary part"),
    "from_numpy": (lambda: st.from_numpy(np.broadcast_to(np.ones(3), (3,))), "not writable"),
    "frombuffer": (lambda: st.frombuffer(b"abcd", dtype=st.uint8), "not writable"),
    "list of arrays": (lambda: st.tensor([np.ones(3), np.ones(3)]), "numpy.array"),
    "asarray": (lambda: st.asarray(st.ones(3, requires_grad=True)), "requires_grad=False"),
    "float of a leaf": (lambda: float(st.ones(1, requires_grad=True)), "detach"),
    "complex of a leaf": (lambda: complex(st.ones(1, requires_grad=True)), "detach"),
    "create_graph": (
        lambda: st.ones(3, requires_grad=True).sum().backward(create_graph=True),
        "reference cycle",
    ),
    "storage": (lambda: st.ones(3).storage(), "untyped_storage"),
    "TypedStorage": (lambda: st.TypedStorage(3), "untyped_storage"),
    "FloatStorage": (lambda: st.FloatStorage(3), "untyped_storage"),
    "set_default_tensor_type": (
        lambda: st.set_default_tensor_type("FloatTensor"),
        "set_default_dtype",
    ),
}

ALWAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "range": (lambda: st.range(1, 4), "arange"),
    "std": (lambda: st.std(st.ones(1)), "degrees of freedom"),
    "var of nothing": (lambda: st.var(st.ones(0)), "degrees of freedom"),
    "var of no rows": (lambda: st.var(st.ones(0, 3), 1), "degrees of freedom"),
    "var of short rows": (lambda: st.var(st.ones(2, 3), 1, correction=3), "degrees of freedom"),
    "std_mean": (lambda: st.std_mean(st.ones(1)), "degrees of freedom"),
    "mask of bytes": (lambda: st.ones(3)[st.ones(3, dtype=st.uint8)], "uint8"),
    "list for a tuple": (lambda: st.ones(3, 3)[[[0, 1], [0, 1]]], r"x\[tuple\(seq\)\]"),
    "list with a slice": (lambda: st.ones(3, 3)[[0, slice(None)]], r"x\[tuple\(seq\)\]"),
    "complex module": (lambda: nn.Linear(2, 2).to(st.complex64), "Complex modules"),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(5)(st.ones(1, 2, 3)), "num_features"),
    "clip_grad_norm_": (lambda: nn.utils.clip_grad_norm_((p for p in ()), 1.0), "empty generator"),
    "volatile": (lambda: st.autograd.Variable(st.ones(3), volatile=True), "volatile"),
    "masks": (
        lambda: nn.MultiheadAttention(4, 2)(
            *[st.ones(2, 1, 4)] * 3,
            key_padding_mask=st.zeros(1, 2, dtype=st.bool),
            attn_mask=st.zeros(2, 2),
        ),
        "mismatched key_padding_mask",
    ),
}

SILENT: dict[str, Callable[[], Any]] = {
    "cross along a dim": lambda: st.cross(st.ones(3), st.ones(3), dim=0),
    "scatter of a number": lambda: st.ones(3).scatter_(0, st.tensor([0]), 2.0, reduce="add"),
    "T of a matrix": lambda: st.ones(2, 3).T,
    "same, odd kernel": lambda: nn.functional.conv1d(
        st.ones(1, 1, 8), st.ones(1, 1, 3), padding="same"
    ),
    "bool of complex": lambda: (st.ones(3) * 1j).bool(),
    "real part": lambda: (st.ones(3) * 1j).real,
    "gradient of a cast": lambda: (
        st.ones(2, requires_grad=True).to(st.complex64).abs().sum().backward()
    ),
    "int of a leaf": lambda: int(st.ones(1, requires_grad=True)),
    "item of a leaf": lambda: st.ones(1, requires_grad=True).item(),
    "var of enough": lambda: st.var(st.ones(2, 2), 1),
    "var by half a number": lambda: st.var(st.ones(2, 1), 1, correction=0.5),
    "var on meta": lambda: st.var(st.ones(1, device="meta")),
    "list of numbers": lambda: st.ones(3, 3)[[0, 1]],
    "asarray": lambda: st.asarray(st.ones(3, requires_grad=True), requires_grad=False),
    "grad": lambda: (lambda x: st.autograd.grad(x.sum(), x, create_graph=True))(
        st.ones(2, requires_grad=True)
    ),
    "derivative of cholesky": lambda: (lambda x: st.linalg.cholesky(x).sum().backward())(
        st.eye(3, requires_grad=True)
    ),
    "svd": lambda: st.linalg.svd(st.eye(3)),
    "embedding_bag": lambda: st.embedding_bag(
        st.ones(3, 2), st.tensor([0, 1]), st.tensor([0]), mode=2
    ),
}


@pytest.fixture
def repeated() -> Iterator[None]:
    """What is told once is told at every call."""
    st.set_warn_always(True)
    yield
    st.set_warn_always(False)


@pytest.mark.usefixtures("repeated")
@pytest.mark.parametrize("name", ONCE)
def test_deprecated_form_warns(name: str) -> None:
    call, text = ONCE[name]
    with pytest.warns(UserWarning, match=text):
        call()


@pytest.mark.parametrize("name", ONCE)
def test_what_is_told_once_is_not_repeated(name: str) -> None:
    call, _ = ONCE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()


@pytest.mark.parametrize("name", ALWAYS)
def test_doubtful_call_warns_each_time(name: str) -> None:
    call, text = ALWAYS[name]
    for _ in range(2):
        with pytest.warns(UserWarning, match=text):
            call()


@pytest.mark.usefixtures("repeated")
@pytest.mark.parametrize("name", SILENT)
def test_recommended_form_is_silent(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SILENT[name]()


@pytest.mark.check
@pytest.mark.usefixtures("repeated")
def test_warning_may_be_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="arange"):
            st.range(1, 4)


@pytest.mark.check
def test_function_and_method_are_told_of_once() -> None:
    code = (
        "import warnings, shmtensor as st\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    st.cholesky(st.eye(2)); st.eye(2).cholesky(); st.cholesky(st.eye(2))\n"
        "    print(len(told), told[0].filename)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1 <string>\n"


def test_no_history_is_recorded_nothing_is_told() -> None:
    st.set_warn_always(True)
    try:
        with st.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert float(st.ones(1, requires_grad=True)) == 1.0
    finally:
        st.set_warn_always(False)
