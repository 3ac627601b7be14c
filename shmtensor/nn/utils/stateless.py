"""Calls of modules with other parameters and buffers than their own.

Source:
    torch.nn.utils.stateless.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules.module import Module
from shmtensor.nn.utils._named_member_accessor import NamedMemberAccessor

__all__ = ["functional_call"]


def _untie_named_tensors_map(
    module: Module, parameters_and_buffers: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Return the tensors with the same one for all names of a tensor that has several.

    Raises:
        ValueError: Several names of one tensor are given different ones.
    """
    names_of: dict[int, set[str]] = {}
    for name, tensor in NamedMemberAccessor(module).named_tensors(remove_duplicate=False):
        names_of.setdefault(id(tensor), set()).add(name)
    tied = {name: names for names in names_of.values() for name in names if len(names) > 1}
    untied = dict(parameters_and_buffers)
    for name, tensor in parameters_and_buffers.items():
        for other in tied.get(name, ()):
            if parameters_and_buffers.get(other, tensor) is not tensor:
                given = sorted(tied[name] & parameters_and_buffers.keys())
                raise ValueError(
                    f"functional_call got multiple values for keys {given}, which are tied. "
                    "Consider using tie_weights=False"
                )
            untied[other] = tensor
    return untied


@contextlib.contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    *,
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """A context in which a module has other parameters and buffers."""
    given = parameters_and_buffers
    if tie_weights:
        given = _untie_named_tensors_map(module, parameters_and_buffers)
    accessor = NamedMemberAccessor(module)
    if strict:
        missing, unexpected = accessor.check_keys(given)
        problems = [("Unexpected", unexpected), ("Missing", missing)]
        lines = [
            f"{word} key(s): {', '.join(map(repr, names))}." for word, names in problems if names
        ]
        if lines:
            raise RuntimeError(
                "Error(s) in reparametrizing for {}:\n\t{}".format(
                    type(module).__name__, "\n\t".join(lines)
                )
            )
    before: dict[str, Any] = {}
    try:
        before, _ = accessor.swap_tensors_dict(given, allow_missing=True)
        yield
    finally:
        after, _ = accessor.swap_tensors_dict(
            dict(reversed(before.items())) if stack_weights else before, allow_missing=True
        )
        # What the call has put in their places is the caller's.
        parameters_and_buffers.update(
            {name: value for name, value in after.items() if name in parameters_and_buffers}
        )


def _functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    from shmtensor.nn.parallel import DataParallel  # which imports this package

    if isinstance(module, DataParallel):
        raise RuntimeError("The stateless API can't be used with nn.DataParallel module")
    if kwargs is None:
        kwargs = {}
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(
        module, parameters_and_buffers, tie_weights=tie_weights, strict=strict
    ):
        return module(*args, **kwargs)


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers than its own; `func` has a newer form.

    Args:
        module: It. Its own ones are back when the call is over.
        parameters_and_buffers: The others by name. What the call puts in the place of one, as a
            running mean, is in here afterwards.
        args: The arguments, a tuple or one that is none.
        kwargs: Arguments by name.
        tie_weights: A tensor for one name of a shared parameter is for its other names too.
        strict: There must be exactly one for each name.

    Returns:
        What the module returns.

    Raises:
        RuntimeError: Names are missing or unknown, and *strict*.
        ValueError: Several tensors for names of one shared parameter.

    Source:
        torch.nn.utils.stateless.functional_call.
    """
    warnings.warn(
        "`shmtensor.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will "
        "be removed in a future version of PyTorch. Please use `shmtensor.func.functional_call` "
        "instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module,
        parameters_and_buffers,
        args,
        kwargs,
        tie_weights=tie_weights,
        strict=strict,
    )
