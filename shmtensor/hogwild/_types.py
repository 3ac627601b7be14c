"""The types that the signatures of hogwild name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, SupportsFloat, TypeAlias

from shmtensor import nn

if TYPE_CHECKING:  # the model of a worker or a result that does not say which it is can be any
    from typing_extensions import TypeVar

    ModelT_co = TypeVar("ModelT_co", bound=nn.Module, default=nn.Module, covariant=True)
else:
    from typing import TypeVar

    ModelT_co = TypeVar("ModelT_co", bound=nn.Module, covariant=True)

__all__ = ["Evaluate", "Metrics", "ModelT", "ModelT_co"]

ModelT = TypeVar("ModelT", bound=nn.Module)
Metrics: TypeAlias = dict[str, float]
#: Measures a model: a number, or several by name.
Evaluate: TypeAlias = Callable[[ModelT], SupportsFloat | Mapping[str, SupportsFloat]]
