"""Seeds and states of the generator that random operators use when they are given none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from shmtensor._C import Generator, default_generator, device

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of *seed*.

    Args:
        seed: From -2**63 to 2**64 - 1; negative ones count from 2**64 down.

    Returns:
        The default generator.

    Raises:
        ValueError: *seed* is out of range.

    Source:
        torch.manual_seed; the same seed gives torch's numbers.
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator with a number from the kernel, and return it."""
    return int(default_generator.seed())


def initial_seed() -> int:
    """Return the seed that the default generator's stream started with."""
    return int(default_generator.initial_seed())


def thread_safe_generator() -> Generator | None:
    """Return the generator of the data loader's worker thread that calls, None elsewhere.

    Data loaders here have no worker threads, so it is None: operators then take the default
    generator, which is locked while they draw.

    Source:
        torch.random.thread_safe_generator.
    """
    return None


def get_rng_state() -> Tensor:
    """Return the default generator's state as bytes."""
    state: Tensor = default_generator.get_state()
    return state


def set_rng_state(new_state: Tensor) -> None:
    """Continue the default generator from a state.

    Args:
        new_state: What `get_rng_state` gave.

    Raises:
        TypeError: Not a tensor of bytes.
        RuntimeError: The bytes are no state.
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[object] | None = None,
    enabled: bool = True,
    *,
    device_type: str | None = None,
) -> Iterator[None]:
    """Give the default generator back its state at the end of the block.

    Args:
        devices: Further devices, which have no generators here.
        enabled: False does nothing.
        device_type: Their kind. ``"meta"`` does nothing, for no numbers are drawn there.

    Raises:
        TypeError: *devices* cannot be iterated over.
        RuntimeError: *device_type* is no kind of device.
    """
    if device_type is not None and device(device_type).type == "meta":
        yield
        return
    if not enabled:
        yield
        return
    if devices is not None:
        list(devices)
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
