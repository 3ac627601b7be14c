"""Averages of parameters over the ranks of a group.

Source:
    torch.distributed.algorithms.model_averaging.utils.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.distributed._collectives import all_reduce
from shmtensor.distributed._group import get_rank, get_world_size

__all__ = [
    "average_parameters",
    "average_parameters_or_parameter_groups",
    "get_params_to_average",
]


def average_parameters(params: Iterable[Tensor], process_group: Any) -> None:
    """Replace parameters by their averages over the ranks, in place.

    Args:
        params: They; of one number and of equal shapes on all ranks.
        process_group: The ranks; None: the default group. Others than its members do nothing.

    Source:
        torch.distributed.algorithms.model_averaging.utils.average_parameters.
    """
    own = [each.detach() for each in params]
    if not own or get_rank(process_group) < 0:
        return
    flat: Tensor = _C.cat([each.reshape(-1) for each in own])
    flat.div_(get_world_size(process_group))
    all_reduce(flat, group=process_group)
    for each, part in zip(own, flat.split([each.numel() for each in own]), strict=True):
        each.copy_(part.view(each.shape))


def get_params_to_average(params: Iterable[Tensor | dict[str, Any]]) -> list[Tensor]:
    """Return the parameters that have gradients, of a module's or of an optimizer's groups.

    Raises:
        NotImplementedError: One is neither a tensor nor a group.

    Source:
        torch.distributed.algorithms.model_averaging.utils.get_params_to_average.
    """
    found: list[Tensor] = []
    for each in params:
        if not isinstance(each, Tensor | dict):
            raise NotImplementedError(f"Parameter input of type {type(each)} is not supported")
        of_one = [each] if isinstance(each, Tensor) else each["params"]
        found += [parameter for parameter in of_one if parameter.grad is not None]
    return found


def average_parameters_or_parameter_groups(
    params: Iterable[Tensor | dict[str, Any]], process_group: Any
) -> None:
    """Replace those that have gradients by their averages over the ranks.

    Source:
        torch.distributed.algorithms.model_averaging.utils.average_parameters_or_parameter_groups.
    """
    average_parameters(get_params_to_average(params), process_group)
