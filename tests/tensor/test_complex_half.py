"""complex32, two float16 stored as one element: the dtype object, promotion, views, text, storages.

Operators on it are in ``tests/ops/test_complex_half_ops.py``; pickling every dtype is in
``tests/storage``, travelling in ``tests/multiprocessing`` and ``tests/service``. Expected values
are torch 2.13's.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import shmtensor as st

REAL = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16"]
WIDER = [
    ("bfloat16", st.complex64),
    ("float32", st.complex64),
    ("float64", st.complex128),
    ("complex64", st.complex64),
    ("complex128", st.complex128),
]


def sample() -> Any:
    return st.tensor([1 + 2j, 3.25 - 4j, -0.5 + 0j], dtype=st.complex32)


@pytest.mark.check
def test_dtype_object_knows_its_names_and_parts() -> None:
    assert st.chalf is st.complex32
    assert repr(st.complex32) == "torch.complex32"
    assert (st.complex32.itemsize, st.complex32.is_complex, st.complex32.is_signed) == (
        4,
        True,
        True,
    )
    assert st.complex32.to_real() is st.float16
    assert st.float16.to_complex() is st.complex32
    assert st.bfloat16.to_complex() is st.complex64
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Int"):
        st.int32.to_complex()
    assert st.finfo(st.complex32) == st.finfo(st.float16)
    assert st.finfo(st.complex32).dtype == "float16"


def test_codes_of_the_other_dtypes_are_what_they_were() -> None:
    """They stand in messages between processes."""
    assert (st.bool._code, st.float32._code, st.complex128._code) == (0, 11, 14)
    assert st.complex32._code == 15


@pytest.mark.parametrize("name", REAL)
def test_narrower_dtypes_promote_to_it(name: str) -> None:
    other = getattr(st, name)
    assert st.promote_types(st.complex32, other) is st.complex32
    assert st.promote_types(other, st.complex32) is st.complex32
    assert st.can_cast(other, st.complex32)
    assert not st.can_cast(st.complex32, other)


@pytest.mark.parametrize(("name", "wanted"), WIDER)
def test_wider_dtypes_decide(name: str, wanted: Any) -> None:
    other = getattr(st, name)
    assert st.promote_types(st.complex32, other) is wanted
    dims = st.result_type(st.zeros(1, dtype=other), st.zeros(1, dtype=st.complex32))
    assert dims is wanted
    # A tensor without dimensions gives its kind, not its width.
    assert (
        st.result_type(st.zeros(1, dtype=st.complex32), st.zeros((), dtype=other)) is st.complex32
    )


def test_wide_unsigned_promote_with_it_only_by_category() -> None:
    with pytest.raises(RuntimeError, match="attempted to promote ComplexHalf and UInt16"):
        st.promote_types(st.complex32, st.uint16)
    assert (
        st.result_type(st.zeros(1, dtype=st.uint16), st.zeros((), dtype=st.complex32))
        is st.complex32
    )
    assert st.result_type(st.zeros(1, dtype=st.uint16), 1j) is st.complex64


def test_imaginary_numbers_keep_the_width_of_halves() -> None:
    half = st.ones(2, dtype=st.float16)
    assert (half * 1j).dtype is st.complex32
    assert (half + 1j).tolist() == [1 + 1j, 1 + 1j]
    assert (st.ones(2, dtype=st.bfloat16) * 1j).dtype is st.complex64
    assert (st.tensor(2, dtype=st.float16) * 1j).dtype is st.complex32
    assert (half * sample()[0]).dtype is st.complex32


def test_default_dtype_decides_about_complex_numbers() -> None:
    before = st.get_default_dtype()
    try:
        st.set_default_dtype(st.float16)
        assert st.tensor([1j, 2]).dtype is st.complex32
        assert st.result_type(st.zeros(1, dtype=st.int64), 1j) is st.complex32
        assert st.zeros(1, dtype=complex).dtype is st.complex128
        with pytest.raises(TypeError, match="only floating-point types are supported"):
            st.set_default_dtype(st.complex32)
    finally:
        st.set_default_dtype(before)


@pytest.mark.parametrize("source", ["bool", "uint8", "int64", "uint64", "float16", "bfloat16"])
def test_casts_there_and_back_keep_small_numbers(source: str) -> None:
    numbers = st.tensor([0, 1, 1], dtype=getattr(st, source))
    there = numbers.chalf()
    assert there.dtype is st.complex32
    assert there.tolist() == [0j, 1 + 0j, 1 + 0j]
    assert there.to(numbers.dtype).tolist() == numbers.tolist()


def test_casts_round_each_part_once() -> None:
    wide = st.tensor([1 / 3 - 2049j, 1e6 + 1e-9j], dtype=st.complex128)
    narrow = wide.to(st.chalf)
    assert narrow.tolist() == [complex(np.float16(1 / 3), -2048), complex(np.inf, 0)]
    assert narrow[:1].to(st.complex64).tolist() == narrow[:1].tolist()
    assert st.view_as_real(narrow).to(st.float32)[0].tolist() == [np.float16(1 / 3), -2048]


def test_strided_casts_equal_dense_ones() -> None:
    base = st.arange(24, dtype=st.float32).view(4, 6)
    for view in (base.t(), base[:, ::2], base[::3, 1::4]):
        assert view.chalf().tolist() == view.contiguous().chalf().tolist()
        assert view.chalf().to(st.float64).tolist() == view.to(st.float64).tolist()


@pytest.mark.check
def test_parts_are_views_of_halves() -> None:
    z = sample()
    assert (z.real.dtype, z.imag.dtype) == (st.float16, st.float16)
    z.real[0] = 7
    z.imag.mul_(2)
    assert z.tolist() == [7 + 4j, 3.25 - 8j, -0.5 + 0j]
    pairs = st.view_as_real(z)
    assert (pairs.dtype, pairs.shape, pairs.data_ptr()) == (st.float16, (3, 2), z.data_ptr())
    back = st.view_as_complex(pairs)
    assert (back.dtype, back.data_ptr()) == (st.complex32, z.data_ptr())
    with pytest.raises(RuntimeError, match="got a tensor of scalar type: BFloat16"):
        st.view_as_complex(pairs.to(st.bfloat16))


def test_bytes_of_other_dtypes_are_seen_as_it() -> None:
    words = st.from_numpy(np.array([[1.0, -2.0], [0.5, 4.0]], np.float16).view(np.int16))
    z = words.view(st.complex32)
    assert (z.shape, z.tolist()) == ((2, 1), [[1 - 2j], [0.5 + 4j]])
    z[0] = 3j
    assert words.view(st.float16)[0].tolist() == [0.0, 3.0]
    assert sample().view(st.int32).tolist() == [1073757184, -1006615936, 47104]
    assert sample().view(st.int16).shape == (6,)


def test_conjugates() -> None:
    z = sample()
    assert z.conj().tolist() == [1 - 2j, 3.25 + 4j, -0.5 - 0j]
    assert z.conj().imag.tolist() == [-2, 4, 0]
    assert z.conj().resolve_conj().tolist() == z.conj().tolist()
    assert z.view(3, 1).mH.tolist() == [z.conj().tolist()]
    assert st.from_dlpack(z).tolist() == z.tolist()


def test_text_shows_the_dtype() -> None:
    assert repr(sample()) == (
        "tensor([ 1.0000+2.j,  3.2500-4.j, -0.5000+0.j], dtype=torch.complex32)"
    )
    assert repr(sample()[0]) == "tensor(1.+2.j, dtype=torch.complex32)"


def test_type_names_are_torchs() -> None:
    z = sample()
    assert z.type() == "torch.ComplexHalfTensor"
    assert z.to(st.complex64).type("torch.ComplexHalfTensor").dtype is st.complex32
    assert st.zeros(1, dtype=st.uint16).type() == "torch.UInt16Tensor"
    assert not hasattr(st, "ComplexHalfTensor")
    assert z.storage().type() == "torch.storage.TypedStorage"
    assert z.storage()[1] == 3.25 - 4j


def test_save_and_load_keep_it() -> None:
    file = io.BytesIO()
    st.save({"z": sample(), "tail": sample()[1:]}, file)
    file.seek(0)
    loaded = st.load(file)
    assert loaded["z"].dtype is st.complex32
    assert loaded["z"].tolist() == sample().tolist()
    assert loaded["tail"].tolist() == sample()[1:].tolist()


def test_numbers_too_large_become_infinite() -> None:
    assert st.tensor([1e6 + 1j], dtype=st.complex32).tolist() == [complex(np.inf, 1)]
    assert st.tensor([1e60, 1e60j], dtype=st.complex64).tolist() == [
        complex(np.inf, 0),
        complex(0, np.inf),
    ]
    assert st.zeros(1, dtype=st.complex32).fill_(1e9).tolist() == [complex(np.inf, 0)]
    with pytest.raises(RuntimeError, match=r"converted to type c10::complex<float> without"):
        st.zeros(1, dtype=st.complex32).fill_(1e60)


def test_elements_become_python_numbers() -> None:
    z = sample()
    assert complex(z[1]) == 3.25 - 4j
    assert float(z[2]) == -0.5
    assert bool(z[0])
    with pytest.raises(RuntimeError, match="value cannot be converted to type double without"):
        float(z[0])


def test_meta_tensors_have_the_dtype() -> None:
    z = st.empty(2, 3, dtype=st.complex32, device="meta")
    assert (z * 2).dtype is st.complex32
    assert z.real.dtype is st.float16
    assert z.abs().dtype is st.float16
    assert (z.element_size(), z.untyped_storage().nbytes()) == (4, 24)
