"""Vectors of words, learned from the prose that comes with Python: skip-gram with negative samples.

    python examples/word_vectors.py                       # the standard library's own prose
    python examples/word_vectors.py --packages            # and that of all installed packages
    python examples/word_vectors.py --data notes/         # text and Python files of your own
    python examples/word_vectors.py --near socket,float   # neighbours of these words

Every word has two vectors, as a center and as a neighbour. A step takes pairs of neighbours,
draws random words for each, and makes the score of the pair larger and those of the random ones
smaller. The gradients are sparse: a step reads and changes only the rows of its words in the two
tables, so workers without locks seldom meet.

Held-out texts measure the quality: how often a pair of neighbours there has a higher score than the
same word with a random one; 0.5 is chance. The standard library's docstrings, comments and help
topics, half a million words, give at least 0.63. At the end the program prints the nearest words of
a few, and writes all vectors to vectors.npz.

Source: Mikolov, Sutskever, Chen, Corrado and Dean, "Distributed representations of words and
phrases and their compositionality", 2013.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import text
from common.models import library
from common.program import (
    above_zero,
    add_run_options,
    check_resume,
    draw,
    meet,
    positive,
    results_folder,
    run,
    run_arguments,
)
from common.word_pairs import Pairs, find_pairs

from shmtensor import hogwild

GOAL = 0.63  # share of held-out pairs above random ones
N_DRAWN = 1_000_000  # random words, drawn once


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Word vectors by skip-gram with negative sampling, from Python's own prose. "
        f"By default and with --quick at least {GOAL:.0%} of the pairs in held-out texts have a "
        "higher score than a random pair."
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--data", type=Path, help="file or folder of .txt, .md, .rst and .py files")
    what.add_argument("--packages", action="store_true", help="prose of installed packages too")
    parser.add_argument("--size", type=positive, default=48, help="of a vector (48)")
    parser.add_argument("--window", type=positive, default=5, help="words to each side (5)")
    parser.add_argument("--negatives", type=positive, default=5, help="random words a pair (5)")
    parser.add_argument("--min-count", type=positive, default=5, help="leave out rarer words (5)")
    parser.add_argument("--epochs", type=positive, help="passes over the pairs (8)")
    parser.add_argument("--batch", type=positive, default=512, help="pairs in a step (512)")
    parser.add_argument("--lr", type=above_zero, default=0.2, help="step size of Adagrad (0.2)")
    parser.add_argument(
        "--near", default="file,thread,list,error,socket", help="words to find the nearest of"
    )
    add_run_options(parser)
    options = parser.parse_args(arguments)
    options.epochs = options.epochs or (4 if options.quick else 8)
    return options


def texts(options: argparse.Namespace) -> Iterator[str]:
    """The texts to learn from.

    Raises:
        DataError: There are none at ``--data``.
    """
    if options.data:
        yield from text.read_texts(options.data)
        return
    yield from text.prose(text.standard_library_files())
    yield from text.help_topics()
    if options.packages:
        yield from text.prose(text.python_files(text.installed_packages()))


def make_model(name: str, n_words: int, size: int) -> Any:
    """Two tables of vectors with sparse gradients; a pair's score is the product of its two."""
    lib = library(name)
    tables = {
        part: lib.nn.Embedding(n_words, size, sparse=True) for part in ("centers", "contexts")
    }
    lib.nn.init.uniform_(tables["centers"].weight, -0.5 / size, 0.5 / size)
    lib.nn.init.zeros_(tables["contexts"].weight)
    return lib.nn.ModuleDict(tables)


def loss_of_batch(name: str, drawn: Any, n_negatives: int, worker: Any, batch: Any) -> Any:
    """How badly the scores tell the pairs of a batch from pairs with random words."""
    lib = library(name)
    centers, contexts = batch
    random = lib.core.randint(len(drawn), (len(centers) * n_negatives,))
    others = lib.core.cat([contexts.unsqueeze(1), drawn[random].view(-1, n_negatives)], 1)
    vectors = worker.model["centers"](centers).unsqueeze(1)
    scores = (vectors * worker.model["contexts"](others)).sum(2)
    logsigmoid = lib.nn.functional.logsigmoid
    return -(logsigmoid(scores[:, 0]) + logsigmoid(-scores[:, 1:]).sum(1)).mean()


def measured(centers: Any, contexts: Any, others: Any, model: Any) -> dict[str, float]:
    """The share of pairs with a higher score than the same center with another context."""
    vectors = model["centers"](centers)
    near = (vectors * model["contexts"](contexts)).sum(1)
    far = (vectors * model["contexts"](others)).sum(1)
    wins = (near > far).float().mean() + (near == far).float().mean() / 2
    return {"pairs above random": wins.item()}


def read(options: argparse.Namespace) -> Pairs:
    """The pairs of words to train on, and those that are held out."""
    return find_pairs(texts(options), options.window, options.min_count, options.seed)


def train(
    name: str,
    options: argparse.Namespace,
    pairs: Pairs,
    folder: Path | None,
    trainer: Any = hogwild.run,
) -> Any:
    """Train with shmtensor, or with another library and what trains its models."""
    lib = library(name)
    lib.core.manual_seed(options.seed)
    tensor = lib.core.from_numpy
    centers, contexts = pairs.test
    others = np.random.default_rng(options.seed).permutation(contexts)
    drawn = tensor(pairs.drawn(N_DRAWN, options.seed))
    return trainer(
        functools.partial(make_model, name, len(pairs.words), options.size),
        functools.partial(loss_of_batch, name, drawn, options.negatives),
        tuple(map(tensor, pairs.train)),
        options.workers,
        make_optimizer=functools.partial(lib.optim.Adagrad, lr=options.lr),
        batch_size=options.batch,
        epochs=options.epochs,
        evaluate=functools.partial(measured, *map(tensor, (centers, contexts, others))),
        evaluate_every=0.5,
        title=f"word vectors, {name}",
        **run_arguments(options, folder),
    )


def nearest(words: list[str], vectors: Any, word: str, n: int = 6) -> list[str]:
    """The words whose vectors have the smallest angle to that of a word."""
    unit = vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-12)
    order = np.argsort(-(unit @ unit[words.index(word)]))
    return [words[i] for i in order[1 : n + 1]]


def run_program(options: argparse.Namespace, folder: Path) -> None:
    """Read, train, write, and say what came out."""
    check_resume(options)
    pairs = read(options)
    print(
        f"{len(pairs.words)} words, {len(pairs.train[0])} pairs to train on, "
        f"{len(pairs.test[0])} held out"
    )
    result = train("shmtensor", options, pairs, folder)
    vectors = result.model["centers"].weight.detach().numpy()
    for word in options.near.split(","):
        known = word in pairs.words
        print(f"  {word}: " + (", ".join(nearest(pairs.words, vectors, word)) if known else "?"))
    (metric, value), *_ = result.metrics.items()
    print(f"{metric} {value:.4f}  {result.steps_per_second:.0f} steps/s")
    n_lost = len(result.lost_workers)
    if n_lost:
        print(f"  {options.workers - n_lost} of {options.workers} workers finished")
    result.write_csv(folder / "curve.csv")
    np.savez(folder / "vectors.npz", words=np.array(pairs.words), vectors=vectors)
    draw({"": result.points}, folder / "curve.png", f"word vectors, {options.workers} workers")
    print(f"wrote {folder}/curve.csv, curve.png, vectors.npz")
    if not options.data and not options.packages:
        meet(options, metric, value, at_least=GOAL)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parse(arguments)
    folder = results_folder(options, "word_vectors")
    return run("word_vectors", options, folder, lambda: run_program(options, folder))


if __name__ == "__main__":
    sys.exit(main())
