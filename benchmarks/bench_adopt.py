"""torch tensors and NumPy arrays in our queues, compared with torch's queues and the standard ones.

Run ``python benchmarks/bench_adopt.py`` where torch is installed. A value goes to another process
and back; wall time of a round trip. "born" values are made by `torch_empty` and `numpy_empty`; the
others lie in private memory, and are copied once.
"""

from __future__ import annotations

import argparse
import multiprocessing
from typing import Any

import numpy as np
import torch
import torch.multiprocessing
from measure import Call, compare, print_table

import shmtensor
import shmtensor.multiprocessing

SIZES = {"4 KB": 1 << 10, "1 MB": 1 << 18, "16 MB": 1 << 22}


def _echo(out: Any, back: Any) -> None:
    while (value := out.get()) is not None:
        back.put(value)


class _Partner:
    """A process that sends everything back."""

    def __init__(self, out: Any, back: Any, context: Any) -> None:
        self.out, self.back = out, back
        self.process = context.Process(target=_echo, args=(out, back), daemon=True)
        self.process.start()

    def call(self, value: Any) -> Call:
        def round_trip() -> None:
            self.out.put(value)
            self.back.get()

        return round_trip

    def end(self) -> None:
        self.out.put(None)
        self.process.join()


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=9)
    samples = parser.parse_args().samples
    ours = shmtensor.multiprocessing.get_context("fork")
    theirs = torch.multiprocessing.get_context("fork")
    standard = multiprocessing.get_context("fork")
    adopt = {"adopt": ["torch", "numpy"]}
    partners = [
        _Partner(ours.SimpleQueue(**adopt), ours.SimpleQueue(**adopt), ours),
        _Partner(theirs.SimpleQueue(), theirs.SimpleQueue(), theirs),
        _Partner(standard.SimpleQueue(), standard.SimpleQueue(), standard),
    ]
    us, torchs, std = partners
    results = []
    for label, n in SIZES.items():
        values = {
            f"torch tensor, {label}": (torch.ones(n), torch.ones(n), torchs),
            f"torch tensor, {label}, born": (
                shmtensor.torch_empty(n).fill_(1),
                torch.ones(n).share_memory_(),
                torchs,
            ),
            f"NumPy array, {label}": (np.ones(n, np.float32), np.ones(n, np.float32), std),
            f"NumPy array, {label}, born": (
                shmtensor.numpy_empty(n, np.float32),
                np.ones(n, np.float32),
                std,
            ),
        }
        for name, (mine, other, partner) in values.items():
            a, b = us.call(mine), partner.call(other)
            results.append(compare(name, a, b, samples=samples, sample_ms=20.0, wall=True))
    print_table(results)
    for partner in partners:
        partner.end()


if __name__ == "__main__":
    main()
