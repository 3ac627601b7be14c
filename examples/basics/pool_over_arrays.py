"""Let a pool of processes write into one array, each its own rows.

    python pool_over_arrays.py

The arrays are in shared memory: a task gets their handles, and its results are where the parent
looks for them. Nothing is copied.
"""

import math

import shmtensor
from shmtensor import multiprocessing as mp


def smooth_rows(task: tuple[shmtensor.Tensor, shmtensor.Tensor]) -> float:
    """Write the running mean of 9 columns of each row into *out*; return the largest change."""
    rows, out = task
    padded = shmtensor.nn.functional.pad(rows, (4, 4))
    out.copy_(padded.unfold(1, 9, 1).mean(2))
    return (out - rows).abs().max().item()


if __name__ == "__main__":
    noise = shmtensor.randn(1000, 2000)
    signal = (shmtensor.linspace(0, 8 * math.pi, 2000).sin() + 0.3 * noise).share_memory_()
    smooth = shmtensor.empty(1000, 2000, shared=True)
    with mp.Pool(2) as pool:
        # Parts of a tensor are views: they are sent as handles of its memory.
        tasks = list(zip(signal.split(100), smooth.split(100), strict=True))
        for i, change in enumerate(pool.imap(smooth_rows, tasks)):
            print(f"rows {100 * i:3} to {100 * i + 99:3}: changed by {change:.2f} at most")
    print(f"deviation {signal.std():.3f} before, {smooth.std():.3f} after")
