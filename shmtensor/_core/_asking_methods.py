"""Methods of tensors that are written in Python, and what they hand over when a class answers.

See `overrides` for the protocol, and `_overridable` for the decorator.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from shmtensor._core._overridable import Handed, beyond_torch, overridable

__all__ = ["let_methods_ask"]

#: Look at the class itself, or make tensors of it.
_ASK_NOBODY = "__array_namespace__ _in_shape _typed_storage has_names new to_device".split()
#: What torch has in C: whoever answers gets the arguments as they were written.
_AS_GIVEN = """
    apply_ cuda ipu is_distributed is_nonzero is_pinned map2_ map_ mtia new_tensor nonzero numpy
    pin_memory smm sum_to_size to_dense type untyped_storage xpu _is_view
""".split()


def _hand_array_over(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handed:
    """NumPy's context is beyond torch, which hands the array over by name."""
    beside = beyond_torch("context", "return_scalar")
    relevant, (tensor, array), named = beside(function, args, kwargs)
    return relevant, (tensor,), {"array": array, **named}


#: Torch lacks some of their parameters.
_HANDED_OVER_BY = {
    "__array__": beyond_torch("copy"),
    "__array_wrap__": _hand_array_over,
    "dim_order": beyond_torch("ambiguity_check"),
}


def let_methods_ask(kind: type[Any]) -> None:
    """Let classes and modes answer for the methods of *kind*, as for those of C."""
    for name, method in list(vars(kind).items()):
        if isinstance(method, FunctionType) and name not in _ASK_NOBODY:
            hand_over = _HANDED_OVER_BY.get(name)
            as_given = name in _AS_GIVEN
            decorate = overridable(as_given=as_given, only_first=True, hand_over=hand_over)
            setattr(kind, name, decorate(method))
