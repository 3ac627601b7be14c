"""Safetensors files: errors name the file, no shape is too large, and any tensor can be saved.

Not covered: the rest of the format (utils/test_safetensors).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shmtensor as T
from shmtensor.files import load_safetensors, open_safetensors, save_safetensors
from shmtensor.storage import from_files
from shmtensor.utils.safetensors import SafetensorsError, load, read_metadata, save

_READERS: dict[str, Callable[[Path], Any]] = {
    "mapped": load_safetensors,
    "read": lambda path: load_safetensors(path, None),
    "shared": lambda path: load_safetensors(path, shared=True),
    "opened": open_safetensors,
    "metadata": read_metadata,
}


def _content(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def _entry(shape: list[int]) -> dict[str, object]:
    return {"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}


@pytest.mark.check
@pytest.mark.parametrize("shape", [[10**19, 0], [0, 2**62], [2**40, 0, 2**40]])
def test_a_shape_of_no_elements_may_not_be_too_large(shape: list[int], tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(_content(_entry(shape)))
    for read in (lambda: load(path.read_bytes()), lambda: load_safetensors(path)):
        with pytest.raises(SafetensorsError, match=r"x: shape \[.*\] has too many elements"):
            read()
    assert load(_content(_entry([2**60, 0])))["x"].shape == (2**60, 0)


@pytest.mark.parametrize("reader", _READERS)
@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 7, _content([1]), _content(_entry([1]))],
    ids=["empty", "short", "no object", "no data"],
)
def test_errors_name_the_file(reader: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(SafetensorsError, match=f"^{re.escape(str(path))}: "):
        _READERS[reader](path)


def test_errors_of_one_tensor_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    header = {
        "byte": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "wide": {"dtype": "F64", "shape": [1], "data_offsets": [1, 9]},
    }
    path.write_bytes(_content(header, bytes(9)))
    with pytest.raises(SafetensorsError, match=f"^{re.escape(str(path))}: wide: begins"):
        open_safetensors(path, "r+")["wide"]


def test_a_file_that_ends_while_it_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    save_safetensors({"x": T.ones(3)}, path)
    read = from_files.read

    def cut_and_read(file: Any, nbytes: int, shared: bool) -> Any:
        os.truncate(path, 20)
        return read(file, nbytes, shared)

    monkeypatch.setattr(from_files, "read", cut_and_read)
    text = rf"^{re.escape(str(path))}: the file ends after 20 of \d+ bytes"
    with pytest.raises(SafetensorsError, match=text):
        load_safetensors(path, None)


@pytest.mark.parametrize("of", ["conj", "neg", "both"])
def test_tensors_that_are_conjugated_or_negated_are_saved_as_they_look(
    of: str, tmp_path: Path
) -> None:
    z = T.tensor([[1 + 2j, 3 - 1j], [2j, 4]])
    views = {
        "conj": z.conj(),
        "neg": T._neg_view(z.real.contiguous()),
        "both": T._neg_view(z.conj()),
    }
    t = views[of]
    save_safetensors({"z": t}, tmp_path / "a")
    assert load_safetensors(tmp_path / "a")["z"].tolist() == t.tolist()
    assert load(save({"z": t}))["z"].tolist() == t.tolist()
