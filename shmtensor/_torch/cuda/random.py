"""Seeds and states of generators of CUDA devices; there are none here."""

from __future__ import annotations

from shmtensor._core._absent_devices import random as _shared
from shmtensor._core._absent_devices.random import *  # noqa: F403
from shmtensor._core._absent_devices.random import states_of

from ._refusal import refusal

__all__ = ["get_rng_state", "initial_seed", "set_rng_state"]
__all__ += _shared.__all__

initial_seed, get_rng_state, set_rng_state = states_of("cuda", refusal)
