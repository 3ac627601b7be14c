"""The operators that stand in for torchvision's readers and writers of images."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("PIL")

HEAD = """
import io
import shmtensor.as_torch
import numpy as np
import torch
from PIL import Image
torch.ops.load_library("somewhere/torchvision/image.so")
ops = torch.ops.image
y, x = np.mgrid[0:20, 0:30]
pixels = np.stack([x * 8, y * 12, (x + y) * 5], -1).astype(np.uint8)
image = torch.from_numpy(pixels).permute(2, 0, 1)

def file_of(picture, kind, **options):
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)

def refused(call, *arguments):
    try:
        call(*arguments)
    except RuntimeError as error:
        return str(error)
    raise AssertionError
"""


def run(text: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(text), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.check
def test_pipes_and_devices_are_refused_and_nobody_waits(tmp_path):
    run(
        """
        import os, sys
        os.mkfifo(sys.argv[1])
        for path in (sys.argv[1], "/dev/zero"):
            assert path in refused(ops.read_file, path)
        """,
        str(tmp_path / "pipe"),
    )


def test_png_files_keep_every_pixel(tmp_path):
    run(
        """
        import sys
        data = ops.encode_png(image, 6)
        ops.write_file(sys.argv[1], data)
        assert torch.equal(ops.read_file(sys.argv[1]), data)
        assert np.array_equal(np.asarray(Image.open(sys.argv[1])), pixels)
        for decode in (ops.decode_png, ops.decode_image):
            assert torch.equal(decode(data, 0), image)
        gray = ops.encode_png(image[:1], 0)
        assert torch.equal(ops.decode_png(gray, 0), image[:1])
        assert torch.equal(ops.decode_png(gray, 3), image[:1].expand(3, -1, -1))
        """,
        str(tmp_path / "a.png"),
    )


def test_modes_convert_channels():
    run(
        """
        data = ops.encode_png(image, 6)
        assert [ops.decode_png(data, mode).shape[0] for mode in range(5)] == [3, 1, 2, 3, 4]
        assert (ops.decode_png(data, 4)[3] == 255).all()
        palette = file_of(Image.fromarray(pixels).quantize(16), "PNG")
        assert ops.decode_png(palette, 0).shape == (3, 20, 30)
        """
    )


@pytest.mark.check
def test_jpeg_files_are_those_of_pil():
    run(
        """
        data = file_of(Image.fromarray(pixels), "JPEG", quality=90)
        want = torch.from_numpy(np.array(Image.open(io.BytesIO(data.numpy().tobytes()))))
        assert torch.equal(ops.decode_jpeg(data, 0), want.permute(2, 0, 1))
        again = ops.decode_jpeg(ops.encode_jpeg(image, 95), 3)
        assert (again.int() - image.int()).abs().float().mean() < 4
        turned = Image.fromarray(pixels)
        exif = turned.getexif()
        exif[0x0112] = 6  # a quarter turn
        data = file_of(turned, "JPEG", exif=exif)
        assert ops.decode_jpeg(data, 3).shape == (3, 20, 30)
        assert ops.decode_jpeg(data, 3, True).shape == (3, 30, 20)
        """
    )


def test_gif_files_have_frames():
    run(
        """
        frames = [Image.fromarray(pixels), Image.fromarray(255 - pixels)]
        one = file_of(frames[0], "GIF")
        both = file_of(frames[0], "GIF", save_all=True, append_images=frames[1:])
        assert ops.decode_gif(one).shape == (3, 20, 30)
        assert ops.decode_gif(both).shape == (2, 3, 20, 30)
        """
    )


def test_what_is_no_image_is_refused():
    run(
        """
        png = ops.encode_png(image, 6)
        assert "bytes are not a" in refused(ops.decode_jpeg, png, 0)
        assert "bytes are not a" in refused(ops.decode_image, png[:20], 0)
        assert "bytes are not a" in refused(ops.decode_png, torch.arange(9).byte(), 0)
        assert "(3, 20, 30)" in refused(ops.decode_png, image, 0)
        assert "mode 7" in refused(ops.decode_png, png, 7)
        assert "float32" in refused(ops.encode_png, image.float(), 6)
        assert "10 is not" in refused(ops.encode_png, image, 10)
        assert "0 is not" in refused(ops.encode_jpeg, image, 0)
        assert "No such file" in refused(ops.read_file, "/no/such/file")
        """
    )
