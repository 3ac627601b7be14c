"""Text as numbers, one for each character, in rows of the same length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.data import DataError

__all__ = ["ALPHABET", "Rows", "decode", "encode", "make_rows"]

Array = np.ndarray[Any, np.dtype[Any]]

#: Printable ASCII, the end of a line, and one sign for all others.
ALPHABET = "".join(map(chr, range(32, 127))) + "\n\N{REPLACEMENT CHARACTER}"
#: Every so-manieth text is held out.
HELD_OUT = 20


@dataclass(frozen=True)
class Rows:
    """Rows of characters, uint8 ``(N, length)``, to train and to test on."""

    train: Array
    test: Array


def encode(text: str) -> Array:
    """The numbers of a text's characters; a tab is four spaces."""
    raw = np.frombuffer(text.expandtabs(4).encode("ascii", "replace"), dtype=np.uint8)
    numbers = np.full(256, len(ALPHABET) - 1, dtype=np.uint8)
    for i, character in enumerate(ALPHABET[:-1]):
        numbers[ord(character)] = i
    return numbers[raw]


def decode(numbers: Iterable[int]) -> str:
    """The text of numbers."""
    return "".join(ALPHABET[i] for i in numbers)


def make_rows(texts: Iterable[str], length: int, n_test: int, seed: int) -> Rows:
    """Cut texts into rows of *length*; of the rows of every 20th text *n_test* are to test on.

    Raises:
        DataError: There is too little text.
    """
    parts: list[list[Array]] = [[], []]
    for i, text in enumerate(texts):
        parts[i % HELD_OUT == HELD_OUT - 1].append(encode(text))
    train, test = (np.concatenate(p) if p else np.empty(0, np.uint8) for p in parts)
    if not len(test):  # few texts: the end of them all
        n = len(train) - len(train) // HELD_OUT
        train, test = train[:n], train[n:]
    rows = [a[: len(a) // length * length].reshape(-1, length) for a in (train, test)]
    if min(map(len, rows)) == 0:
        raise DataError(
            f"{len(train)} characters to train on and {len(test)} held out are too few for rows "
            f"of {length}"
        )
    chosen = np.random.default_rng(seed).permutation(len(rows[1]))[:n_test]
    return Rows(rows[0], rows[1][chosen])
