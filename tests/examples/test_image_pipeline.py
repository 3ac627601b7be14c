"""examples/image_pipeline.py as a user runs it, and the PNG files that it reads."""

from __future__ import annotations

import csv
import os
import re
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from programs import EXAMPLES, Run, check_refusals, error_lines, finished

PROGRAM = EXAMPLES / "image_pipeline.py"
N_TRAIN = 1438

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def started(tmp_path) -> Iterator[list[Run]]:
    pytest.importorskip("sklearn")
    runs: list[Run] = []
    yield runs
    for run in runs:
        run.close()


def start(started: list[Run], out: Path, *arguments: str, folder: str = "--out") -> Run:
    run = Run(PROGRAM.name, out, "--quick", *arguments, folder=folder)
    started.append(run)
    return run


def batches_in(text: str) -> int:
    found = re.search(r"(?m)^held-out accuracy [\d.]+ +(\d+) batches", text)
    assert found, text
    return int(found.group(1))


def curve(out: Path) -> list[dict[str, str]]:
    with open(out / "curve.csv") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("output", "method"), [("shmtensor", "fork"), ("numpy", "spawn"), ("torch", "fork")]
)
def test_a_cnn_learns_from_what_the_workers_decode(started, tmp_path, output, method):
    if output == "torch":
        pytest.importorskip("torch")
    out = tmp_path / "run"
    run = start(started, out, "--check", "--output", output, "--start-method", method)
    n_batches = 10 * -(-N_TRAIN // 32)
    assert batches_in(finished(run)) == n_batches
    rows = curve(out)
    assert len(rows) == 10
    assert int(rows[-1]["batches"]) == n_batches
    assert float(rows[-1]["accuracy"]) >= 0.95
    assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "model.safetensors").stat().st_size > 10_000


def test_the_rest_of_an_epoch_comes_from_new_workers(started, tmp_path):
    run = start(started, tmp_path / "run", "--epochs", "6")
    pids = run.worker_pids()
    run.wait_for("epoch [1-9]")
    os.kill(pids[0], signal.SIGKILL)
    run.wait_for("exited unexpectedly")  # until then, an epoch may begin with those that are left
    new = run.worker_pids()
    assert not set(new) & set(pids)
    text = finished(run)
    assert re.search(rf"DataLoader worker.*{pids[0]}.*exited unexpectedly.*new ones continue", text)
    assert batches_in(text) == 6 * -(-N_TRAIN // 32)


def test_all_ends_with_a_killed_parent(started, tmp_path):
    run = start(started, tmp_path / "run")
    run.worker_pids()
    run.wait_for("epoch [1-9]")
    run.process.kill()
    run.process.wait()
    assert run.nothing_is_left()


def test_an_interrupted_run_goes_on(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out, "--epochs", "5")
    first.worker_pids()
    first.wait_for("epoch [1-9]")
    first.process.send_signal(signal.SIGINT)
    assert "interrupted" in first.finish()
    assert first.process.returncode == 130
    assert first.nothing_is_left()
    text = finished(start(started, out, "--epochs", "5", folder="--resume"))
    assert batches_in(text) == 5 * -(-N_TRAIN // 32)


def test_a_run_goes_on_after_everything_was_killed(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out, "--checkpoint-every", "0.1")
    first.wait_for("epoch [2-9]")
    first.kill_all()
    assert first.nothing_is_left()
    text = finished(start(started, out, "--check", folder="--resume"))
    assert batches_in(text) == 10 * -(-N_TRAIN // 32)
    rows = curve(out)
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds == sorted(seconds)
    assert [int(row["batches"]) for row in rows] == [45 * n for n in range(1, 11)]


def test_a_run_of_torch_goes_on_with_shmtensor_and_not_with_other_settings(started, tmp_path):
    pytest.importorskip("torch")
    out = tmp_path / "run"
    first = finished(start(started, out, "--output", "torch", "--epochs", "2"))
    assert batches_in(first) == 90
    (line,) = error_lines(PROGRAM, tmp_path, ("--resume", str(out), "--size", "16"))
    assert "is of a run with size 24, this one has 16" in line
    text = finished(start(started, out, "--epochs", "3", folder="--resume"))
    assert batches_in(text) == 135


def test_bad_input_is_one_line(tmp_path, png):
    (tmp_path / "empty").mkdir()
    damaged = tmp_path / "damaged" / "a"
    damaged.mkdir(parents=True)
    (damaged / "0.png").write_bytes(png.encode(np.zeros((4, 4), np.uint8))[:40])
    cases = {
        ("--size", "2"): "--size must be at least 4, got 2",
        ("--data", "nowhere"): "nowhere: no such folder",
        ("--data", "empty"): "found 0 files in 0 folders",
        ("--data", "damaged"): "0.png",
        ("--batch", "0"): "--batch",
    }
    check_refusals(PROGRAM, tmp_path, cases)
    assert not (tmp_path / "runs").exists()


def test_a_folder_of_classes_is_read(started, tmp_path, png):
    random = np.random.default_rng(0)
    for label, low in enumerate((0, 200)):
        folder = tmp_path / "data" / "ab"[label]
        folder.mkdir(parents=True)
        for i in range(20):
            image = random.integers(low, low + 50, (9, 7), dtype=np.uint8)
            (folder / f"{i}.png").write_bytes(png.encode(image))
    arguments = ("--data", str(tmp_path / "data"), "--epochs", "20", "--batch", "8")
    run = start(started, tmp_path / "run", *arguments)
    text = finished(run)
    assert "32 PNG files to train on" in text
    assert float(curve(tmp_path / "run")[-1]["accuracy"]) == 1


# --- PNG files ----------------------------------------------------------------------------------


@pytest.fixture
def png(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from common import png

    return png


@pytest.fixture
def pictures(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from common import pictures

    return pictures


def test_what_is_written_is_read(png):
    image = np.random.default_rng(0).integers(0, 256, (7, 5), dtype=np.uint8)
    assert np.array_equal(png.decode(png.encode(image)), image)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_files_of_pillow_are_read_as_pillow_reads_them(png, mode):
    image_module = pytest.importorskip("PIL.Image")
    import io

    side = np.linspace(0, 250, 33)
    smooth = (side[:, None] + side[None, ::-1]) / 2  # so that every filter is worth its place
    channels = len(image_module.new(mode, (1, 1)).getbands())
    values = np.stack([np.roll(smooth, 3 * c, axis=1) for c in range(channels)], axis=-1)
    image = image_module.fromarray(values.astype(np.uint8).squeeze(), mode)
    file = io.BytesIO()
    image.save(file, "PNG")
    ours = png.decode(file.getvalue()).astype(int)
    theirs = png.decode(file.getvalue(), "pil").astype(int)
    assert np.abs(ours - theirs).max() <= 1  # grey values are rounded


@pytest.mark.parametrize("kind", range(5))
def test_every_filter_is_undone(png, kind):
    n, width, height = 3, 6, 5
    pixels = np.random.default_rng(kind).integers(0, 256, (height, width * n), dtype=np.uint8)
    rows = np.zeros((height, width * n + 1), np.uint8)
    rows[:, 0] = kind
    for y in range(height):
        for x in range(width * n):
            left = int(pixels[y, x - n]) if x >= n else 0
            up = int(pixels[y - 1, x]) if y else 0
            corner = int(pixels[y - 1, x - n]) if y and x >= n else 0
            plane = left + up - corner
            nearest = sorted((left, up, corner), key=lambda near: abs(plane - near))[0]
            guess = (0, left, up, (left + up) // 2, nearest)[kind]
            rows[y, x + 1] = (int(pixels[y, x]) - guess) % 256
    assert np.array_equal(png._unfiltered(rows, n), pixels)


@pytest.mark.parametrize("where", [0, 20, 45, -20])
def test_damage_is_found(png, where):
    file = bytearray(png.encode(np.arange(36, dtype=np.uint8).reshape(6, 6)))
    file[where] ^= 0xFF
    with pytest.raises(png.PngError):
        png.decode(bytes(file))


def test_a_file_that_unpacks_to_more_than_it_says_takes_no_memory(png):
    file = png.encode(np.zeros((4, 4), np.uint8))
    bomb = png._chunk(b"IDAT", zlib.compress(bytes(10_000_000)))
    begin = file.index(b"IDAT") - 4
    end = file.index(b"IEND") - 4
    assert png.decode(file[:begin] + bomb + file[end:]).shape == (4, 4)


def test_samples_move_but_stay_what_they_are(pictures, png):
    image = np.zeros((12, 12), np.uint8)
    image[4:8, 4:8] = 255
    files = [png.encode(image)] * 2
    still = pictures.Pictures(files, [3, 4], 12, augment=False)
    sample, label = still[1]
    assert label == 4
    assert sample.dtype == np.float32
    assert np.array_equal(sample[0] * 255, image)
    moving = pictures.Pictures(files, [3, 4], 12, augment=True)
    np.random.seed(0)
    drawn = [moving[0][0] for _ in range(20)]
    assert len({sample.tobytes() for sample in drawn}) > 15
    for sample in drawn:
        assert sample.shape == (1, 12, 12)
        assert 8 <= sample.sum() <= 30  # of 16
        assert sample[0, 5:7, 5:7].all()


def test_images_are_resampled_to_the_size(pictures, png):
    image = np.array([[0, 50], [100, 150]], np.uint8)
    sample, _ = pictures.Pictures([png.encode(image)], [0], 4, augment=False)[0]
    assert np.array_equal(sample[0] * 255, image.repeat(2, axis=0).repeat(2, axis=1))
