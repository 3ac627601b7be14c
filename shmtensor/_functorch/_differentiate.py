"""What ``grad``, ``vjp`` and ``jvp`` share: inputs to differentiate, and runs of their graph.

An input becomes a tensor of its own, so that its gradient is that of the transform alone. Where a
transform outside differentiates too, the graph goes on from it to the tensor that was given.

Results are recorded only when something outside may want their derivative: a transform around this
one, or a leaf that requires grad. Otherwise they have no history, as torch's have none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._functorch._levels import batched_parts, grad_level, innermost_value

__all__ = ["Differentiated", "differentiated"]


class Differentiated:
    """The inputs of one transform, and their derivatives.

    Args:
        outer_mode: Whether the code around the transform is recorded.
        also: Inputs of another transform that this one is a part of.
    """

    def __init__(self, outer_mode: bool, also: Sequence[Tensor] = ()) -> None:
        self.outer_mode = outer_mode
        self.also = list(also)
        self.inputs: list[Tensor] = []

    def input(self, value: Tensor) -> Tensor:
        """Return *value* as an input to differentiate."""
        if not (value.is_floating_point() or value.is_complex()):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        with shmtensor.set_grad_enabled(self.outer_mode):
            fresh: Tensor = _C._transform_input(_C._lift(value))
        if not fresh.requires_grad:
            fresh.requires_grad = True
        self.inputs.append(fresh)
        return fresh

    def reaches_outside(self, outputs: Sequence[Tensor]) -> bool:
        """Return whether *outputs* depend on something that others differentiate."""
        return bool(_C._graph_reaches_others(list(outputs), self.inputs + self.also))

    def release(self, output: Any) -> Any:
        """Return an output as the caller of the transform sees it."""
        if not isinstance(output, Tensor) or not output.requires_grad:
            return output
        if self.outer_mode and self.reaches_outside([output]):
            return output
        return _C._without_history(output)

    def gradients(
        self,
        outputs: Sequence[Tensor],
        cotangents: Sequence[Tensor] | None,
        *,
        retain_graph: bool = False,
        create_graph: bool | None = None,
    ) -> list[Tensor]:
        """Return the derivative of *outputs* for all inputs; zeros where there is none.

        Args:
            outputs: Computed from the inputs.
            cotangents: One for each output; None stands for ones.
            retain_graph: The graph is used again.
            create_graph: Record this; None: when the code around is recorded and something outside
                can want it.
        """
        chosen = [
            (output, None if cotangents is None else cotangents[i])
            for i, output in enumerate(outputs)
            if output.requires_grad
        ]
        if not chosen:
            return [shmtensor.zeros_like(value.detach()) for value in self.inputs]
        roots = [output for output, _ in chosen]
        given = [cotangent for _, cotangent in chosen]
        if create_graph is None:
            create_graph = shmtensor.is_grad_enabled() and (
                0 < self._level() != _C._vmap_level()  # levels below may want it, and have no say
                or self.reaches_outside(roots)
                or any(t is not None and innermost_value(t).requires_grad for t in given)
                or any(t is not None and t.requires_grad for t in given)
            )
        start = None if cotangents is None else given
        with self._around_backward(create_graph):
            found = shmtensor.autograd.grad(
                roots,
                self.inputs,
                start,
                retain_graph=retain_graph or create_graph,
                create_graph=create_graph,
                allow_unused=True,
            )
        return [
            shmtensor.zeros_like(value.detach()) if gradient is None else gradient
            for gradient, value in zip(found, self.inputs, strict=True)
        ]

    def _level(self) -> int:
        """The vmap level that the graph's tensors are of; 0: they are ordinary ones."""
        parts = batched_parts(self.inputs[0])
        return 0 if parts is None else parts[2]

    @contextlib.contextmanager
    def _around_backward(self, create_graph: bool) -> Iterator[None]:
        """Levels below that of the graph are recorded as they are outside of the run.

        The graph is of tensors of some level. A run inside of a vmap that was entered later has
        batched gradients. Their operators are recorded where the graph is, and only when wanted.
        """
        mode = shmtensor.is_grad_enabled() if self._level() == _C._vmap_level() else create_graph
        with shmtensor.set_grad_enabled(mode), grad_level():
            yield


@contextlib.contextmanager
def differentiated(also: Sequence[Tensor] = ()) -> Iterator[Differentiated]:
    """A context in which the function of a transform is called, recorded."""
    outer_mode = shmtensor.is_grad_enabled()
    level = Differentiated(outer_mode, also)
    with grad_level(), shmtensor.enable_grad():
        yield level
    _C._end_transform_inputs(level.inputs)
