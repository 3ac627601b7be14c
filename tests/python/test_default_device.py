"""The device of tensors whose call names none: set for the thread, or by ``with device:``."""

from __future__ import annotations

import threading

import pytest

import shmtensor as st

META = st.device("meta")


def _factories() -> list[st.Tensor]:
    return [
        st.empty(2),
        st.zeros(2),
        st.full((2,), 1.0),
        st.arange(3),
        st.linspace(0, 1, 3),
        st.eye(2),
        st.rand(2, 2),
        st.randint(3, (2,)),
        st.randperm(3),
        st.tensor([1]),
        st.as_tensor([1.0]),
        st.asarray([1.0]),
        st.hann_window(4),
        st.fft.fftfreq(4),
        st.tril_indices(2, 2),
        st.nn.Linear(2, 2).weight,
    ]


@pytest.mark.check
def test_with_a_device_new_tensors_are_made_there() -> None:
    with META as entered:
        assert entered is META
        assert st.get_default_device() == META
        assert {t.device.type for t in _factories()} == {"meta"}
        with st.device("cpu"):
            assert st.empty(1).device.type == "cpu"
        assert st.empty(1).device.type == "meta"
    assert {t.device.type for t in _factories()} == {"cpu"}


def test_named_devices_and_tensors_at_hand_come_first() -> None:
    here = st.ones(2)
    with META:
        assert st.ones(2, device="cpu").device.type == "cpu"
        assert st.zeros_like(here).device.type == "cpu"
        assert here.new_zeros(2).device.type == "cpu"
        assert st.zeros(2, out=here).device.type == "cpu"
        assert st.cdist(here.reshape(1, 2), here.reshape(1, 2)).device.type == "cpu"
        with pytest.raises(NotImplementedError, match="meta"):
            st.ones(2, shared=True)


@pytest.mark.check
def test_an_exception_leaves_the_device() -> None:
    with pytest.raises(ZeroDivisionError), META:
        raise ZeroDivisionError
    assert st.get_default_device() == st.device("cpu")


def test_the_default_is_the_threads_own_and_below_those_entered() -> None:
    found = []
    st.set_default_device("meta")
    try:
        thread = threading.Thread(target=lambda: found.append(st.empty(1).device.type))
        thread.start()
        thread.join()
        assert st.empty(1).device.type == "meta"
        with st.device("cpu"):
            assert st.get_default_device().type == "cpu"
        assert st.get_default_device() == META
    finally:
        st.set_default_device(None)
    assert found == ["cpu"]
    assert st.empty(1).device.type == "cpu"


def test_what_is_no_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match="bogus"):
        st.set_default_device("bogus")
    with pytest.raises(TypeError, match=r"must be torch\.device, not float"):
        st.set_default_device(1.5)
    st.device.__exit__(META, None, None, None)  # of nothing that was entered
    assert st.get_default_device().type == "cpu"
