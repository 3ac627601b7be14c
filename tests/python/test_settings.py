"""Process-wide settings."""

from __future__ import annotations

import pytest

import shmtensor as st


@pytest.mark.check
def test_determinism_is_kept_in_three_forms():
    assert not st.are_deterministic_algorithms_enabled()
    try:
        st.use_deterministic_algorithms(True, warn_only=True)
        assert st.is_deterministic_algorithms_warn_only_enabled()
        assert st.get_deterministic_debug_mode() == 1
        st.set_deterministic_debug_mode("error")
        assert st.are_deterministic_algorithms_enabled()
        for wrong in ("no", 3):
            with pytest.raises(RuntimeError, match="debug_mode"):
                st.set_deterministic_debug_mode(wrong)
    finally:
        st.use_deterministic_algorithms(False)


def test_precision_and_warnings_are_kept():
    st.set_float32_matmul_precision("high")
    assert st.get_float32_matmul_precision() == "high"
    st.set_float32_matmul_precision("highest")
    with pytest.raises(ValueError, match="low"):
        st.set_float32_matmul_precision("low")
    st.set_warn_always(True)
    assert st.is_warn_always_enabled()
    st.set_warn_always(False)


def test_default_tensor_type_sets_the_default_dtype():
    try:
        st.set_default_tensor_type("torch.DoubleTensor")
        assert st.get_default_dtype() is st.float64
        st.set_default_tensor_type(st.FloatTensor)
        assert st.get_default_dtype() is st.float32
        with pytest.raises(TypeError, match="only floating"):
            st.set_default_tensor_type("torch.LongTensor")
    finally:
        st.set_default_dtype(st.float32)


def test_type_names():
    assert st.typename(st.ones(1)) == "torch.FloatTensor"
    assert st.typename(1) == "int"
    assert st.typename(st.nn.Linear).endswith(".Linear")


@pytest.mark.check
def test_anomaly_mode_is_told_and_switched_by_plain_functions() -> None:
    assert not st.is_anomaly_enabled()
    try:
        st.set_anomaly_enabled(True, check_nan=False)
        assert st.is_anomaly_enabled()
        assert not st.is_anomaly_check_nan_enabled()
        with st.autograd.set_detect_anomaly(True, True):
            assert st.is_anomaly_check_nan_enabled()
    finally:
        st.set_anomaly_enabled(False)


def test_the_number_of_threads_between_operators_is_kept():
    before = st.get_num_interop_threads()
    try:
        st.set_num_interop_threads(3)
        assert st.get_num_interop_threads() == 3
    finally:
        st.set_num_interop_threads(before)
    with pytest.raises(RuntimeError, match="positive"):
        st.set_num_interop_threads(0)
    with pytest.raises(TypeError, match="expects an int, but got str"):
        st.set_num_interop_threads("2")


def test_subnormal_numbers_are_flushed_where_the_processor_can():
    tiny = st.tensor([1e-30] * 100_000)
    if not st.set_flush_denormal(True):
        pytest.skip("this processor has no such mode")
    try:
        assert not (tiny * 1e-10).any()
    finally:
        assert st.set_flush_denormal(False)
    assert (tiny * 1e-10).all()
    with pytest.raises(RuntimeError, match="expects a bool, but got int"):
        st.set_flush_denormal(1)


def test_generators_of_worker_threads():
    assert st.random.thread_safe_generator() is None
