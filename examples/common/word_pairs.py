"""Pairs of words that stand near each other in texts, for skip-gram."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.data import DataError

Array = np.ndarray[Any, np.dtype[Any]]

#: Every so-manieth text is held out.
HELD_OUT = 20
#: A word that is oftener than this is left out at times: the oftener, the more.
OFTEN = 1e-4
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Pairs:
    """Words and what stands near them.

    Attributes:
        words: The vocabulary, the most frequent first.
        counts: How often each is in the texts.
        train: Centers and contexts, int64 of the same length.
        test: The same, from texts that are held out.
    """

    words: list[str]
    counts: Array
    train: tuple[Array, Array]
    test: tuple[Array, Array]

    def drawn(self, n: int, seed: int) -> Array:
        """Random words, by the power 3/4 of their counts, as word2vec draws what is not near."""
        weights = self.counts**0.75
        draws = np.random.default_rng(seed).random(n)
        return np.searchsorted(np.cumsum(weights / weights.sum())[:-1], draws)


def find_pairs(texts: Iterable[str], window: int, min_count: int, seed: int) -> Pairs:
    """Pair each word with those at most *window* words away in the same text.

    The window of each word has a random size up to that, so nearer words are paired oftener.

    Raises:
        DataError: There are too few words.
    """
    read = [_WORD.findall(text.lower()) for text in texts]
    counted = collections.Counter(word for text in read for word in text)
    words = [word for word, count in counted.most_common() if count >= min_count]
    if len(words) < 100:
        raise DataError(f"only {len(words)} words are in the texts {min_count} times; need 100")
    number = {word: i for i, word in enumerate(words)}
    counts = np.array([counted[word] for word in words], dtype=np.float64)
    rng = np.random.default_rng(seed)
    ids = [np.array([number[w] for w in text if w in number], dtype=np.int64) for text in read]
    held_out = [text for i, text in enumerate(ids) if i % HELD_OUT == 0]
    rest = [text for i, text in enumerate(ids) if i % HELD_OUT]
    train, test = (_pairs(part, counts, window, rng) for part in (rest, held_out))
    if not len(train[0]) or not len(test[0]):
        raise DataError("no two words are near each other")
    return Pairs(words, counts, train, test)


def _pairs(
    texts: list[Array], counts: Array, window: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Centers and contexts of texts."""
    words = np.concatenate(texts)
    text_of = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    keep = rng.random(len(words)) < np.sqrt(OFTEN * counts.sum() / counts[words])
    words, text_of = words[keep], text_of[keep]
    reach = rng.integers(1, window + 1, len(words))
    centers, contexts = [], []
    for distance in range(1, window + 1):
        near = text_of[:-distance] == text_of[distance:]
        left, right = words[:-distance], words[distance:]
        for center, context, its_reach in (
            (left, right, reach[:-distance]),
            (right, left, reach[distance:]),
        ):
            chosen = near & (its_reach >= distance)
            centers.append(center[chosen])
            contexts.append(context[chosen])
    return np.concatenate(centers), np.concatenate(contexts)
