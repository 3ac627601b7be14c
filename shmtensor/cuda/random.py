"""Seeds and states of the generators of CUDA devices, of which there are none."""

from __future__ import annotations

from shmtensor._absent_devices.random import (
    get_rng_state_all,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state_all,
    states_of,
)
from shmtensor.cuda._refusal import refusal

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

initial_seed, get_rng_state, set_rng_state = states_of("cuda", refusal)
