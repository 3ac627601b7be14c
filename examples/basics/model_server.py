"""A model answers many programs, in batches: what waits is computed together.

    python examples/basics/model_server.py serve      # in one terminal, or in several
    python examples/basics/model_server.py ask 1000   # in another one

Start and stop them in any order. When a server is killed, its requests go to another one.
"""

from __future__ import annotations

import argparse
import contextlib
import time

import numpy as np

import shmtensor
from shmtensor import nn, service


def serve(model: nn.Module) -> None:
    """Answer requests until this process is stopped."""
    server = service.Server("digits")
    while True:
        # All that comes within 2 ms; a client that has given up, or is dead, needs no answer.
        batch = [r for r in server.take(max_batch=32, wait=0.002) if r.is_wanted]
        with contextlib.ExitStack() as answered, shmtensor.no_grad():
            for request in batch:
                answered.enter_context(request)  # an exception here becomes the answer
            if batch:
                scores = model(shmtensor.stack([request.value for request in batch]))
                for request, row in zip(batch, scores, strict=True):
                    request.reply({"scores": row, "together": len(batch)})


def ask(n: int) -> None:
    """Ask about *n* images, all at once, and wait for the answers."""
    images = np.random.default_rng(0).random((n, 64), np.float32)
    begin = time.monotonic()
    with service.Client("digits", as_="numpy") as client:
        waiting = [client.submit(image, retry=3) for image in images]
        answers = [future.result() for future in waiting]
    most = max(answer["together"] for answer in answers)
    digits = np.bincount([answer["scores"].argmax() for answer in answers], minlength=10)
    print(f"{n} answers in {time.monotonic() - begin:.2f} s, at most {most} together: {digits}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["serve", "ask"])
    parser.add_argument("count", type=int, nargs="?", default=100, help="images (100)")
    options = parser.parse_args()
    shmtensor.manual_seed(0)  # all servers have one model; it has learned nothing
    with contextlib.suppress(KeyboardInterrupt):
        if options.what == "serve":
            serve(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
        else:
            ask(options.count)
