"""Parameters that are functions of others: symmetric, orthogonal or normalised weights.

`register_parametrization` moves a parameter into a `ParametrizationList` below
``module.parametrizations``, and gives the module a class of its own, in which the parameter's name
is a property that computes it.

Source: torch.nn.utils.parametrize.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules import ModuleDict, ModuleList
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]


class _Cache:
    depth = 0  # of `cached` contexts
    values: ClassVar[dict[tuple[int, str], Tensor]] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute every parametrized tensor at most once within this context."""
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if _Cache.depth == 0:
            _Cache.values.clear()


def _adopt(module: Module, name: str, tensor: Tensor) -> None:
    """Make a tensor a parameter or a buffer of *module*, as it is one."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _overwrite(target: Tensor, source: Tensor) -> None:
    """Let *target*, which optimisers may hold, show the memory of *source*."""
    if target is not source:
        target.data = source.detach()


class ParametrizationList(ModuleList):
    """The functions that a tensor goes through, one after the other, and what they start from.

    Args:
        modules: At least one module; with ``right_inverse`` if values will be assigned.
        original: The parameter or buffer that is replaced.
        unsafe: Do not check that the result has the dtype and shape of *original*.

    Attributes:
        original: What the first module gets. Several tensors, as its ``right_inverse`` gives, are
            ``original0``, ``original1``, ...

    Raises:
        ValueError: No modules; a function changes dtype or shape, or gives no tensor.
    """

    def __init__(self, modules: Iterable[Module], original: Tensor, unsafe: bool = False) -> None:
        modules = list(modules)
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        start: Any = original
        with shmtensor.no_grad():
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):  # then it starts from what there is
                        start = module.right_inverse(start)
        if not isinstance(start, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(start).__name__}"
            )
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if isinstance(start, Tensor) else len(start)
        if isinstance(start, Tensor):
            for what in ("dtype", "device"):
                if getattr(start, what) != getattr(original, what):
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                        f"original.{what}: {getattr(original, what)}\n"
                        f"right_inverse(original).{what}: {getattr(start, what)}"
                    )
            with shmtensor.no_grad():
                _overwrite(original, start)
            _adopt(self, "original", original)
        else:
            for i, tensor in enumerate(start):
                if not isinstance(tensor, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                        f"tuple...). Got element {i} of the sequence with type "
                        f"{type(tensor).__name__}."
                    )
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor, original.requires_grad)
                _adopt(self, f"original{i}", tensor.requires_grad_(original.requires_grad))
        if not unsafe:
            _check_kept(self(), dtype, shape)

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Store what the functions make *value* of.

        Raises:
            RuntimeError: One has no ``right_inverse``.
            ValueError: It gives something else than the stored tensors.
        """
        start: Any = value
        with shmtensor.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                start = module.right_inverse(start)
            if self.is_tensor:
                if not isinstance(start, Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(start).__name__}"
                    )
                start = [start]
            elif not isinstance(start, Sequence):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors. Got "
                    f"{type(start).__name__}."
                )
            originals = self._originals()
            if len(start) != len(originals):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got a sequence of length {len(start)}."
                )
            for i, (tensor, original) in enumerate(zip(start, originals, strict=True)):
                name = "original" if self.is_tensor else f"original{i}"
                if not isinstance(tensor, Tensor):
                    raise ValueError(
                        "`right_inverse` must return a sequence of tensors. Got element "
                        f"{i} of type {type(tensor).__name__}"
                    )
                if tensor.dtype is not original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {tensor.dtype} while "
                        f"`{name}` has dtype {original.dtype}"
                    )
                _overwrite(original, tensor)

    def forward(self) -> Tensor:
        """The tensor that the module shows."""
        first, *others = list(self)
        result: Tensor = first(*self._originals())
        for module in others:
            result = module(result)
        return result


def _check_kept(result: Any, dtype: Any, shape: Any) -> None:
    """Refuse a parametrization whose result differs in kind from what it replaces."""
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    for name, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {name} of the tensor, unless "
                f"`unsafe` flag is enabled.\nunparametrized {name}: {before}\n"
                f"parametrized {name}: {after}"
            )


# --- the class of a parametrized module ----------------------------------------------------------


def _refuse_pickling(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict()."
    )


def _copy_deeply(self: Module, memo: dict[int, Any]) -> Module:
    twin = memo.get(id(self))
    if twin is None:
        twin = memo[id(self)] = type(self).__new__(type(self))
        twin.__dict__ = copy.deepcopy(self.__dict__, memo)
    return twin


def _give_own_class(module: Module) -> None:
    cls = type(module)
    members: dict[str, Any] = {"__getstate__": _refuse_pickling, "__module__": cls.__module__}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _copy_deeply
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)
    module.parametrizations = ModuleDict()


def _give_property(module: Module, name: str) -> None:
    def get(self: Any) -> Tensor:
        compute: Any = self.parametrizations[name]
        result: Tensor | None = _Cache.values.get((id(self), name))
        if result is None:
            result = compute()
            if _Cache.depth:
                _Cache.values[id(self), name] = result
        return result

    def assign(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, assign))


# --- the functions -------------------------------------------------------------------------------


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let a parameter or buffer be computed by a module from then on.

    Args:
        module: Whose parameter.
        tensor_name: Its name.
        parametrization: Is called with the tensor that is stored, or after those that were
            registered before. Its ``right_inverse``, if any, makes what is stored of a value.
        unsafe: Do not check that dtype and shape stay.

    Returns:
        *module*, whose class is another one now.

    Raises:
        ValueError: There is no such tensor, or dtype or shape change.

    Source:
        torch.nn.utils.parametrize.register_parametrization.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        chain = module.parametrizations[tensor_name]
        chain.append(parametrization)
        chain.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        chain = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
        _give_property(module, tensor_name)
        module.parametrizations[tensor_name] = chain
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_next(module: Module, name: str, parametrization: Module) -> None:
    """Check what a further function makes of a parametrized tensor, there and back."""
    before = getattr(module, name)
    after = parametrization(before)
    _check_kept(after, before.dtype, before.shape)
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(before, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} "
                f"as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{what}: {getattr(before, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a tensor of *module*, or any, is computed by a parametrization."""
    chains = getattr(module, "parametrizations", None)
    if not isinstance(chains, ModuleDict):
        return False
    return len(chains) > 0 if tensor_name is None else tensor_name in chains


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a computed tensor a parameter or buffer again.

    Args:
        module: Whose tensor.
        tensor_name: Its name.
        leave_parametrized: Keep the value that was computed; otherwise the one it was made of.

    Raises:
        ValueError: It is not parametrized; or is made of several tensors, and
            *leave_parametrized* is false.

    Source:
        torch.nn.utils.parametrize.remove_parametrizations.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    if not (chain.is_tensor or leave_parametrized):
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    if chain.is_tensor:
        tensor = chain.original
        if leave_parametrized:
            with shmtensor.no_grad():
                _overwrite(tensor, getattr(module, tensor_name))
    else:
        tensor = getattr(module, tensor_name)
        tensor = Parameter(tensor.detach()) if tensor.requires_grad else tensor
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _adopt(module, tensor_name, tensor)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that *module* had before its first parametrization."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another, and the tensors that they start from.

    Args:
        from_module: Where they come from.
        to_module: Is changed; tensors that it lacks are made.
        tensor_name: Only of this tensor.

    Returns:
        *to_module*.

    Source:
        torch.nn.utils.parametrize.transfer_parametrizations_and_params.
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        chain = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            # The last function's own result: the shape is all that counts.
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for function in chain:
            register_parametrization(to_module, name, function)
        theirs = to_module.parametrizations[name]
        if chain.is_tensor:
            theirs.original = chain.original
        else:
            for i in range(chain.ntensors):
                setattr(theirs, f"original{i}", getattr(chain, f"original{i}"))
    return to_module
