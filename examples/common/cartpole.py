"""Cart-poles: a pole stands on a cart, which is pushed left or right so that the pole stays up.

Several of them move together, as arrays. The force acts for 20 ms. An episode ends when the pole
leans more than 12 degrees or the cart is more than 2.4 m from the middle, and after 500 steps at
the latest; each step is rewarded with 1.

Source: Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning
control problems", 1983: the equations of motion in its appendix, without friction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["LONGEST", "N_ACTIONS", "N_STATE", "CartPoles"]

N_STATE, N_ACTIONS = 4, 2
LONGEST = 500  # steps of an episode

_GRAVITY = 9.8  # m/s²
_CART_KG, _POLE_KG = 1.0, 0.1
_HALF_POLE_M = 0.5
_FORCE_N = 10.0
_STEP_S = 0.02
_MAX_ANGLE = math.radians(12)
_MAX_POSITION_M = 2.4

Array = np.ndarray[Any, np.dtype[Any]]


class CartPoles:
    """*n* cart-poles.

    Attributes:
        state: ``(n, 4)``: position and speed of the cart, angle and angular speed of the pole.
        ages: ``(n,)``, steps of each one's episode.
    """

    def __init__(self, n: int, random: np.random.Generator) -> None:
        self._random = random
        self.state = self._beginnings(n)
        self.ages = np.zeros(n, dtype=np.int64)

    def _beginnings(self, n: int) -> Array:
        return self._random.uniform(-0.05, 0.05, (n, N_STATE))

    def step(self, actions: Array) -> tuple[Array, Array]:
        """Push all carts, to the right where the action is 1.

        Returns:
            Which poles have fallen, and which episodes have lasted longest; `begin_again` is to
            be called with those.
        """
        _, speed, angle, turn = self.state.T
        force = np.where(actions == 1, _FORCE_N, -_FORCE_N)
        sine, cosine = np.sin(angle), np.cos(angle)
        mass = _CART_KG + _POLE_KG
        push = (force + _POLE_KG * _HALF_POLE_M * turn**2 * sine) / mass
        inertia = _HALF_POLE_M * (4 / 3 - _POLE_KG * cosine**2 / mass)
        turning = (_GRAVITY * sine - cosine * push) / inertia
        moving = push - _POLE_KG * _HALF_POLE_M * turning * cosine / mass
        change = np.stack([speed, moving, turn, turning], axis=1)
        self.state = self.state + _STEP_S * change
        self.ages = self.ages + 1
        has_fallen = (np.abs(self.state[:, 0]) > _MAX_POSITION_M) | (
            np.abs(self.state[:, 2]) > _MAX_ANGLE
        )
        return has_fallen, (self.ages >= LONGEST) & ~has_fallen

    def begin_again(self, which: Array) -> None:
        """Put some of them back to a beginning."""
        self.state[which] = self._beginnings(int(which.sum()))
        self.ages[which] = 0
