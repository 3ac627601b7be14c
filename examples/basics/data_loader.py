"""Load batches in worker processes: they arrive in shared memory, as handles.

    python data_loader.py

A dataset says how many samples there are, and makes one. The loader's workers make samples in
parallel and build each batch in the memory where it will be read.
"""

import time

import numpy as np

import shmtensor
from shmtensor.utils.data import DataLoader, Dataset


class Pictures(Dataset[tuple[shmtensor.Tensor, int]]):
    """Pictures that take a while to make, as reading and decoding files does."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> tuple[shmtensor.Tensor, int]:
        time.sleep(0.002)  # reads a file
        label = index % 10
        picture = np.random.default_rng(index).normal(label, 1.0, (3, 64, 64)).astype(np.float32)
        return shmtensor.from_numpy(picture), label


if __name__ == "__main__":
    for n_workers in (0, 2):
        loader = DataLoader(Pictures(), batch_size=50, shuffle=True, num_workers=n_workers)
        began = time.monotonic()
        for pictures, labels in loader:
            error = (pictures.mean((1, 2, 3)) - labels).abs().max().item()
            assert error < 0.1, error
        seconds = time.monotonic() - began
        print(
            f"{n_workers} workers: {len(loader)} batches of {[*pictures.shape]} in {seconds:.2f} s"
        )
    print("batches are in shared memory:", pictures.is_shared())
