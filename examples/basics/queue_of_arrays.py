"""Send NumPy arrays to another process and back through queues, without copying them.

    python queue_of_arrays.py

An array from `numpy_empty` is in shared memory, and the queue carries its handle. Any other
array is copied once, into shared memory.
"""

import numpy as np

from shmtensor import multiprocessing as mp
from shmtensor import numpy_empty


def work(todo: mp.Queue, done: mp.Queue) -> None:
    """Scale each picture where it lies, and say what its mean was."""
    for number, picture in iter(todo.get, None):
        mean = float(picture.mean())
        picture -= mean  # seen by whoever has the array, here and there
        done.put((number, mean, picture))


if __name__ == "__main__":
    todo, done = mp.Queue(adopt="numpy"), mp.Queue(adopt="numpy")
    workers = [mp.Process(target=work, args=(todo, done)) for _ in range(2)]
    for worker in workers:
        worker.start()

    n_pictures = 20
    for number in range(n_pictures):
        picture = numpy_empty((512, 512), np.float32)
        picture[:] = np.random.default_rng(number).random((512, 512), np.float32) + number
        todo.put((number, picture))
    for _ in range(n_pictures):
        number, mean, picture = done.get()
        print(f"picture {number:2}: the mean was {mean:6.3f}, now it is {picture.mean():.1e}")

    for _ in range(len(workers)):
        todo.put(None)
    for worker in workers:
        worker.join()
