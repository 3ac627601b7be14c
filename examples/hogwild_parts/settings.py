"""What a run is made of, in one picklable value."""

from __future__ import annotations

import dataclasses

EPOCHS = {"mlp": 100, "cnn": 15}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of a run.

    ``epochs`` counts passes of all workers together; ``seconds``, if not None, ends the training
    of each worker after that time.
    """

    model: str
    workers: int
    epochs: int
    seconds: float | None
    batch: int
    lr: float
    momentum: float
    start_method: str
    seed: int
    plain: bool

    def steps_per_worker(self, n_examples: int) -> int:
        """How many batches each worker takes, so that together they see every epoch."""
        batches = -(-n_examples // self.batch)
        return max(1, -(-batches * self.epochs // self.workers))
