"""Parameters: leaf tensors that a module owns and an optimizer changes."""

from __future__ import annotations

from collections import OrderedDict
from multiprocessing.reduction import ForkingPickler
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._pickling import set_state, state_of
from shmtensor._core._tensor import Tensor
from shmtensor.utils.hooks import warn_if_has_hooks

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _Marking(type(Tensor)):  # type: ignore[misc]
    """The class of `Parameter` and `Buffer`, of which objects of other classes may be marked ones.

    Note [Marked tensors]: a parameter made of a tensor whose class is neither `Tensor` nor
    `Parameter` keeps that class, and has the attribute ``_is_param``. A buffer is a tensor with
    the attribute ``_is_buffer``.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        mark = vars(cls).get("_mark")
        return mark is not None and isinstance(instance, Tensor) and hasattr(instance, mark)


def _marked(data: Tensor, requires_grad: bool) -> Any:
    """Return *data* as a parameter of its own class, with the mark; memory is shared."""
    made = data.detach().requires_grad_(requires_grad)
    if type(made) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {type(data).__name__} requires that "
            f"detach() returns an instance of the same type, but return type {type(made).__name__} "
            "was found instead. To use the type as a Parameter, please correct the detach() "
            "semantics defined by its __torch_dispatch__() implementation."
        )
    made._is_param = True  # type: ignore[attr-defined]
    return made


class Parameter(Tensor, metaclass=_Marking):
    """A tensor that registers itself when it becomes an attribute of a module.

    Args:
        data: Its values; memory is shared with *data*. ``None`` makes an empty parameter. A
            tensor of another class keeps its class, and ``isinstance(p, Parameter)`` holds too.
        requires_grad: Whether gradients are collected in ``.grad``.

    Raises:
        RuntimeError: *data* is integral and *requires_grad* is true, or its ``detach`` does not
            keep the class.

    Source:
        torch.nn.Parameter.
    """

    __torch_function__ = _C._disabled_torch_function_impl  # results are plain tensors
    _mark = "_is_param"

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """Make a parameter of *data*."""
        if data is None:
            data = shmtensor.empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter(): data must be a Tensor, got {type(data).__name__}")
        if type(data) not in (Tensor, Parameter):
            marked: Parameter = _marked(data, requires_grad)
            return marked
        made: Parameter = Tensor._make_subclass(cls, data, requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            known: Parameter = memo[id(self)]
            return known
        result = type(self)(
            self.data.clone(memory_format=shmtensor.preserve_format), self.requires_grad
        )
        memo[id(self)] = result
        return result

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        head: tuple[Any, ...] = (type(self), self.data, self.requires_grad, OrderedDict())
        state = state_of(self)
        if state:
            return _rebuild_parameter_with_state, (*head, state)
        return _rebuild_parameter, head


class Buffer(Tensor, metaclass=_Marking):
    """A tensor that is part of a module's state but is not optimised.

    What is made is a tensor of the class of *data* with a mark: Note [Marked tensors]. A class that
    derives from this one makes its own.

    Args:
        data: Its values; memory is shared with *data*.
        persistent: Whether it is part of ``state_dict``.
    """

    persistent: bool = True
    __torch_function__ = _C._disabled_torch_function_impl  # results are plain tensors
    _mark = "_is_buffer"

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        """Make a buffer of *data*."""
        if data is None:
            data = shmtensor.empty(0)
        made: Any
        if cls is Buffer:
            made = data.detach().requires_grad_(data.requires_grad)
        else:
            made = Tensor._make_subclass(cls, data, data.requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made  # type: ignore[no-any-return]


# Methods that a tensor without a size has.
_BEFORE_VALUES = {
    *(
        "size",
        "is_complex",
        "is_floating_point",
        "get_device",
        "copy_",
        "to",
        "cpu",
        "requires_grad_",
    ),
    *("half", "float", "double", "char", "short", "int", "long", "bfloat16"),
}


class UninitializedTensorMixin(Tensor):
    """What tensors without a size share: they get one once, and then change class."""

    cls_to_become: type[Any]

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Raise: there are no values to compute with; attributes and conversions are let by.

        What a conversion gives has no size either.
        """
        if type(func).__name__ == "method-wrapper":
            return _C._disabled_torch_function_impl(func, types, args, kwargs or {})
        if getattr(func, "__name__", "") in _BEFORE_VALUES:
            result = _C._disabled_torch_function_impl(func, types, args, kwargs or {})
            return result.as_subclass(cls) if type(result) is Tensor else result
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you "
            "are using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call `forward` "
            "with a dummy batch to initialize the parameters before calling torch functions"
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it memory of *shape*, not set to anything; it turns into its ordinary class."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = shmtensor.empty(tuple(shape), device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """Raise: there is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Any:
        """Raise: there is nothing to share yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter of unknown size; ``materialize`` sets it.

    Args:
        requires_grad: Whether gradients are collected in ``.grad``.
        device: Where it will be.
        dtype: Its type.
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        """Make a parameter without a size."""
        data = shmtensor.empty(0, device=device, dtype=dtype)
        made: UninitializedParameter = Tensor._make_subclass(cls, data, requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) in memo:
            known: UninitializedParameter = memo[id(self)]
            return known
        data = self.data
        result = type(self)(self.requires_grad, data.device, data.dtype)
        memo[id(self)] = result
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, str(self.data.device), self.data.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer of unknown size; ``materialize`` sets it."""

    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        """Make a buffer without a size."""
        data = shmtensor.empty(0, device=device, dtype=dtype)
        made: UninitializedBuffer = Tensor._make_subclass(cls, data, requires_grad)
        made.persistent = persistent
        made._is_buffer = True  # type: ignore[attr-defined]
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        if id(self) in memo:
            known: UninitializedBuffer = memo[id(self)]
            return known
        data = self.data
        result = type(self)(self.requires_grad, data.device, data.dtype, self.persistent)
        memo[id(self)] = result
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        data = self.data
        return type(self), (self.requires_grad, str(data.device), data.dtype, self.persistent)


def is_lazy(param: Any) -> bool:
    """Whether *param* is a parameter or buffer without a size."""
    return isinstance(param, UninitializedTensorMixin)


def _rebuild_parameter(
    cls: type[Parameter], data: Tensor, requires_grad: bool, hooks: OrderedDict[int, Any]
) -> Parameter:
    return cls(data, requires_grad)


def _rebuild_parameter_with_state(
    cls: type[Parameter],
    data: Tensor,
    requires_grad: bool,
    hooks: OrderedDict[int, Any],
    state: Any,
) -> Parameter:
    made = cls(data, requires_grad)
    set_state(made, state)
    return made


def _reduce_for_processes(parameter: Parameter) -> Any:
    """Return what is pickled into a message between processes: no hooks, gradient, attributes."""
    warn_if_has_hooks(parameter)
    data, requires_grad = parameter.data, parameter.requires_grad
    return _rebuild_parameter, (type(parameter), data, requires_grad, OrderedDict())


ForkingPickler.register(Parameter, _reduce_for_processes)
