"""Images and labels: scikit-learn's digits, or IDX, npz and CSV files.

Whatever the source, images become float32 ``(N, C, H, W)`` with values from 0 to 1, and labels
class numbers from 0. A fifth is held out, unless the source says what to test on.
"""

from __future__ import annotations

import dataclasses
import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_IMAGE_KEYS = ("x_train", "train_images", "images", "x", "X", "data")
_LABEL_KEYS = ("y_train", "train_labels", "labels", "y", "target")
_TEST_KEYS = (("x_test", "y_test"), ("test_images", "test_labels"))


class DataError(ValueError):
    """The data can not be used; the text says why."""


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Images ``(N, C, H, W)`` float32 and labels ``(N,)`` int64, to train and to test on."""

    name: str
    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(max(self.train_y.max(), self.test_y.max())) + 1

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = self.train_x.shape[1:]
        return channels, height, width


def load(path: Path | None, seed: int) -> Dataset:
    """Load the digits, or what lies at *path*.

    Raises:
        DataError: The file is missing or not understood, or scikit-learn is not installed.
    """
    if path is None:
        return _digits(seed)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    try:
        if path.suffix == ".npz":
            return _npz(path, seed)
        if path.suffix == ".csv":
            return _csv(path, seed)
        return _idx(path, seed)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path}: {error}") from error


def _digits(seed: int) -> Dataset:
    try:
        from sklearn.datasets import load_digits  # heavy, and not needed with --data
    except ImportError as error:
        raise DataError(
            "scikit-learn is not installed: pip install 'shmtensor[examples]', or give --data"
        ) from error
    digits = load_digits()
    return _split("digits", digits.images, digits.target, seed)


def _images(raw: Array, scale: float | None = None) -> Array:
    """Any of (N, F), (N, H, W), (N, C, H, W) as float32 (N, C, H, W) from 0 to 1."""
    if raw.ndim == 2:
        side = math.isqrt(raw.shape[1])
        shape = (side, side) if side * side == raw.shape[1] else (1, raw.shape[1])
        raw = raw.reshape(len(raw), *shape)
    if raw.ndim == 3:
        raw = raw[:, None]
    if raw.ndim != 4:
        raise DataError(f"images must have 2 to 4 dimensions, got shape {raw.shape}")
    values = np.ascontiguousarray(raw, dtype=np.float32)
    if not np.isfinite(values).all():
        raise DataError("images contain values that are not finite")
    low = float(values.min())
    span = scale or float(values.max()) - min(low, 0.0)
    return (values - min(low, 0.0)) / (span or 1.0)


def _labels(raw: Array) -> Array:
    labels = np.ascontiguousarray(raw).reshape(-1)
    numbers = labels.astype(np.int64)
    if not np.array_equal(numbers, labels) or (len(numbers) and numbers.min() < 0):
        raise DataError("labels must be whole numbers from 0")
    return numbers


def _split(name: str, images: Array, labels: Array, seed: int) -> Dataset:
    x, y = _images(images), _labels(labels)
    if len(x) != len(y):
        raise DataError(f"there are {len(x)} images but {len(y)} labels")
    if len(x) < 10:
        raise DataError(f"at least 10 examples are needed, got {len(x)}")
    order = np.random.default_rng(seed).permutation(len(x))
    n_test = max(1, len(x) // 5)
    test, train = order[:n_test], order[n_test:]
    return Dataset(name, x[train], y[train], x[test], y[test])


def _given(name: str, train: tuple[Array, Array], test: tuple[Array, Array]) -> Dataset:
    x, y = _images(train[0]), _labels(train[1])
    test_x, test_y = _images(test[0]), _labels(test[1])
    if len(x) != len(y) or len(test_x) != len(test_y):
        raise DataError(
            f"images and labels differ in number: {len(x)}, {len(y)}; {len(test_x)}, {len(test_y)}"
        )
    if x.shape[1:] != test_x.shape[1:]:
        raise DataError(f"train images are {x.shape[1:]}, test images {test_x.shape[1:]}")
    if not len(x) or not len(test_x):
        raise DataError("there are no examples")
    return Dataset(name, x, y, test_x, test_y)


def _npz(path: Path, seed: int) -> Dataset:
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive.items())
    images = next((arrays[k] for k in _IMAGE_KEYS if k in arrays), None)
    labels = next((arrays[k] for k in _LABEL_KEYS if k in arrays), None)
    if images is None or labels is None:
        raise DataError(
            f"{path}: expected one of {', '.join(_IMAGE_KEYS)} and one of "
            f"{', '.join(_LABEL_KEYS)}, found {', '.join(arrays)}"
        )
    for test_x, test_y in _TEST_KEYS:
        if test_x in arrays and test_y in arrays:
            return _given(path.stem, (images, labels), (arrays[test_x], arrays[test_y]))
    return _split(path.stem, images, labels, seed)


def _csv(path: Path, seed: int) -> Dataset:
    """Rows of numbers; the label is the column named so, otherwise the last one."""
    with open(path) as file:
        first = file.readline().strip().split(",")
    column = len(first) - 1
    has_names = not all(_is_number(cell) for cell in first)
    if has_names:
        names = [cell.strip().strip('"').lower() for cell in first]
        column = next((names.index(n) for n in ("label", "target", "class") if n in names), column)
    table = np.loadtxt(path, delimiter=",", skiprows=int(has_names), ndmin=2)
    return _split(path.stem, np.delete(table, column, axis=1), table[:, column], seed)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_idx(path: Path) -> Array:
    """One IDX file, plain or gzipped: magic 0 0 type dims, big-endian sizes, data."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _IDX_TYPES or not raw[3]:
        raise DataError(f"{path}: no IDX file (and neither .npz nor .csv)")
    n_dims = raw[3]
    if len(raw) < 4 + 4 * n_dims:
        raise DataError(f"{path}: an IDX header of {n_dims} dimensions is cut off")
    sizes = [int(n) for n in np.frombuffer(raw, ">u4", n_dims, 4)]
    dtype = np.dtype(_IDX_TYPES[raw[2]])
    wanted = math.prod(sizes) * dtype.itemsize
    if len(raw) - 4 - 4 * n_dims != wanted:
        raise DataError(
            f"{path}: {sizes} takes {wanted} bytes, there are {len(raw) - 4 - 4 * n_dims}"
        )
    return np.frombuffer(raw, dtype, offset=4 + 4 * n_dims).reshape(sizes)


def _pair(images: Path) -> tuple[Array, Array]:
    name = images.name.replace("images", "labels").replace("idx3", "idx1")
    labels = images.with_name(name)
    if name == images.name or not labels.exists():
        raise DataError(f"{images}: no labels beside it, expected {labels.name}")
    return _read_idx(images), _read_idx(labels)


def _idx(path: Path, seed: int) -> Dataset:
    if path.is_file():
        return _split(path.name, *_pair(path), seed)
    found = sorted(p for p in path.iterdir() if "images" in p.name and "idx3" in p.name)
    train = [p for p in found if "train" in p.name]
    test = [p for p in found if "t10k" in p.name or "test" in p.name]
    if not train and len(found) == 1:
        train = found
    if not train:
        raise DataError(f"{path}: no IDX images such as train-images-idx3-ubyte")
    if not test:
        return _split(path.name, *_pair(train[0]), seed)
    return _given(path.name, _pair(train[0]), _pair(test[0]))
