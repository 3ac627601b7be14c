"""The state of a run in a file, which is replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import shmtensor

__all__ = ["NAME", "as_shmtensor", "of_library", "read", "uninterrupted", "write"]

NAME = "checkpoint.pt"


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block; only in the main thread, which alone sees it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def write(folder: Path, program: str, settings: dict[str, Any], state: dict[str, Any]) -> Path:
    """Replace the checkpoint in *folder*: a reader finds the old one or this one, whole.

    An interruption waits until it is written.

    Args:
        folder: Made if it is not there.
        program: Who wrote it.
        settings: What a run that goes on must have in common with this one.
        state: Numbers, texts, tensors, and lists and dictionaries of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, new = folder / NAME, folder / f"{NAME}.{os.getpid()}.new"
    with uninterrupted():
        try:
            with open(new, "wb") as file:
                shmtensor.save({"program": program, "settings": settings, "state": state}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)
    return path


def read(folder: Path, program: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Read the state of the run in *folder*.

    Raises:
        ValueError: There is none, or it is of another program or has other settings.
    """
    path = folder / NAME
    if not path.is_file():
        raise ValueError(f"{folder}: there is no run to resume, {NAME} is missing")
    try:
        found = shmtensor.load(path)
        theirs, state = found["settings"], found["state"]
    except Exception as error:  # whatever the file is, it is nothing to go on with
        first_line = str(error).partition("\n")[0]
        raise ValueError(f"{path} is not a checkpoint: {first_line}") from None
    if found.get("program") != program:
        raise ValueError(f"{path} is of {found.get('program')}, not of {program}")
    for name, ours in settings.items():
        if theirs.get(name) != ours:
            raise ValueError(
                f"{path} is of a run with {name} {theirs.get(name)}, this one has {ours}"
            )
    return dict(state)


def as_shmtensor(state: Any) -> Any:
    """A state whose tensors, of whatever library, are replaced by those of shmtensor."""
    return _replaced(state, lambda tensor: shmtensor.from_numpy(tensor.numpy()))


def of_library(state: Any, core: Any) -> Any:
    """A state whose tensors are replaced by those of a library."""
    return _replaced(state, lambda tensor: core.from_numpy(tensor.numpy()))


def _replaced(state: Any, of: Callable[[Any], Any]) -> Any:
    if hasattr(state, "numpy"):
        return of(state.detach())
    if isinstance(state, dict):
        return {name: _replaced(value, of) for name, value in state.items()}
    if isinstance(state, list):
        return [_replaced(value, of) for value in state]
    return state
