"""Selective checkpoints: results of chosen operators are kept, so that only the others run again.

The first run has a mode below autograd that asks the policy about every operator and keeps results.
The repeated run has one that gives those results instead of computing them; the nodes that autograd
makes are the same. Results are kept per operator, in the order of its calls.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._ops import OpOverload
from shmtensor._core._tensor import Tensor
from shmtensor.utils import _pytree as pytree

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]


class CheckpointPolicy(enum.Enum):
    """What becomes of an operator's result.

    ``*_SAVE``: kept. ``*_RECOMPUTE``: computed again. ``*_CPU_OFFLOAD``: kept on the CPU, where it
    is already. ``MUST`` and ``PREFER`` differ for compilers only.

    Source:
        torch.utils.checkpoint.CheckpointPolicy.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTES = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext:
    """What a policy gets before the operator and its arguments.

    Attributes:
        is_recompute: Always false: the policy is asked in the first run only.
        op_output: The operator's result.

    Source:
        torch.utils.checkpoint.SelectiveCheckpointContext.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


Policy = Callable[..., Any]

#: Operators that are not asked about: the checkpoint itself calls them.
SAC_IGNORED_OPS: set[Any] = {shmtensor.ops.aten.detach.default}


class _Kept:
    """A result without its history.

    It does not own the result, whose graph leads back here: that would be a cycle which nothing
    collects.
    """

    def __init__(self, value: Any) -> None:
        self.value = _C._keep_result(value) if isinstance(value, Tensor) else value

    def take(self, allow_mutation: bool) -> Any:
        if not isinstance(self.value, _C._KeptResult):
            return self.value
        if not allow_mutation and self.value.is_changed:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated"
            )
        return self.value.tensor()


def _writes(operator: Any) -> bool:
    """Whether an operator changes one of its arguments."""
    return any(written for _, _, written, _ in _C._operator_arguments(operator._handle))


_COMPUTE_AGAIN = object()
_USED = object()


class _Mode:
    """A dispatch mode below autograd."""

    def __init__(self, storage: dict[Any, list[Any]]) -> None:
        self.storage = storage

    def __enter__(self) -> Any:
        _C._push_dispatch_mode_below_autograd(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _C._pop_dispatch_mode_below_autograd()


class _FirstRun(_Mode):
    """Computes everything, and keeps what the policy says."""

    def __init__(self, policy: Policy, storage: dict[Any, list[Any]]) -> None:
        super().__init__(storage)
        self.policy = policy

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return out
        context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        policy = self.policy(context, func, *args, **kwargs)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        # What writes into its arguments must write again.
        again = policy in _RECOMPUTES or _writes(func)
        self.storage[func].append(_COMPUTE_AGAIN if again else pytree.tree_map(_Kept, out))
        return out


class _RepeatedRun(_Mode):
    """Gives what was kept, and computes the rest."""

    def __init__(self, storage: dict[Any, list[Any]], allow_mutation: bool) -> None:
        super().__init__(storage)
        self.allow_mutation = allow_mutation
        self.calls: defaultdict[Any, int] = defaultdict(int)

    def __enter__(self) -> Any:
        self.calls.clear()
        return super().__enter__()

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        i = self.calls[func]
        self.calls[func] += 1
        kept = self.storage.get(func, [])
        if i >= len(kept):
            raise RuntimeError(
                f"Selective activation checkpoint: {func} was called {i + 1} times when the "
                f"function ran again, and {len(kept)} times at first. This can happen if the "
                "operations in the checkpointed region are nondeterministic or depend on global "
                "state that changed between forward and backward."
            )
        if kept[i] is _USED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any "
                "region computed under selective activation checkpoint."
            )
        if kept[i] is _COMPUTE_AGAIN:
            return func(*args, **kwargs)
        out = pytree.tree_map(lambda one: one.take(self.allow_mutation), kept[i])
        kept[i] = _USED
        return out


def _policy_of_list(operators: Sequence[Any]) -> Policy:
    for operator in operators:
        if isinstance(operator, OpOverload):
            continue
        hint = ""
        if hasattr(operator, "default"):
            hint = (
                "Please update the OpOverloadPacket to a specific OpOverload."
                "For example, if you have `torch.ops.aten.mm`, change it to "
                "`torch.ops.aten.mm.default`."
            )
        raise ValueError(
            f"Expected op in `op_list` to be an OpOverload but got: {operator} "
            f"of type {type(operator)}. {hint}"
        )

    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        saves = operator in operators
        return CheckpointPolicy.MUST_SAVE if saves else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Two contexts for ``checkpoint(context_fn=...)`` that keep the results of some operators.

    Args:
        policy_fn_or_list: Keep results of these operators (``torch.ops.aten.mm.default``); or a
            function that is called with a `SelectiveCheckpointContext`, each operator and its
            arguments, and returns a `CheckpointPolicy`, or true for "keep it". Operators are seen
            as autograd records them. What writes into its arguments is always computed again.
        allow_cache_entry_mutation: Do not raise when a kept result was changed in place.

    Returns:
        The contexts of the first and the repeated run.

    Raises:
        TypeError: Neither a function nor a list.
        ValueError: A list of other things.
        RuntimeError: In backward: a second backward, a kept result that was changed, a function
            that calls other operators when it runs again.

    Source:
        torch.utils.checkpoint.create_selective_checkpoint_contexts.
    """
    if isinstance(policy_fn_or_list, list):
        policy = _policy_of_list(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: defaultdict[Any, list[Any]] = defaultdict(list)
    return _FirstRun(policy, storage), _RepeatedRun(storage, allow_cache_entry_mutation)
