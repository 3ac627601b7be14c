"""Data of which a sample touches few parameters: documents with few words each, and ratings.

Generated data have a known rule, so it is known how well they can be learned.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common.data import DataError

Array = np.ndarray[Any, np.dtype[Any]]

#: A tenth is held out.
HELD_OUT = 10


@dataclass(frozen=True)
class Samples:
    """Columns of the same length to train on, and as many to test on.

    Attributes:
        name: What they are.
        train: The columns.
        test: The same of what is held out.
        sizes: How many features there are, or users and items.
    """

    name: str
    train: tuple[Array, ...]
    test: tuple[Array, ...]
    sizes: tuple[int, ...]


def _split(name: str, columns: tuple[Array, ...], sizes: tuple[int, ...]) -> Samples:
    n_test = max(1, len(columns[0]) // HELD_OUT)
    train, test = tuple(c[n_test:] for c in columns), tuple(c[:n_test] for c in columns)
    return Samples(name, train, test, sizes)


def _power_law(n: int, power: float, shift: float = 0.0) -> Array:
    """Cumulated probabilities of *n* things; the k-th one's falls as (k + shift)**-power."""
    total: Array = np.cumsum(1.0 / (np.arange(1, n + 1) + shift) ** power)
    total /= total[-1]
    return total


def documents(seed: int, n: int = 200_000, n_features: int = 50_000, n_words: int = 50) -> Samples:
    """Generate documents of *n_words* words, with a power law of words, in two classes.

    The commonest word is in a quarter of them, as where stop words are left out. A word's value is
    larger where the word is rare, and a document's values have the norm 1, as in the Reuters
    collection RCV1. A hidden weight of each word decides the class.

    Returns:
        Columns: words ``(N, n_words)`` int32, values ``(N, n_words)`` float32, classes ``(N,)``
        float32, 0 or 1.
    """
    rng = np.random.default_rng(seed)
    cumulated = _power_law(n_features, 1.1, shift=30.0)
    ranks = np.searchsorted(cumulated, rng.random((n, n_words)) * cumulated[-1])
    rarity = np.minimum(8.0, -np.log(np.diff(cumulated, prepend=0.0)))
    values = rarity[ranks] * rng.uniform(0.5, 1.5, (n, n_words))
    values /= np.sqrt((values**2).sum(1, keepdims=True))
    classes = (values * rng.standard_normal(n_features)[ranks]).sum(1) > 0
    words = rng.permutation(n_features).astype(np.int32)[ranks]
    columns = words, values.astype(np.float32), classes.astype(np.float32)
    name = f"generated documents, {n_words} of {n_features} words in each"
    return _split(name, columns, (n_features,))


def ratings(
    seed: int,
    noise: float,
    n: int = 1_000_000,
    n_users: int = 10_000,
    n_items: int = 2_000,
    rank: int = 8,
) -> Samples:
    """Generate ratings: a matrix of low rank and variance 1, and noise of that deviation.

    Returns:
        Columns: users ``(N,)`` int64, items ``(N,)`` int64, ratings ``(N,)`` float32.
    """
    rng = np.random.default_rng(seed)
    users, items = (
        rng.permutation(size)[np.searchsorted(_power_law(size, 0.4), rng.random(n))]
        for size in (n_users, n_items)
    )
    tastes, traits = (rng.standard_normal((size, rank)) for size in (n_users, n_items))
    values = (tastes[users] * traits[items]).sum(1) / rank**0.5
    values += noise * rng.standard_normal(n)
    name = f"generated ratings, {n_users} users, {n_items} items, rank {rank}, noise {noise:g}"
    return _split(name, (users, items, values.astype(np.float32)), (n_users, n_items))


def read_ratings(path: Path, seed: int) -> Samples:
    """Read lines ``user,item,rating``; what follows on a line, and a first line of names, is not
    used. The ratings are centred.

    Raises:
        DataError: The file is missing, or a line is something else.
    """
    try:
        with open(path, newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: {error}") from error
    triples = []
    for number, row in enumerate(rows, 1):
        try:
            triples.append((row[0], row[1], float(row[2])))
        except (IndexError, ValueError):
            if number > 1:
                raise DataError(f"{path}: row {number} is not user,item,rating: {row}") from None
    if len(triples) < HELD_OUT:
        raise DataError(f"{path}: at least {HELD_OUT} ratings are needed, got {len(triples)}")
    users, items, given = zip(*triples, strict=True)
    values = np.array(given, dtype=np.float32)
    if not np.isfinite(values).all():
        raise DataError(f"{path}: ratings contain values that are not finite")
    order = np.random.default_rng(seed).permutation(len(values))
    (user_names, user), (item_names, item) = (
        np.unique(ids, return_inverse=True) for ids in (users, items)
    )
    columns = tuple(c[order] for c in (user, item, values - values.mean()))
    return _split(path.name, columns, (len(user_names), len(item_names)))
