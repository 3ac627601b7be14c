"""What ``debug=True`` shows: the operators of both runs, and where the program called them."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shmtensor import _C
from shmtensor._core import _ops as _ops  # operator objects need its class
from shmtensor._core._tensor import Tensor
from shmtensor.utils import _pytree as pytree

__all__ = ["OperatorLog", "story"]

_LINE = "-" * 78


class OperatorLog:
    """A dispatch mode below autograd that writes down every operator.

    A value is named ``$0``, ``$1``, ... in the order in which it appears.
    """

    def __init__(self) -> None:
        self.operators: list[str] = []
        self.stacks: list[str] = []
        self._names: dict[int, str] = {}
        self._kept: list[Tensor] = []  # so that addresses are not used again

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """Forget what is written, and write inside."""
        self.operators, self.stacks, self._names, self._kept = [], [], {}, []
        _C._push_dispatch_mode_below_autograd(self)
        try:
            yield
        finally:
            _C._pop_dispatch_mode_below_autograd()
            self._names, self._kept = {}, []

    def _name(self, value: Any) -> str:
        if not isinstance(value, Tensor):
            return repr(value)
        if value._cdata not in self._names:
            self._names[value._cdata] = f"${len(self._names)}"
            self._kept.append(value)
        return self._names[value._cdata]

    def _told(self, result: Any) -> str:
        if not isinstance(result, Tensor):
            return self._name(result)
        dtype = str(result.dtype).removeprefix("torch.").removeprefix("shmtensor.")
        return f"{self._name(result)}: {dtype}{list(result.shape)}"

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [str(pytree.tree_map(self._name, a)).replace("'", "") for a in args]
        given += [
            f"{k}={pytree.tree_map(self._name, v)}".replace("'", "") for k, v in kwargs.items()
        ]
        result = func(*args, **kwargs)
        several = isinstance(result, (tuple, list))
        told = ", ".join(map(self._told, result)) if several else self._told(result)
        self.operators.append(f"{told} = {func}({', '.join(given)})")
        frames = [f for f in traceback.extract_stack()[:-1] if "/_checkpoint/" not in f.filename]
        self.stacks.append("\n".join(f"{f.filename}:{f.lineno}:{f.name}" for f in reversed(frames)))
        return result


def _stacks(log: OperatorLog, which: str) -> str:
    n = len(log.operators)
    return "\n\n".join(
        f"{operator}   ({i} of {n} in {which})\n\n{stack}"
        for i, (operator, stack) in enumerate(zip(log.operators, log.stacks, strict=True), 1)
    )


def story(before: OperatorLog, after: OperatorLog) -> str:
    """The text of a `CheckpointError` that tells what both runs did."""
    return "\n".join(
        (
            " An error happened while unpacking tensors. What ran, because of `debug=True`:",
            _LINE,
            "1. Stack traces of the operators that ran in the original forward",
            _LINE,
            _stacks(before, "original"),
            _LINE,
            "2. Stack traces of the operators that ran during recomputation",
            _LINE,
            _stacks(after, "recompute"),
            _LINE,
            "3. Log of operators in the original forward and recomputation",
            _LINE,
            "Operations executed during the original forward:",
            *before.operators,
            "",
            "Operations executed during recomputation:",
            *after.operators,
            _LINE,
            "ERROR: Detected non-determinism while running activation checkpointing",
            "",
            "Both runs of the function must save the same tensors. Compare the two lists of "
            "operators in part 3; parts 1 and 2 tell where each was called.",
        )
    )
