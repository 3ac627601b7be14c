"""A run in a file: all it needs to continue after everything was killed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import shmtensor
from shmtensor.storage import from_files

__all__ = ["Checkpoint", "copied", "read", "write"]

_KIND = "shmtensor.hogwild 1"
NAME = "checkpoint.pt"


@dataclass
class Checkpoint:
    """A run at one moment.

    Attributes:
        model: State of the model.
        optimizers: State of each worker's optimizer, or of the shared one.
        steps: Steps of each worker.
        seconds: How long the workers had trained.
        points: The curve until then, as lists of numbers with its metrics.
        optimizer: Name of their class.
        seed: Of the run.
        batch_size: Of the run.
        samples: How many the data has; 0 if a function makes batches. None, as for the next two, in
            files of versions that did not write it.
        n_nodes: How many nodes shared the data.
        node: The number of the one that wrote it.
    """

    model: dict[str, Any]
    optimizers: list[dict[str, Any]]
    steps: list[int]
    seconds: float
    points: list[Any]
    optimizer: str
    seed: int
    batch_size: int
    samples: int | None = None
    n_nodes: int | None = None
    node: int | None = None


def copied(state: Any) -> Any:
    """Return a state with copies of its tensors."""
    if isinstance(state, shmtensor.Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {name: copied(value) for name, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(copied(value) for value in state)
    return state


def write(checkpoint: Checkpoint, folder: Path) -> Path:
    """Replace the checkpoint in *folder*: a reader finds the old one or this one, whole.

    A link stays, and the file that it leads to is replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    with from_files.replaced(path) as file:
        shmtensor.save({"kind": _KIND, **vars(checkpoint)}, file)
    return path


def read(folder: Path) -> Checkpoint | None:
    """Read the checkpoint in *folder*; None if there is none.

    Raises:
        ValueError: The file there is something else.
    """
    path = folder / NAME
    if not path.exists():
        return None
    try:
        fields = shmtensor.load(path)
    except Exception as error:
        raise ValueError(f"{path} is not a checkpoint: {error}") from None
    if not isinstance(fields, dict) or fields.pop("kind", None) != _KIND:
        raise ValueError(f"{path} is not a checkpoint of hogwild.run()")
    try:
        return Checkpoint(**fields)
    except TypeError as error:  # a field is missing, or is none
        raise ValueError(f"{path} is not a checkpoint of hogwild.run(): {error}") from None
