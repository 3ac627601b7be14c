"""Optimizers whose step is one call of a function that takes lists: what is the same in all.

A subclass says which entries of the state its function takes, and calls the function in
``_step_on``. Entries that are not zeros at first are made in ``_init_state``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.optim._tools import _new_scalar, _use_grad_for_differentiable
from shmtensor.optim.optimizer import Optimizer

__all__ = ["ListOptimizer"]


class ListOptimizer(Optimizer):
    """Base class; not part of the interface."""

    _entries: ClassVar[tuple[str, ...]]  # of the state, in the order of the lists
    # For an entry that is not always there, the option that it needs.
    _entry_options: ClassVar[dict[str, str]] = {}
    # Options that older states lack, besides those of all optimizers.
    _later_options: ClassVar[dict[str, Any]] = {}
    _no_sparse: ClassVar[str]  # what is said of a sparse gradient

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete_groups(
            foreach=None,
            maximize=False,
            differentiable=False,
            capturable=False,
            **self._later_options,
        )

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        """Make the entries for *param*, unless it has them: a counter, and zeros of its shape."""
        state = self.state[param]
        if state:
            return
        state["step"] = _new_scalar(is_fused=group.get("fused"))
        for entry in self._entries:
            option = self._entry_options.get(entry)
            if entry != "step" and (option is None or group[option]):
                state[entry] = shmtensor.zeros_like(param, requires_grad=False)

    def _init_group(
        self,
        group: dict[str, Any],
        params_with_grad: list[Tensor],
        grads: list[Tensor],
        *lists: list[Any],
    ) -> bool:
        """Append what a step of *group* works on; returns whether a parameter is complex."""
        wanted = dict(zip(self._entries, lists, strict=True))
        for entry, option in self._entry_options.items():
            if not group[option]:
                del wanted[entry]
        return self._collect(group, params_with_grad, grads, wanted, self._no_sparse)

    def _step_on(self, group: dict[str, Any], lists: Any, **common: Any) -> None:
        """Call the function.

        Args:
            group: The parameter group, with the options.
            lists: Parameters, gradients, and the entries of their state.
            **common: Options that every such function takes: ``foreach``, ``maximize``,
                ``differentiable``, ``capturable``, ``has_complex``.
        """
        raise NotImplementedError

    @_use_grad_for_differentiable
    def step(self, closure: Any = None) -> Any:
        """Change every parameter that has a gradient; see ``Optimizer.step``."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            lists: list[list[Any]] = [[], []]
            for _ in self._entries:
                lists.append([])
            has_complex = self._init_group(group, *lists)
            self._step_on(
                group,
                lists,
                foreach=group["foreach"],
                maximize=group["maximize"],
                differentiable=group["differentiable"],
                capturable=group["capturable"],
                has_complex=has_complex,
            )
        return loss
