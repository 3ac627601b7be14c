"""The operators of torchvision's ``image.so``: files of images as tensors, read and written by PIL.

torchvision itself needs PIL. An image is uint8, ``(C, H, W)``; a file's bytes are uint8, ``(N,)``.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.library import Library
from shmtensor.storage import from_files

__all__ = ["LIBRARY"]

#: ``ImageReadMode`` of torchvision -> mode of PIL; 0 leaves the image as it is.
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
#: Modes of PIL that are uint8 channels as they are.
_PLAIN = ("L", "LA", "RGB", "RGBA")


def _pil(part: str) -> Any:
    return importlib.import_module(f"PIL.{part}")


def _bytes_of(name: str, data: Tensor) -> io.BytesIO:
    if data.dtype is not _C.uint8 or data.dim() != 1 or not data.numel():
        raise RuntimeError(
            f"{name}(): expected the bytes of a file, uint8 of one dimension that is not empty, "
            f"got {data.dtype}, {tuple(data.shape)}"
        )
    return io.BytesIO(data.numpy().tobytes())


def _tensor_of(image: Any) -> Tensor:
    size = (image.height, image.width, len(image.getbands()))
    flat = shmtensor.frombuffer(bytearray(image.tobytes()), dtype=_C.uint8)
    result: Tensor = flat.view(size).permute(2, 0, 1).contiguous()
    return result


def _decode(name: str, data: Tensor, mode: int, turned: bool, formats: tuple[str, ...]) -> Tensor:
    """Return the image in the bytes of a file.

    Raises:
        RuntimeError: *data* has no image of these formats, or *mode* is unknown.
    """
    file = _bytes_of(name, data)
    if mode != 0 and mode not in _MODES:
        raise RuntimeError(f"{name}(): unknown mode {mode}")
    try:
        image = _pil("Image").open(file, formats=formats)
        image.load()
    except (OSError, SyntaxError) as error:
        kinds = " or ".join(formats)
        raise RuntimeError(f"{name}(): the bytes are not a {kinds} image: {error}") from None
    if turned:
        image = _pil("ImageOps").exif_transpose(image)
    wanted = _MODES.get(mode)
    if wanted is None and image.mode not in _PLAIN:
        wanted = "RGBA" if "transparency" in image.info else "L" if image.mode == "1" else "RGB"
    return _tensor_of(image if wanted in (None, image.mode) else image.convert(wanted))


def _decoder(name: str, *formats: str) -> Callable[[Tensor, int, bool], Tensor]:
    def decode(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
        return _decode(name, data, mode, apply_exif_orientation, formats)

    return decode


def _decode_gif(data: Tensor) -> Tensor:
    """Return the frames of a GIF, ``(N, 3, H, W)``; one frame is ``(3, H, W)``."""
    file = _bytes_of("decode_gif", data)
    try:
        image = _pil("Image").open(file, formats=("GIF",))
    except OSError as error:
        raise RuntimeError(f"decode_gif(): the bytes are not a GIF: {error}") from None
    frames = []
    for number in range(image.n_frames):
        image.seek(number)
        frames.append(_tensor_of(image.convert("RGB")))
    return frames[0] if len(frames) == 1 else shmtensor.stack(frames)


def _encode(name: str, data: Tensor, kind: str, **options: int) -> Tensor:
    """Return the bytes of a file with the image *data*.

    Raises:
        RuntimeError: *data* is not uint8 of ``(1, H, W)`` or ``(3, H, W)``.
    """
    if data.dtype is not _C.uint8 or data.dim() != 3 or data.size(0) not in (1, 3):
        raise RuntimeError(
            f"{name}(): expected uint8, (1, H, W) or (3, H, W), got {data.dtype}, "
            f"{tuple(data.shape)}"
        )
    array = data.permute(1, 2, 0).contiguous().numpy()
    mode = "L" if data.size(0) == 1 else "RGB"
    image = _pil("Image").frombytes(mode, (data.size(2), data.size(1)), array.tobytes())
    file = io.BytesIO()
    image.save(file, kind, **options)
    return shmtensor.frombuffer(bytearray(file.getvalue()), dtype=_C.uint8)


def _encode_png(data: Tensor, compression_level: int) -> Tensor:
    if not 0 <= compression_level <= 9:
        raise RuntimeError(f"encode_png(): compression level {compression_level} is not in 0..9")
    return _encode("encode_png", data, "PNG", compress_level=compression_level)


def _encode_jpeg(data: Tensor, quality: int) -> Tensor:
    if not 1 <= quality <= 100:
        raise RuntimeError(f"encode_jpeg(): quality {quality} is not in 1..100")
    return _encode("encode_jpeg", data, "JPEG", quality=quality)


def _read_file(filename: str) -> Tensor:
    try:
        with from_files.open_regular(filename) as (file, _):
            data = file.read()
    except OSError as error:
        raise RuntimeError(f"read_file(): {filename}: {error.strerror}") from None
    except ValueError as error:
        raise RuntimeError(f"read_file(): {error}") from None
    if not data:
        raise RuntimeError(f"read_file(): {filename} is empty")
    return shmtensor.frombuffer(bytearray(data), dtype=_C.uint8)


def _write_file(filename: str, data: Tensor) -> None:
    Path(filename).write_bytes(_bytes_of("write_file", data).getvalue())


_EXIF = "bool apply_exif_orientation=False"
#: Schema -> what computes it.
_OPERATORS: dict[str, Callable[..., Any]] = {
    f"decode_image(Tensor data, int mode, {_EXIF}) -> Tensor": _decoder(
        "decode_image", "JPEG", "PNG", "GIF", "WEBP"
    ),
    f"decode_png(Tensor data, int mode, {_EXIF}) -> Tensor": _decoder("decode_png", "PNG"),
    f"decode_jpeg(Tensor data, int mode, {_EXIF}) -> Tensor": _decoder("decode_jpeg", "JPEG"),
    "decode_webp(Tensor encoded_data, int mode) -> Tensor": lambda data, mode: _decode(
        "decode_webp", data, mode, False, ("WEBP",)
    ),
    "decode_gif(Tensor encoded_data) -> Tensor": _decode_gif,
    "encode_png(Tensor data, int compression_level) -> Tensor": _encode_png,
    "encode_jpeg(Tensor data, int quality) -> Tensor": _encode_jpeg,
    "read_file(str filename) -> Tensor": _read_file,
    "write_file(str filename, Tensor data) -> ()": _write_file,
}

#: Keeps the operators; they stay as long as the process.
LIBRARY = Library("image", "FRAGMENT")


def _define() -> None:
    for schema, function in _OPERATORS.items():
        LIBRARY.define(schema)
        # read_file has no tensor that says where to dispatch.
        LIBRARY.impl(schema.partition("(")[0], function, "CompositeExplicitAutograd")


if not _C._operator_overloads("image::read_file"):
    _define()
