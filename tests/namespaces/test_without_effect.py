"""What has no effect is listed, and what needs a device or a compiler is refused as torch does."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import without_effect


@pytest.mark.check
def test_page_lists_what_the_source_has() -> None:
    """After a change: ``python tools/without_effect.py --write``."""
    page = without_effect.PAGE.read_text()
    assert page == without_effect.page_with(without_effect.table())


@pytest.mark.parametrize(
    ("source", "unread", "does_nothing"),
    [
        ("def f(a, b): return a", ["b"], True),
        ("def f(a, b): 'Text.'", ["a", "b"], True),
        ("def f(a, b): return g(a)", ["b"], False),
        ("def f(a, *, b=1, **rest): return a + b", ["rest"], False),
        ("def f(a): return lambda: a", [], False),
        ("def f(self, a): self.a = a", [], False),
        ("def f(a): return False", ["a"], False),
    ],
)
def test_functions_are_read(source: str, unread: list[str], does_nothing: bool) -> None:
    function: Any = ast.parse(source).body[0]
    assert without_effect._unread(function) == unread
    assert without_effect._does_nothing(function) == does_nothing


FACTORIES = {
    "ones": lambda **o: st.ones(2, **o),
    "empty": lambda **o: st.empty(0, **o),
    "empty_strided": lambda **o: st.empty_strided((2,), (1,), **o),
    "tensor": lambda **o: st.tensor([1.0], **o),
    "rand": lambda **o: st.rand(2, **o),
    "arange": lambda **o: st.arange(2, **o),
    "zeros_like": lambda **o: st.zeros_like(st.ones(2), **o),
    "new_zeros": lambda **o: st.ones(2).new_zeros(2, **o),
    "full": lambda **o: st.full((2,), 1.0, **o),
    "eye": lambda **o: st.eye(2, **o),
    "randperm": lambda **o: st.randperm(3, **o),
    "tril_indices": lambda **o: st.tril_indices(2, 2, **o),
    "hann_window": lambda **o: st.hann_window(2, **o),
    "sparse_coo_tensor": lambda **o: st.sparse_coo_tensor([[0]], [1.0], (2,), **o),
    "sparse_csr_tensor": lambda **o: st.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), **o),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_pinned_memory_is_refused(name: str) -> None:
    FACTORIES[name](pin_memory=False)
    with pytest.raises(RuntimeError, match="accelerator"):
        FACTORIES[name](pin_memory=True)


def test_pinning_what_is_there_is_refused() -> None:
    x = st.ones(2)
    for call in (x.pin_memory, x.untyped_storage().pin_memory):
        with pytest.raises(RuntimeError, match="accelerator"):
            call()
    assert not x.is_pinned("cuda")
    assert st.empty(2, device="meta", pin_memory=True).is_meta


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_profile_of_no_activity_that_is_here_is_refused() -> None:
    from shmtensor.profiler import ProfilerActivity, profile

    with pytest.raises(AssertionError, match="No activities specified"):
        profile(activities=[ProfilerActivity.CUDA]).__enter__()
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=["cuda"])
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as both:
        st.ones(2).exp()
    assert both.events()
    with pytest.raises(AssertionError, match="CUDA"):
        st.autograd.profiler.emit_nvtx().__enter__()
    assert st.autograd.profiler.emit_nvtx(False).__enter__() is None


@pytest.mark.parametrize("stance", ["nope", 3, None, ""])
def test_stance_that_is_none_is_refused(stance: Any) -> None:
    with pytest.raises(RuntimeError, match=r"invalid torch\.compile stance"):
        st.compiler.set_stance(stance)


def test_marks_of_the_compiler_want_functions() -> None:
    for stance in ("default", "force_eager", "eager_then_compile"):
        st.compiler.set_stance(stance)
    with pytest.raises(RuntimeError, match="force_backend"):
        st.compiler.set_stance("force_eager", force_backend="eager")
    for mark, error in (
        (st.compiler.disable, AssertionError),
        (st.compiler.allow_in_graph, AssertionError),
        (st.compiler.assume_constant_result, AttributeError),
        (st.compiler.substitute_in_graph, TypeError),
        (st.monitor.log_event, TypeError),
    ):
        with pytest.raises(error):
            mark(3)


@pytest.fixture
def deterministic() -> Any:
    st.use_deterministic_algorithms(True)
    yield
    st.utils.deterministic.fill_uninitialized_memory = True
    st.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
def test_deterministic_algorithms_fill_what_has_no_values() -> None:
    one = st.ones(2)
    for made in (
        st.empty(3),
        st.empty_like(one),
        st.empty_strided((2,), (1,)),
        one.new_empty(2),
        st.empty_permuted((2, 2), (0, 1)),
        st.Tensor(2),
        one.new(2),
        st.empty(2, dtype=st.complex64),
        st.empty(2, dtype=st.bfloat16),
    ):
        assert made.isnan().all()
    largest = {st.uint8: 255, st.int8: 127, st.int32: 2**31 - 1, st.int64: 2**63 - 1}
    for dtype, value in largest.items():
        assert st.empty(2, dtype=dtype).tolist() == [value] * 2
    assert st.empty(2, dtype=st.bool).tolist() == [True, True]
    grown = st.ones(2).resize_(4)
    assert grown[:2].tolist() == [1.0, 1.0]
    assert grown[2:].isnan().all()
    st.utils.deterministic.fill_uninitialized_memory = False
    with pytest.raises(RuntimeError, match="expected a bool"):
        st.utils.deterministic.fill_uninitialized_memory = 3


@pytest.mark.usefixtures("deterministic")
def test_deterministic_forms_write_in_order() -> None:
    """What torch refuses then: here the last of several elements for a place stays."""
    n = 50_000
    index = st.zeros(n, dtype=st.int64)
    assert st.zeros(3).put_(index, st.arange(float(n))).tolist() == [n - 1.0, 0.0, 0.0]
    pooled = st.arange(float(n)).reshape(1, 1, n)
    twice = st.zeros(1, 1, n, dtype=st.int64)
    assert st.nn.functional.max_unpool1d(pooled, twice, 2)[0, 0, 0] == n - 1
