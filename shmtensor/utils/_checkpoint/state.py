"""What a repeated run must find as the first one did: random numbers, autocast; settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.errors import ShmTensorError

__all__ = [
    "AmbientState",
    "CheckpointError",
    "Contexts",
    "Settings",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class CheckpointError(ShmTensorError, RuntimeError):
    """The function did not do the same when it ran again.

    Source:
        torch.utils.checkpoint.CheckpointError.
    """


class Settings:
    """What the two context managers below say; None: as each call says."""

    early_stop: bool | None = None
    debug: bool | None = None


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Let repeated runs end, or not, when all that was saved is there, whatever calls say.

    Only calls of `checkpoint` inside the context matter; backward may run outside.

    Source:
        torch.utils.checkpoint.set_checkpoint_early_stop.
    """
    before, Settings.early_stop = Settings.early_stop, enable
    try:
        yield
    finally:
        Settings.early_stop = before


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Switch on or off, for calls inside, that errors tell which operators ran; None: as calls say.

    Source:
        torch.utils.checkpoint.set_checkpoint_debug_enabled.
    """
    before, Settings.debug = Settings.debug, enabled
    try:
        yield
    finally:
        Settings.debug = before


def noop_context_fn() -> Contexts:
    """Return two contexts that do nothing."""
    return nullcontext(), nullcontext()


class AmbientState:
    """The random generator and autocast as they are now, to be had again.

    Args:
        preserve_rng: Whether the generator counts.
    """

    def __init__(self, preserve_rng: bool) -> None:
        self.rng: Tensor | None = shmtensor.get_rng_state() if preserve_rng else None
        self.autocast: dict[str, Any] = {
            "enabled": shmtensor.is_autocast_enabled("cpu"),
            "dtype": shmtensor.get_autocast_dtype("cpu"),
            "cache_enabled": shmtensor.is_autocast_cache_enabled(),
        }

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside, all is as it was; afterwards as it is now."""
        before = None if self.rng is None else shmtensor.get_rng_state()
        if self.rng is not None:
            shmtensor.set_rng_state(self.rng)
        try:
            with shmtensor.autocast("cpu", **self.autocast):
                yield
        finally:
            if before is not None:
                shmtensor.set_rng_state(before)
