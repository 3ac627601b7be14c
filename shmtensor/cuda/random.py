"""Seeds and states of the generators of CUDA devices, of which there are none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from shmtensor._absent_devices import Device
from shmtensor.cuda._refusal import refusal

if TYPE_CHECKING:
    from shmtensor._tensor import Tensor

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device: there is none, and nothing happens.

    Raises:
        ValueError: *seed* is no number.
    """
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices: there are none, and nothing happens.

    Raises:
        ValueError: *seed* is no number.
    """
    int(seed)


def seed() -> None:
    """Seed the generator of the current device with a random number: there is none."""


def seed_all() -> None:
    """Seed the generators of all devices with random numbers: there are none."""


def initial_seed() -> NoReturn:
    """Raise AssertionError: there is no device that has a seed."""
    raise refusal()


def get_rng_state(device: Device = "cuda") -> NoReturn:
    """Raise AssertionError: there is no device that has a state."""
    raise refusal()


def set_rng_state(new_state: Tensor, device: Device = "cuda") -> NoReturn:
    """Raise AssertionError: there is no device to set the state of."""
    raise refusal()


def get_rng_state_all() -> list[Tensor]:
    """Return the states of all devices' generators: none."""
    return []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of all devices' generators.

    Raises:
        AssertionError: There is a state, but no device.
    """
    for _ in new_states:
        raise refusal()
