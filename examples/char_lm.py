"""A language model of characters, trained on Python's source by several processes without locks.

    python examples/char_lm.py                      # a transformer on the standard library
    python examples/char_lm.py --model lstm
    python examples/char_lm.py --data src/          # text and Python files of your own
    python examples/char_lm.py --resume runs/char_lm-…

The model sees a row of characters and predicts the next character at each place. Several processes
change its parameters in shared memory, each with its own Adam. The quality is the number of bits
for a character of held-out files: 6.6 if all were equally likely, and about 4.7 if only their
frequencies were known. After the default number of steps the transformer needs at most 2.15 bits,
and the LSTM 1.95; with --quick 2.95 and 2.35. At the end the model writes a text.

Sources: Vaswani et al., "Attention is all you need", 2017; Hochreiter and Schmidhuber, "Long
short-term memory", 1997; Kingma and Ba, "Adam", 2015.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
from pathlib import Path
from typing import Any

from common import characters, text
from common.characters import ALPHABET
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

import shmtensor
from shmtensor import hogwild
from shmtensor.utils.safetensors import save_file

N_TEST = 128  # rows that are measured
N_HEADS = 4
# Of each model: width, layers, step size, steps, steps with --quick.
SETTINGS = {"transformer": (96, 2, 3e-3, 4000, 1000), "lstm": (192, 1, 6e-3, 4000, 800)}
# Bits a character on held-out files: by default, with --quick.
GOALS = {"transformer": (2.15, 2.95), "lstm": (1.95, 2.35)}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    stated = ", ".join(f"{m} {full} ({quick} with --quick)" for m, (full, quick) in GOALS.items())
    parser = argparse.ArgumentParser(
        description="A language model of characters on Python source, trained by several processes "
        f"in shared memory. Bits a character of held-out files, at most: {stated}."
    )
    parser.add_argument("--model", choices=tuple(SETTINGS), default="transformer")
    parser.add_argument("--data", type=Path, help="file or folder instead of Python's own source")
    parser.add_argument("--width", type=positive, help="of the model (transformer 96, lstm 192)")
    parser.add_argument("--layers", type=positive, help="(transformer 2, lstm 1)")
    parser.add_argument("--context", type=positive, default=64, help="characters in a row (64)")
    parser.add_argument("--steps", type=positive, help="of all workers together")
    parser.add_argument("--batch", type=positive, default=16, help="rows in a step (16)")
    parser.add_argument("--lr", type=above_zero, help="step size of Adam")
    parser.add_argument("--temperature", type=above_zero, default=0.7, help="of the sample (0.7)")
    parser.add_argument("--prompt", default="def ", help="how the sample begins")
    parser.add_argument("--sample", type=positive, default=400, help="its characters (400)")
    add_run_options(parser)
    options = parser.parse_args(arguments)
    width, layers, lr, steps, quick_steps = SETTINGS[options.model]
    options.width = options.width or width
    options.layers = options.layers or layers
    options.lr = options.lr or lr
    options.steps = options.steps or (quick_steps if options.quick else steps)
    if options.model == "transformer" and options.width % N_HEADS:
        parser.error(f"--width must be a multiple of {N_HEADS} heads, got {options.width}")
    if not options.prompt:
        parser.error("--prompt must have a character")
    return options


def make_model(name: str, kind: str, width: int, n_layers: int, context: int) -> Any:
    """Parts that `scores` puts together; the same lines make them with shmtensor and with torch."""
    lib = library(name)
    nn = lib.nn
    parts = {"out": nn.Linear(width, len(ALPHABET))}
    if kind == "lstm":
        parts["characters"] = nn.Embedding(len(ALPHABET), width // 2)
        parts["layers"] = nn.LSTM(width // 2, width, n_layers, batch_first=True)
        return nn.ModuleDict(parts)
    parts["characters"] = nn.Embedding(len(ALPHABET), width)
    parts["places"] = nn.Embedding(context, width)
    for name_of_part in ("characters", "places"):
        nn.init.normal_(parts[name_of_part].weight, std=0.1)
    layer = nn.TransformerEncoderLayer(
        width, N_HEADS, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    parts["layers"] = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
    parts["norm"] = nn.LayerNorm(width)
    return nn.ModuleDict(parts)


def scores(name: str, model: Any, seen: Any) -> Any:
    """A score for each character to follow at each place: ``(N, L)`` to ``(N, L, alphabet)``."""
    vectors = model["characters"](seen)
    if "places" not in model:
        return model["out"](model["layers"](vectors)[0])
    length = seen.shape[1]
    later = _hides_what_follows(name, length)
    vectors = vectors + model["places"].weight[:length]
    return model["out"](model["norm"](model["layers"](vectors, mask=later, is_causal=True)))


@functools.cache
def _hides_what_follows(name: str, length: int) -> Any:
    """The mask of attention with which a place sees itself and those before."""
    return library(name).nn.Transformer.generate_square_subsequent_mask(length)


def loss_of_rows(name: str, model: Any, rows: Any) -> Any:
    """Cross entropy of the next characters."""
    rows = rows.long()
    found = scores(name, model, rows[:, :-1]).flatten(0, 1)
    return library(name).nn.functional.cross_entropy(found, rows[:, 1:].flatten())


def loss_of_batch(name: str, worker: Any, rows: Any) -> Any:
    """What a worker minimises."""
    return loss_of_rows(name, worker.model, rows)


def bits(name: str, rows: Any, model: Any) -> dict[str, float]:
    """Bits that a character of held-out rows takes."""
    return {"bits a character": loss_of_rows(name, model, rows).item() / math.log(2)}


def read(options: argparse.Namespace) -> characters.Rows:
    """The rows to train on, and those that are held out."""
    files = text.text_files(options.data) if options.data else text.standard_library_files()
    return characters.make_rows(text.source(files), options.context + 1, N_TEST, options.seed)


def train(
    name: str,
    options: argparse.Namespace,
    rows: characters.Rows,
    folder: Path | None,
    trainer: Any = hogwild.run,
) -> Any:
    """Train with shmtensor, or with another library and what trains its models."""
    lib = library(name)
    lib.core.manual_seed(options.seed)
    shape = (options.model, options.width, options.layers, options.context)
    return trainer(
        functools.partial(make_model, name, *shape),
        functools.partial(loss_of_batch, name),
        (lib.core.from_numpy(rows.train),),
        options.workers,
        make_optimizer=functools.partial(lib.optim.Adam, lr=options.lr),
        batch_size=options.batch,
        steps=max(1, options.steps // options.workers),
        evaluate=functools.partial(bits, name, lib.core.from_numpy(rows.test)),
        evaluate_every=1.0,
        title=f"{options.model}, {name}",
        **run_arguments(options, folder),
    )


def sample(model: Any, options: argparse.Namespace) -> str:
    """A text that the model says: each character drawn by its probability after those before."""
    generator = shmtensor.Generator().manual_seed(options.seed)
    said = [int(i) for i in characters.encode(options.prompt)]
    with shmtensor.no_grad():
        for _ in range(options.sample):
            seen = shmtensor.tensor([said[-options.context :]])
            found = scores("shmtensor", model, seen)[0, -1] / options.temperature
            said.append(int(found.softmax(0).multinomial(1, generator=generator).item()))
    return characters.decode(said)


def run_program(options: argparse.Namespace, folder: Path) -> None:
    """Read, train, write, and say what came out."""
    check_resume(options)
    rows = read(options)
    print(
        f"{rows.train.size} characters of source to train on; {options.model} of width "
        f"{options.width} with {options.workers} workers"
    )
    result = train("shmtensor", options, rows, folder)
    ((metric, value),) = result.metrics.items()
    said = sample(result.model.eval(), options)
    print("-" * 72 + f"\n{said}\n" + "-" * 72)
    print(f"{metric} {value:.4f}  {result.steps_per_second:.1f} steps/s")
    n_lost = len(result.lost_workers)
    if n_lost:
        print(f"  {options.workers - n_lost} of {options.workers} workers finished")
    result.write_csv(folder / "curve.csv")
    (folder / "sample.txt").write_text(said, "utf-8")
    save_file(dict(result.model.state_dict()), folder / "model.safetensors")
    draw({"": result.points}, folder / "curve.png", f"{options.model}, {options.workers} workers")
    print(f"wrote {folder}/curve.csv, curve.png, sample.txt, model.safetensors")
    if not options.data:
        meet(options, metric, value, at_most=GOALS[options.model][bool(options.quick)])


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parse(arguments)
    folder = results_folder(options, f"char_lm-{options.model}")
    return run("char_lm", options, folder, lambda: run_program(options, folder))


if __name__ == "__main__":
    sys.exit(main())
