"""A data set of PNG files, all bytes in one shared tensor; a sample is decoded when it is read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import shmtensor
from common import png
from common.data import DataError, load
from common.program import is_installed

__all__ = ["Pictures", "load_pictures"]

Array = np.ndarray[Any, np.dtype[Any]]

# How far an image is moved, as a share of its side, turned and scaled at most.
_SHIFT, _TURN, _SCALE = 0.08, math.radians(12), 0.1


class Pictures:
    """PNG files and their labels, for the data loader of shmtensor or of torch.

    A sample is an image ``(1, size, size)``, float32 from 0 to 1, and its label. Processes that get
    the data set, however they are started, read the same bytes.

    Args:
        files: The files.
        labels: Of each a class number from 0.
        size: Height and width of the samples.
        augment: Whether a sample is moved, turned and scaled at random each time it is read.
    """

    def __init__(self, files: list[bytes], labels: list[int], size: int, *, augment: bool) -> None:
        ends = np.cumsum([len(file) for file in files])
        packed = np.frombuffer(b"".join(files), np.uint8).copy()
        self._packed: Any = shmtensor.from_numpy(packed).share_memory_()
        self._ends, self._labels = ends.tolist(), labels
        self._size, self._augment = size, augment
        self._decoder = "pil" if is_installed("PIL") else "zlib"

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> tuple[Array, int]:
        begin = self._ends[index - 1] if index else 0
        file = self._packed.numpy()[begin : self._ends[index]].tobytes()
        image = png.decode(file, self._decoder)
        matrix = self._drawn_matrix() if self._augment else np.eye(2, 3)
        moved = _resampled(image, matrix, self._size)
        return moved[None].astype(np.float32) / 255, self._labels[index]

    @property
    def nbytes(self) -> int:
        """Of all files."""
        return int(self._ends[-1])

    @staticmethod
    def _drawn_matrix() -> Array:
        turn, scale, *shift = np.random.uniform(-1, 1, 4)  # seeded by the data loader
        angle, stretch = turn * _TURN, 1 + scale * _SCALE
        cosine, sine = math.cos(angle) * stretch, math.sin(angle) * stretch
        return np.array([[cosine, -sine, shift[0] * _SHIFT], [sine, cosine, shift[1] * _SHIFT]])


def _resampled(image: Array, matrix: Array, size: int) -> Array:
    """An image of *size* x *size*, whose pixels lie at *matrix* of theirs; 0 outside the source.

    Coordinates go from -0.5 to 0.5; the nearest pixel is taken.
    """
    line = (np.arange(size) + 0.5) / size - 0.5
    y, x = line[:, None], line[None, :]
    height, width = image.shape
    rows = np.floor((matrix[0, 0] * y + matrix[0, 1] * x + matrix[0, 2] + 0.5) * height)
    columns = np.floor((matrix[1, 0] * y + matrix[1, 1] * x + matrix[1, 2] + 0.5) * width)
    is_inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    taken = image[
        np.where(is_inside, rows, 0).astype(int), np.where(is_inside, columns, 0).astype(int)
    ]
    return np.where(is_inside, taken, 0)


def _file(digit: Array) -> bytes:
    """A PNG file of a digit ``(1, 8, 8)``, three times as large."""
    return png.encode((digit[0] * 255).astype(np.uint8).repeat(3, axis=0).repeat(3, axis=1))


def _of_folder(folder: Path) -> tuple[list[bytes], list[int]]:
    """Files of a folder with one folder for each class."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    files, labels = [], []
    for number, one in enumerate(classes):
        for path in sorted(one.glob("*.png")):
            data = path.read_bytes()
            try:
                png.decode(data, "pil" if is_installed("PIL") else "zlib")
            except png.PngError as error:
                raise DataError(f"{path}: {error}") from None
            files.append(data)
            labels.append(number)
    if len(set(labels)) < 2 or len(files) < 10:
        raise DataError(
            f"{folder}: expected folders of classes with .png files, found {len(files)} files in "
            f"{len(classes)} folders"
        )
    return files, labels


def load_pictures(path: Path | None, seed: int, size: int) -> tuple[Pictures, Pictures, int]:
    """Load PNG files, or make them of scikit-learn's digits.

    Args:
        path: A folder with one folder for each class; None: the digits.
        seed: Decides which fifth is held out.
        size: Height and width of samples.

    Returns:
        What to train on, what is held out, and the number of classes.

    Raises:
        DataError: There are no PNG files of at least two classes.
    """
    if path is not None:
        files, labels = _of_folder(path)
        order = np.random.default_rng(seed).permutation(len(files)).tolist()
        test, train = order[: len(files) // 5], order[len(files) // 5 :]
        parts = [[(files[i], labels[i]) for i in part] for part in (train, test)]
    else:
        digits = load(None, seed)
        parts = [
            list(zip(map(_file, images), labels.tolist(), strict=True))
            for images, labels in (
                (digits.train_x, digits.train_y),
                (digits.test_x, digits.test_y),
            )
        ]
    made = []
    for part, augment in zip(parts, (True, False), strict=True):
        its_files, its_labels = (list(column) for column in zip(*part, strict=True))
        made.append(Pictures(its_files, its_labels, size, augment=augment))
    n_classes = 1 + max(label for part in parts for _, label in part)
    return made[0], made[1], n_classes
