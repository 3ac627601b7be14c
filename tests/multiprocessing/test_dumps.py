"""Pickles of the standard queues: plain objects with tensors as one list of handles.

Not covered: what needs the pickler's own reductions (test_reductions), processes (test_messages).
"""

from __future__ import annotations

import gc
import io
import pickle
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _C
from shmtensor._boundary import sharing
from shmtensor.nn import Parameter


@pytest.fixture(autouse=True)
def arena() -> Iterator[None]:
    """Memory files have no place in a list of handles."""
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    yield
    mp.set_sharing_strategy(before)


def _bytes(item: Any) -> bytes:
    return bytes(ForkingPickler.dumps(item))


def _is_one_list(data: bytes) -> bool:
    return b"_rebuild_message" in data


def _leases() -> int:
    gc.collect()
    return int(sharing.status()["n_leases"])


@pytest.mark.check
def test_plain_message_with_tensors_is_one_list_of_handles() -> None:
    tensors = {str(i): st.full((3,), float(i)) for i in range(300)}
    message = ("step", 7, tensors, [None, True, 2.5, b"raw", 1 << 40])
    data = _bytes(message)
    assert _is_one_list(data)
    kind, step, arrived, rest = pickle.loads(data)
    assert (kind, step, rest) == ("step", 7, message[3])
    assert list(arrived) == list(tensors)
    for name, tensor in tensors.items():
        assert arrived[name].data_ptr() == tensor.data_ptr()


def test_aliases_views_and_empty_tensors_arrive_as_they_were() -> None:
    base = st.arange(12.0).reshape(3, 4)
    empty = st.empty(0, 5)
    again = pickle.loads(_bytes([base, base, base.t(), base[1, 1:], empty, base.conj()]))
    assert again[0] is again[1]
    assert again[2].stride() == (1, 4)
    assert again[3].storage_offset() == 5
    assert again[3].data_ptr() == base.data_ptr() + 20
    assert again[4].shape == (0, 5)
    again[0][2, 3] = -1.0
    assert base[2, 3].item() == -1.0


@pytest.mark.parametrize(
    "item",
    [
        {"a": Parameter(st.ones(2))},
        [st.ones(2), {1, 2}],
        (st.ones(2, requires_grad=True),),
        [1, 2, 3],
        [st.empty(2, device="meta")],
    ],
    ids=["parameter", "set", "gradient", "no tensor", "meta"],
)
def test_other_messages_are_the_picklers(item: Any) -> None:
    assert not _is_one_list(_bytes(item))
    assert type(pickle.loads(_bytes(item))) is type(item)


def test_memory_files_are_the_picklers() -> None:
    mp.set_sharing_strategy("file_descriptor")
    tensor = st.ones(2)
    again = pickle.loads(_bytes([tensor]))
    assert again[0].data_ptr() == tensor.data_ptr()


@pytest.mark.check
def test_protocol_and_subclasses_of_the_pickler_go_their_own_way() -> None:
    class Own(ForkingPickler):
        pass

    assert not _is_one_list(bytes(Own.dumps([st.ones(2)])))
    assert not _is_one_list(bytes(ForkingPickler.dumps([st.ones(2)], pickle.HIGHEST_PROTOCOL)))
    file = io.BytesIO()
    ForkingPickler(file).dump([st.ones(2)])
    assert not _is_one_list(file.getvalue())


def test_leases_end_when_the_message_is_opened() -> None:
    before = _leases()
    data = _bytes([st.ones(4) for _ in range(20)])
    assert _leases() == before + 20
    again = pickle.loads(data)
    assert _leases() == before
    assert len(again) == 20


def test_damaged_message_is_refused_and_its_tensors_stay_good() -> None:
    tensor = st.ones(4)
    data = _bytes([tensor, "text"])
    packed = data[data.index(b"\x93B") + 6 : -3]
    places = [0, 3, 4, 8, 20, 40, len(packed) - 20, len(packed) - 1]
    for place in places:
        damaged = bytearray(packed)
        damaged[place] ^= 0x41
        with pytest.raises(RuntimeError):
            _C._rebuild_message(bytes(damaged))
    for length in (0, 7, 8, 55, 56, len(packed) - 1):
        with pytest.raises(RuntimeError):
            _C._rebuild_message(packed[:length])
    with pytest.raises(TypeError):
        _C._rebuild_message("text")
    again = _C._rebuild_message(packed)
    assert again[0].data_ptr() == tensor.data_ptr()


def test_message_opened_twice_is_two_views_or_an_error_never_other_memory() -> None:
    tensor = st.full((4,), 3.0)
    data = _bytes([tensor])
    first = pickle.loads(data)
    second = pickle.loads(data)
    assert first[0].data_ptr() == second[0].data_ptr() == tensor.data_ptr()
