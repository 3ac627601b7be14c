"""Files of `save` and of torch: what is in them, and that either package reads the other's."""

from __future__ import annotations

import base64
import collections
import contextlib
import gzip
import io
import operator
import pickle
import pickletools
import sys
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

import shmtensor
from shmtensor import nn, serialization
from shmtensor._generated.dtypes import DTYPES
from shmtensor.serialization import (
    get_unsafe_globals_in_checkpoint,
    load,
    safe_globals,
    save,
)

FORMATS = pytest.mark.parametrize("archive", [True, False], ids=["archive", "legacy"])


def bytes_of(obj: Any, archive: bool = True, protocol: int = 2) -> bytes:
    buffer = io.BytesIO()
    save(obj, buffer, pickle_protocol=protocol, _use_new_zipfile_serialization=archive)
    return buffer.getvalue()


def again(obj: Any, archive: bool = True, protocol: int = 2) -> Any:
    return load(io.BytesIO(bytes_of(obj, archive, protocol)))


def globals_of(data: bytes) -> set[str]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        program = file.read("archive/data.pkl")
    return {a for o, a, _ in pickletools.genops(program) if o.name == "GLOBAL"}


# --- a checkpoint of our own ------------------------------------------------------------------


@FORMATS
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_checkpoint_is_loaded_by_default(archive: bool, protocol: int) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = shmtensor.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(shmtensor.randn(4, 2)).sum().backward()
    optimizer.step()
    loaded = again(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3},
        archive,
        protocol,
    )
    assert loaded["epoch"] == 3
    assert type(loaded["model"]) is collections.OrderedDict
    assert loaded["model"]._metadata == {
        "": {"version": 1},
        "0": {"version": 1},
        "1": {"version": 2},
    }
    twin = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    twin.load_state_dict(loaded["model"])
    assert twin[0].weight.tolist() == model[0].weight.tolist()
    other = shmtensor.optim.SGD(twin.parameters(), lr=1.0, momentum=0.1)
    other.load_state_dict(loaded["optimizer"])
    assert other.param_groups[0]["lr"] == 0.1
    momentum = other.state[twin[0].weight]["momentum_buffer"]
    assert momentum.tolist() == optimizer.state[model[0].weight]["momentum_buffer"].tolist()


@pytest.mark.check
def test_the_state_of_a_module_is_a_plain_ordered_dictionary() -> None:
    assert type(nn.Linear(1, 1).state_dict()) is collections.OrderedDict


@FORMATS
def test_a_parameter_keeps_its_kind_and_attributes(archive: bool) -> None:
    parameter = nn.Parameter(shmtensor.ones(2), requires_grad=False)
    parameter.note = ["x"]
    tensor = shmtensor.ones(2)
    tensor.note = 4
    loaded, plain = again([parameter, tensor], archive)
    assert type(loaded) is nn.Parameter
    assert (loaded.requires_grad, loaded.note) == (False, ["x"])
    assert plain.note == 4
    assert pickle.loads(pickle.dumps(parameter)).note == ["x"]


@FORMATS
def test_values_beside_tensors(archive: bool) -> None:
    values = {
        "set": {1, "a"},
        "frozen": frozenset([1]),
        "counter": collections.Counter("aab"),
        "deque": collections.deque([1, 2], 3),
        "bytes": (b"\xff", bytearray(b"\xfe")),
        "numbers": (-1, 2**40, 2**100, 1.5, 1j, True, None),
        "slices": (slice(1, None), range(3)),
        "torch": (shmtensor.Size([1, 2]), shmtensor.device("cpu"), shmtensor.strided),
        7: [()],
    }
    for protocol in range(1, pickle.HIGHEST_PROTOCOL + 1):
        assert again(values, archive, protocol) == values


@FORMATS
def test_views_share_one_storage(archive: bool) -> None:
    base = shmtensor.arange(6.0)
    loaded, part, storage = again([base, base[2:4], base.storage()], archive)
    loaded.zero_()
    assert part.tolist() == [0.0, 0.0]
    assert part.storage_offset() == 2
    assert storage.untyped() is loaded.untyped_storage()
    raw = again(base.untyped_storage(), archive)
    assert (type(raw), len(raw)) == (shmtensor.UntypedStorage, 24)


@FORMATS
def test_one_memory_has_one_dtype_in_a_file(archive: bool) -> None:
    base = shmtensor.ones(2, dtype=shmtensor.complex64)
    for other in (base.imag, base.untyped_storage(), base.view(shmtensor.float32).storage()):
        with pytest.raises(RuntimeError, match="view the same data as different types"):
            bytes_of([base, other], archive)
    empty = shmtensor.empty(0)
    assert len(again([empty, empty.view(shmtensor.int32)], archive)) == 2


def test_a_whole_module_names_torchs_classes_and_needs_leave() -> None:
    data = bytes_of(nn.Linear(2, 1))
    assert "torch.nn.modules.linear Linear" in globals_of(data)
    assert get_unsafe_globals_in_checkpoint(io.BytesIO(data)) == ["torch.nn.modules.linear.Linear"]
    with pytest.raises(pickle.UnpicklingError, match=r"linear\.Linear was not an allowed global"):
        load(io.BytesIO(data))
    assert type(load(io.BytesIO(data), weights_only=False)) is nn.Linear
    with safe_globals([nn.Linear]):
        assert type(load(io.BytesIO(data))) is nn.Linear


def test_the_environment_decides_whether_files_may_run_code(monkeypatch) -> None:
    data = bytes_of(nn.Linear(2, 1))
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="FORCE_NO_WEIGHTS_ONLY_LOAD detected, .* not explicitly"):
        assert type(load(io.BytesIO(data))) is nn.Linear
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert type(load(io.BytesIO(data), weights_only=False)) is nn.Linear
    with pytest.raises(pickle.UnpicklingError):
        load(io.BytesIO(data), weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
        load(io.BytesIO(data))
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with pytest.raises(pickle.UnpicklingError):
        load(io.BytesIO(data), weights_only=False)


# --- what is in a file ------------------------------------------------------------------------


def test_records_and_names_are_those_of_torch() -> None:
    state = nn.Linear(2, 1).state_dict()
    data = bytes_of({"state": state, "p": nn.Parameter(shmtensor.ones(1)), "d": shmtensor.float16})
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        assert file.namelist() == [
            "archive/data.pkl",
            "archive/.format_version",
            "archive/.storage_alignment",
            "archive/byteorder",
            "archive/data/0",
            "archive/data/1",
            "archive/data/2",
            "archive/version",
            "archive/.data/serialization_id",
        ]
        assert file.read("archive/version") == b"3\n"
        assert len(file.read("archive/.data/serialization_id")) == 40
    assert globals_of(data) == {
        "collections OrderedDict",
        "torch FloatStorage",
        "torch float16",
        "torch._utils _rebuild_parameter",
        "torch._utils _rebuild_tensor_v2",
    }


def test_the_program_of_a_tensor_is_the_one_that_torch_writes() -> None:
    with zipfile.ZipFile(io.BytesIO(bytes_of(shmtensor.ones(2)))) as file:
        assert file.read("archive/data.pkl") == (
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((X\x07\x00\x00\x00storageq\x01"
            b"ctorch\nFloatStorage\nq\x02X\x01\x00\x00\x000q\x03X\x03\x00\x00\x00cpuq\x04K\x02tq\x05"
            b"QK\x00K\x02\x85q\x06K\x01\x85q\x07\x89ccollections\nOrderedDict\nq\x08)Rq\ttq\nRq\x0b."
        )


def test_equal_contents_give_equal_files() -> None:
    assert bytes_of([shmtensor.ones(2), 3]) == bytes_of([shmtensor.ones(2), 3])
    assert bytes_of(shmtensor.ones(2))[-200:] != bytes_of(shmtensor.zeros(2))[-200:]


# --- files that torch wrote -------------------------------------------------------------------

#: Of {"m": Linear(1, 1).state_dict() with 0.5 and -2, "e": 3}, packed by zlib.
TORCH_ARCHIVE = (
    "c-o~^zi-n(6h0@Zle&;JrL?rr3YdZfshu{d!;cmj<i!J_2+8VVInEJVIC0OuqyniD5-L(h5E2`I0Xq^?CsxGH#smuze*"
    "t%PN$o3bRC1E@6z6^KeRuEsE)6Z60U(zHN7f{m0;X@-P9H9{Ol+37p1P`%2b+oYBDI4+N#_WlgE-6bTo+o{@w$QVz;8h"
    "xw(dI?7EtQi21=K7p5$#qr)^`Dv9L$VmyI5F+(0mV*z7rO%fPT3c)roE2xzQS(z65+kW8};5g$PW)%8sLD0(TNY}j2yI"
    "Xz9Hwbeu88i$eaPy-sLaj(!s6wd6~l*L($@*Ak2lWl{hV+Lr_CVgz)j_OFLXovWz5WkDg(U0i}dmf{i4K&-^K^OFKl5B"
    "J!HtFG@x$yUSot_-JxPvZ*#QV?>$XTETjSGUH88(1uQA_vA4K177|M|IJC-3OfICc=TKp708{KWG+CN>TVtI8TPkJB!R"
    "^7#1c+e=D~KF9Nz2djrX4n|^_uG8*zU>B>(^8Zk&txy8%+vrD%v`C#upa|9n1e(t<^r*m8<<=-i;5rz)kaF0)^L>uWlR"
    "uF|9;_u?u_UU>%@GKYlIyhlmETw2QAK8kbibSIE~(1xkrY6R?$iDs7A}7p-oFr=z(9f{o&T~xyMKM(ems2si=c8Sz;OE"
    "k^c|wW=O(>z45y_k<x`Rot2Idy<!WWQCe>@JVzp9Vkyh(+wJM9EBulcmQWNVHnX=q`4Zf5Jk5b5zqhtp><5r$L!koQFS"
    "#;chvkBxL2aYp8TO@9x`J{1D-~{Kgb>c=SChEM2)fpI&g~yegPrzr=fbkBCjjJ$;eam7c78}=4A%UIF09LguI6m6N<ep"
    ">Te~Yf6@%;6_5>4M2AahKdNJUW|iz30%{|Im|8-0&%-!VSI<ih+Y_YVO!t)T"
)
TORCH_LEGACY = (
    "c-n1IOK#gR5Y^9i!^TP4G)>)nkfpjYTHB55RW^k;L_T#k+!TT=5f%ek^oS!DEg-;~6m8GY1N0cVPL2>Di%?Pw6oI)Il8"
    "<lRycsU6KP0~YJG?u(`ghT4FRasBTgMy>mu(q_F-s-NK*rvjr%K2KOif@-{Sphrn0q`4g`a@+ixCat_Zjz;_`wy}IXEt"
    ">X;4KnMW|7W+4?3DggSMYQ)tL!0uAb9*|Mgo(J7dLE*bLxbwx$a(~ze;{44?_V7(iG?XtS&edA&hAvgibG>F<>h9XwPO"
    "Zhkxap)mWluW&Ohd|ABS)*{Gnf`=By-Fd&So(Nbfdm?CLvsebUhjA?=nuLd-}gK4tTY|WGFYSL83Or24Qf*JCp@pV_1{"
    "t9sfn;Lg3Yq6vG5gaMY?KKkDjQ0>VD`R!;7d=ds(Vo!*&r~RZ2SuuSc+(<?x2B=~QpZ(GPv}p;f-WWg0YKFNgiIspZcc"
    "P*W*2E=S1WklMvizZOGX(U!T&mBrgd^5Z)B?|kzBgL992"
)


@pytest.mark.parametrize("stored", [TORCH_ARCHIVE, TORCH_LEGACY], ids=["archive", "legacy"])
def test_a_stored_file_of_torch_is_read(stored: str) -> None:
    loaded = load(io.BytesIO(zlib.decompress(base64.b85decode(stored))))
    assert loaded["e"] == 3
    assert {k: v.tolist() for k, v in loaded["m"].items()} == {"weight": [[0.5]], "bias": [-2.0]}
    nn.Linear(1, 1).load_state_dict(loaded["m"])


def _values(torch: Any) -> list[Any]:
    """The same values by either package."""
    base = torch.arange(12.0).reshape(3, 4)
    values = [base, base[1:, ::2], base.t(), torch.empty(0, 3), torch.tensor(2.5)]
    values += [torch.tensor([[0, 1, 1]], dtype=getattr(torch, row.name)) for row in DTYPES]
    values += [
        torch.ones(2, requires_grad=True),
        torch.nn.Parameter(torch.ones(2)),
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([1 + 2j]).conj().imag,
        torch.empty(2, 3, device="meta"),
        torch.Size([1, 2]),
        torch.float64,
        torch.device("cpu"),
        torch.strided,
    ]
    return values


def _described(value: Any) -> Any:
    if not hasattr(value, "stride"):
        return repr(value)
    return (
        type(value).__name__,
        str(value.dtype),
        tuple(value.shape),
        value.stride(),
        value.storage_offset(),
        value.requires_grad,
        value.is_conj(),
        value.is_neg(),
        None if value.is_meta else value.tolist(),
    )


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_torch_reads_our_archive_and_we_read_its() -> None:
    torch = pytest.importorskip("torch")
    ours, its = _values(shmtensor), _values(torch)
    assert list(map(_described, ours)) == list(map(_described, its))
    read = torch.load(io.BytesIO(bytes_of(ours)), weights_only=True)
    assert list(map(_described, read)) == list(map(_described, its))
    assert read[0].untyped_storage().data_ptr() == read[1].untyped_storage().data_ptr()
    buffer = io.BytesIO()
    torch.save(its, buffer)
    buffer.seek(0)
    assert list(map(_described, load(buffer))) == list(map(_described, its))


def test_torch_and_we_read_each_others_legacy_files() -> None:
    torch = pytest.importorskip("torch")
    buffer = io.BytesIO()
    its = {"a": torch.arange(4.0)[1:], "b": torch.nn.Linear(1, 2).state_dict()}
    torch.save(its, buffer, _use_new_zipfile_serialization=False)
    buffer.seek(0)
    ours = load(buffer)
    assert _described(ours["a"]) == _described(its["a"])
    assert ours["b"]["weight"].tolist() == its["b"]["weight"].tolist()
    read = torch.load(io.BytesIO(bytes_of(ours, archive=False)), weights_only=True)
    assert _described(read["a"]) == _described(its["a"])
    assert read["b"]._metadata == its["b"]._metadata


def test_torch_maps_our_archive(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "state.pt"
    save({"a": shmtensor.arange(1000.0), "b": shmtensor.ones(3)}, path)
    read = torch.load(path, mmap=True, weights_only=True)
    assert read["a"].sum().item() == 499500.0
    torch.save({"a": torch.arange(1000.0)}, path)
    assert load(path, mmap=True)["a"].sum().item() == 499500.0


def test_a_whole_module_of_torch_becomes_ours() -> None:
    torch = pytest.importorskip("torch")
    buffer = io.BytesIO()
    its = torch.nn.Sequential(
        torch.nn.Embedding(3, 4),
        torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0),
        torch.nn.LayerNorm(4),
    )
    torch.save(its, buffer)
    buffer.seek(0)
    ours = load(buffer, weights_only=False)
    assert {type(module).__module__.partition(".")[0] for module in ours.modules()} == {"shmtensor"}
    index = [[0, 2]]
    expected = its(torch.tensor(index)).detach().flatten().tolist()
    assert ours(shmtensor.tensor(index)).detach().flatten().tolist() == pytest.approx(
        expected, abs=1e-5
    )


@pytest.mark.check
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_a_module_with_a_recomputed_weight_becomes_ours() -> None:
    torch = pytest.importorskip("torch")
    its = torch.nn.utils.weight_norm(torch.nn.Linear(2, 3))
    buffer = io.BytesIO()
    torch.save(its, buffer)
    buffer.seek(0)
    ours = load(buffer, weights_only=False)
    expected = its(torch.ones(1, 2)).detach().flatten().tolist()
    assert ours(shmtensor.ones(1, 2)).flatten().tolist() == pytest.approx(expected, abs=1e-5)


def test_a_name_of_torch_that_is_not_here_is_named() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("a/data.pkl", b"\x80\x02ctorch.nn.modules.linear\nTriangular\n.")
    file.seek(0)
    with pytest.raises(
        pickle.UnpicklingError, match=r"linear\.Triangular, which shmtensor does not"
    ):
        load(file, weights_only=False)


@pytest.mark.parametrize(
    "name",
    ["add", "nn.functional.gelu", "nn.functional.relu", "linalg.inv", "fft.fft", "Tensor.add"],
)
def test_functions_are_saved_by_name_and_found_as_ours(name: str) -> None:
    path = operator.attrgetter(name)
    ours = path(shmtensor)
    assert load(io.BytesIO(bytes_of(ours)), weights_only=False) is ours
    assert pickle.loads(pickle.dumps(ours)) is ours
    torch = pytest.importorskip("torch")
    buffer = io.BytesIO()
    torch.save(path(torch), buffer)
    buffer.seek(0)
    assert load(buffer, weights_only=False) is ours


def test_a_sparse_tensor_in_a_file_of_torch_is_one() -> None:
    torch = pytest.importorskip("torch")
    buffer = io.BytesIO()
    torch.save(torch.eye(2).to_sparse(), buffer)
    buffer.seek(0)
    loaded = load(buffer)
    assert loaded.is_sparse
    assert loaded.to_dense().tolist() == [[1, 0], [0, 1]]


# --- files and places -------------------------------------------------------------------------


class _Reading:
    """Only reads."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)
        self.read = self._file.read
        self.readline = self._file.readline


class _Unseekable(io.BytesIO):
    def seek(self, *arguments: Any) -> int:
        raise io.UnsupportedOperation("seek")


class _Writing:
    """Only writes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: Any) -> int:
        self.data += data
        return len(memoryview(data))


def test_a_file_that_cannot_be_positioned_gets_a_hint() -> None:
    data = bytes_of(shmtensor.ones(2))
    with pytest.raises(AttributeError, match=r"has no attribute 'seek'\. You can only torch\.load"):
        load(_Reading(data))  # type: ignore[arg-type]
    with pytest.raises(io.UnsupportedOperation, match=r"seek\. You can only torch\.load"):
        load(_Unseekable(data))


@FORMATS
def test_a_file_that_only_writes_is_written(archive: bool) -> None:
    file = _Writing()
    save(shmtensor.ones(2), file, _use_new_zipfile_serialization=archive)  # type: ignore[arg-type]
    assert load(io.BytesIO(bytes(file.data))).tolist() == [1.0, 1.0]


@FORMATS
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_an_object_behind_others_in_a_file(archive: bool, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    opened: Any = gzip.open if packed else open
    with opened(path, "wb") as file:
        pickle.dump(41, file)
        save(shmtensor.arange(3.0), file, _use_new_zipfile_serialization=archive)
    with opened(path, "rb") as file:
        assert pickle.load(file) == 41
        assert load(file).tolist() == [0.0, 1.0, 2.0]


def test_torch_reads_our_object_behind_others() -> None:
    torch = pytest.importorskip("torch")
    for archive in (True, False):
        file = io.BytesIO()
        pickle.dump(41, file)
        save(shmtensor.arange(3.0), file, _use_new_zipfile_serialization=archive)
        file.seek(0)
        pickle.load(file)
        assert torch.load(file, weights_only=True).tolist() == [0.0, 1.0, 2.0]


def test_data_that_looks_like_an_archive() -> None:
    data = shmtensor.tensor([*b"PK\5\6", *([0] * 100)], dtype=shmtensor.uint8)
    assert again(data).tolist() == data.tolist()
    assert again(data, archive=False).tolist() == data.tolist()


def test_strings_of_python_2() -> None:
    """As Python 2 wrote them: every text is a string of bytes."""
    text = "ż".encode()
    program = (
        b"\x80\x02](U\x02" + text + b"ctorch._utils\n_rebuild_tensor_v2\n((U\x07storage"
        b"ctorch\nFloatStorage\nU\x0245U\x03cpu\x8a\x01\x01NtQK\x00K\x01\x85K\x01\x85\x89NtRe."
    )
    head = bytes_of(0, archive=False).rpartition(b"\x80\x02K\x00.")[0]
    data = head + program + b"\x80\x02]U\x0245a." + b"\x01" + bytes(7) + b"\0\0\x80?"
    for weights_only in (True, False):
        for encoding, expected in (("utf-8", "ż"), ("bytes", text)):
            warned = pytest.warns(UserWarning, match="only works if `weights_only=False`")
            with warned if weights_only else contextlib.nullcontext():
                loaded = load(io.BytesIO(data), weights_only=weights_only, encoding=encoding)
            assert loaded[0] == expected
            assert loaded[1].tolist() == [1.0]


def test_storages_that_are_parts_of_another() -> None:
    """As torch 0.3 wrote them."""
    base = shmtensor.tensor([1.0, 2.0])
    key = str(base.untyped_storage()._cdata)
    data = bytes_of(base.storage(), archive=False)
    part = b"X\x01\x00\x00\x00vK\x01K\x01\x87t"  # of that name, from element 1, one element
    assert key.encode() in data
    loaded = load(io.BytesIO(data.replace(b"Nt", part)))
    assert loaded.tolist() == [2.0]
    for bad in (b"K\x02K\x01", b"K\x01K\x02", b"J\xff\xff\xff\xffK\x01"):
        with pytest.raises(RuntimeError, match=r"bytes -?[0-9]+ to"):
            load(io.BytesIO(data.replace(b"Nt", part.replace(b"K\x01K\x01", bad))))


def test_another_unpickler_is_used() -> None:
    class Refusing:
        class Unpickler(pickle.Unpickler):
            def load(self) -> Any:
                raise RuntimeError("refused")

    data = io.BytesIO(bytes_of(shmtensor.ones(2)))
    with pytest.raises(RuntimeError, match="refused"):
        load(data, pickle_module=Refusing)
    with pytest.raises(RuntimeError, match="Can not safely load weights"):
        load(data, pickle_module=Refusing, weights_only=True)


def test_what_cannot_be_written_to() -> None:
    with pytest.raises(AttributeError, match="'write'"):
        save("text", shmtensor.ones(2))  # type: ignore[arg-type]


@FORMATS
def test_a_real_file_keeps_its_position(archive: bool, tmp_path: Path) -> None:
    with (tmp_path / "state.pt").open("w+b") as file:
        save(shmtensor.arange(3.0), file, _use_new_zipfile_serialization=archive)
        if not archive:
            save(shmtensor.ones(2), file, _use_new_zipfile_serialization=False)
        file.seek(0)
        assert load(file).tolist() == [0.0, 1.0, 2.0]
        if not archive:
            assert load(file).tolist() == [1.0, 1.0]


def test_only_archives_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    save(shmtensor.ones(2), path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        load(path, mmap=True)


def test_storages_of_absent_devices_need_a_place() -> None:
    data = bytes_of(shmtensor.ones(2), archive=False).replace(
        b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"
    )
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        load(io.BytesIO(data))
    for place in ("cpu", shmtensor.device("cpu"), {"cuda:0": "cpu"}, lambda storage, _: storage):
        assert load(io.BytesIO(data), map_location=place).tolist() == [1.0, 1.0]
    assert load(io.BytesIO(data), map_location="meta").is_meta
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        load(io.BytesIO(data), map_location="nowhere")


@pytest.mark.parametrize("archived", [True, False], ids=["archive", "legacy"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_errors_of_map_location_are_its_own(archived: bool, weights_only: bool) -> None:
    def missing(storage: Any, location: str) -> Any:
        raise KeyError(location)

    def read(place: Any) -> Any:
        file = io.BytesIO()
        save(shmtensor.ones(2), file, _use_new_zipfile_serialization=archived)
        file.seek(0)
        return load(file, place, weights_only=weights_only)

    with pytest.raises(KeyError, match="cpu"):
        read(missing)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        read(lambda storage: storage)
    with pytest.raises(TypeError, match="'int' object is not callable"):
        read(0)
    with pytest.raises(TypeError, match="should return a storage or None, got Tensor"):
        read(lambda storage, location: shmtensor.ones(2))
    assert read(lambda storage, location: None).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [shmtensor.float32, shmtensor.int16, shmtensor.complex64])
def test_the_order_of_bytes_of_silent_archives_can_be_set(dtype: Any) -> None:
    data = shmtensor.tensor([1, 2, 258], dtype=dtype)
    swapped = data.clone()
    swapped.untyped_storage().byteswap(dtype)
    default = serialization.get_default_load_endianness
    assert default() is None
    with pytest.raises(TypeError, match="Invalid argument type in function set_default_load_end"):
        serialization.set_default_load_endianness("big")
    orders = serialization.LoadEndianness
    native = {"little": orders.LITTLE, "big": orders.BIG}[sys.byteorder]
    try:
        for order in orders:
            serialization.set_default_load_endianness(order)
            assert default() is order
            for says in (True, False):
                file = io.BytesIO()
                save(data, file, _disable_byteorder_record=not says)
                file.seek(0)
                as_it_is = says or order in (native, orders.NATIVE)
                assert load(file).equal(data if as_it_is else swapped)
    finally:
        serialization.set_default_load_endianness(None)
