"""Seeds and states of the generators of absent devices.

Seeds and states that are set have nothing to act on, and are taken in silence, so that programs
can restore what was saved elsewhere. A state cannot be had, and asking for one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from . import Device

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

# The names that a namespace takes as they are; the others are made for it by `states_of`.
__all__ = [
    "get_rng_state_all",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state_all",
]


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device: there is none, and nothing happens.

    Raises:
        ValueError: *seed* is not a number.
    """
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices: there are none, and nothing happens.

    Raises:
        ValueError: *seed* is not a number.
    """
    int(seed)


def seed() -> None:
    """Seed the generator of the current device with a random number: there is none."""


def seed_all() -> None:
    """Seed the generators of all devices with random numbers: there are none."""


def get_rng_state_all() -> list[Tensor]:
    """Return the states of all devices' generators: none."""
    return []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of all devices' generators: there are none, and nothing happens."""


class States(NamedTuple):
    """The functions of a namespace that name their device."""

    initial_seed: Callable[[], NoReturn]
    get_rng_state: Callable[..., NoReturn]
    set_rng_state: Callable[..., None]


def states_of(kind: str, refusal: Callable[[], Exception]) -> States:
    """Return the functions of a namespace that name their device.

    Args:
        kind: The type of the device, their default.
        refusal: Makes the exception where a generator is needed.
    """

    def initial_seed() -> NoReturn:
        """Raise AssertionError: there is no device that has a seed."""
        raise refusal()

    def get_rng_state(device: Device = kind) -> NoReturn:
        """Raise AssertionError: there is no device that has a state."""
        raise refusal()

    def set_rng_state(new_state: Tensor, device: Device = kind) -> None:
        """Set the state of a device's generator: there is none, and nothing happens."""

    states = States(initial_seed, get_rng_state, set_rng_state)
    for function in states:
        function.__qualname__ = function.__name__
    return states
