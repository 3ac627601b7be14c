"""Module: a tree of layers that owns parameters, buffers and child modules.

Assigning a ``Parameter``, a ``Buffer`` or a ``Module`` to an attribute registers it; everything
else is an ordinary attribute. The three dictionaries ``_parameters``, ``_buffers`` and
``_modules`` are the only record; every walk over the tree reads them.
"""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

import shmtensor
from shmtensor import _C
from shmtensor._core._settings import typename
from shmtensor._core._tensor import Tensor
from shmtensor.nn import _global_hooks as all_modules
from shmtensor.nn._global_hooks import *  # noqa: F403 - names of this module in torch
from shmtensor.nn._gradients import set_to_zero
from shmtensor.nn._hooks import HookMixin
from shmtensor.nn._state import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX
from shmtensor.nn._state import StateMixin
from shmtensor.nn._state import _IncompatibleKeys as _IncompatibleKeys
from shmtensor.nn._state import _WrappedHook as _WrappedHook
from shmtensor.nn._to import parse_to
from shmtensor.nn.parameter import Buffer, Parameter, is_lazy

__all__ = ["Module"]

M = TypeVar("M", bound="Module")
T = TypeVar("T")
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_REGISTRIES = ("_parameters", "_buffers", "_modules")


def _addindent(text: str, n_spaces: int = 2) -> str:
    return text.replace("\n", "\n" + " " * n_spaces)


def _applied(fn: Callable[[Tensor], Tensor], parameter: Parameter) -> Parameter:
    """*parameter* with the data and gradient that *fn* makes of its own; a new one if it must."""
    with shmtensor.no_grad():
        data = fn(parameter)
        grad = parameter.grad
        changed = None if grad is None else fn(grad)
        if data.device != parameter.device:
            made = Parameter(data, parameter.requires_grad)
            if grad is not None and changed is not None:
                made.grad = changed.requires_grad_(grad.requires_grad)
            return made
        parameter.data = data
        if grad is not None and changed is not None:
            grad.data = changed
    return parameter


def _is_like_a_tensor(value: object) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "__torch_function__")


def _check_can_be_shared(tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Refuse parameters and buffers without a size: their memory comes later, and is not shared.

    Raises:
        RuntimeError: There are some; the text names them.
    """
    names = [name for name, tensor in tensors if is_lazy(tensor)]
    if names:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`. Uninitialized: "
            f"{', '.join(names)}"
        )


class _HasForward(Protocol[P, R_co]):
    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Module(HookMixin, StateMixin):
    """Base class of all layers and models.

    A subclass calls ``super().__init__()`` first, assigns its parts, and defines ``forward``.

    Attributes:
        training: Whether layers such as dropout behave as in training.

    Source:
        torch.nn.Module.
    """

    training: bool

    #: Whether the class hands arguments on to the next one in its order of bases.
    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            name = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(f"{name} got an unexpected keyword argument '{next(iter(kwargs))}'")
            raise TypeError(f"{name} takes 1 positional argument but {len(args) + 1} were given")
        # object.__setattr__: our own __setattr__ looks into the dictionaries being made here.
        make = super().__setattr__
        make("training", True)
        for name in ("_parameters", "_buffers", "_modules"):
            make(name, {})
        make("_non_persistent_buffers_set", set())
        for name in (
            "_forward_hooks",
            "_forward_hooks_with_kwargs",
            "_forward_hooks_always_called",
            "_forward_pre_hooks",
            "_forward_pre_hooks_with_kwargs",
            "_backward_hooks",
            "_backward_pre_hooks",
            "_state_dict_hooks",
            "_state_dict_pre_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
        ):
            make(name, OrderedDict())
        make("_is_full_backward_hook", None)  # torch reads it in modules that `save` wrote
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    if TYPE_CHECKING:  # a call takes and returns what ``forward`` does

        @property
        def __call__(self: _HasForward[P, R_co]) -> Callable[P, R_co]: ...  # noqa: D102

    def _forward_missing(self, *args: Any, **kwargs: Any) -> Any:
        """Stand for the ``forward`` that a subclass defines."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    forward: Callable[..., Any] = _forward_missing

    # --- registration ----------------------------------------------------------------------

    def _check_name(self, kind: str, name: object, registry: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[registry]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under *name*; ``None`` reserves the name.

        Raises:
            KeyError: The name is empty, has a dot, or is taken.
            TypeError: *param* is no Parameter.
            AttributeError: ``Module.__init__`` has not run.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(shmtensor.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, "
                "compute the value in the forward() method."
            )
        if all_modules.parameter_registration:
            param = all_modules.registered(all_modules.parameter_registration, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not a parameter.

        Args:
            name: Attribute name.
            tensor: Its value; ``None`` reserves the name and is not saved.
            persistent: Whether it is part of ``state_dict``.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not _is_like_a_tensor(tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                "(shmtensor Tensor or None required)"
            )
        if all_modules.buffer_registration:
            tensor = all_modules.registered(all_modules.buffer_registration, self, name, tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under *name*; ``None`` reserves the name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, "_modules")
        self._put_module(name, module)

    def _put_module(self, name: str, module: Module | None) -> None:
        if all_modules.module_registration:
            module = all_modules.registered(all_modules.module_registration, self, name, module)
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """Call `add_module`."""
        self.add_module(name, module)

    def _registered(self, name: str) -> Any:
        """What is registered under *name* in any dictionary; raises KeyError."""
        for registry in _REGISTRIES:
            entries = self.__dict__.get(registry)
            if entries is not None and name in entries:
                return entries[name]
        raise KeyError(name)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._registered(name)
        except KeyError:
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{name}'"
            ) from None

    def _forget(self, name: str, *, keep: str) -> None:
        """Remove *name* from everywhere but the registry *keep*."""
        self.__dict__.pop(name, None)
        for registry in _REGISTRIES:
            if registry != keep:
                self.__dict__[registry].pop(name, None)
        if keep != "_buffers":
            self._non_persistent_buffers_set.discard(name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' "
                    "(shmtensor.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, keep="_modules")
            self._put_module(name, value)
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' "
                    "(shmtensor.nn.Module or None expected)"
                )
            self._put_module(name, None)
        elif isinstance(value, Buffer) or name in own.get("_buffers", ()):
            self._set_buffer(name, value)
        else:
            super().__setattr__(name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not _is_like_a_tensor(value):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' "
                "(shmtensor.nn.Buffer, shmtensor.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in self._non_persistent_buffers_set
        register: Any = self.register_buffer
        if (
            getattr(register, "__func__", None) is Module.register_buffer
            or "persistent" in inspect.signature(register).parameters
        ):
            register(name, value, persistent)
        elif persistent:
            register(name, value)  # of a class that knows no others
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements "
                "register_buffer() without the persistent argument is not allowed."
            )

    def __delattr__(self, name: str) -> None:
        for registry in _REGISTRIES:
            if name in self.__dict__.get(registry, ()):
                del self.__dict__[registry][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(n for n in names if not n[:1].isdigit())

    # --- walking the tree ------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield ``(dotted name, module)`` for this module and all below it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, each once unless *remove_duplicate* is false."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield ``(name, module)`` for the direct children, each once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the direct children, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        members: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        if recurse:
            owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            owners = iter([(prefix, self)])
        for module_prefix, module in owners:
            for name, value in members(module):
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield f"{module_prefix}.{name}" if module_prefix else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield ``(dotted name, parameter)`` of this module and, with *recurse*, all below."""
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once: what an optimizer takes."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield ``(dotted name, buffer)`` of this module and, with *recurse*, all below."""
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted name; ``""`` is this one.

        Raises:
            AttributeError: A part of the name is missing, or no module.
        """
        module: Any = self
        for name in target.split(".") if target != "" else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        found: Module = module
        return found

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted name."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        found = getattr(owner, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted name."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        found: Tensor = getattr(owner, name)
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put *module* at a dotted name; with *strict* one must be there already.

        Raises:
            ValueError: The name is empty, or *module* is no module.
            AttributeError: A part of the name is missing, or no module.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict and not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        if hasattr(owner, name) and not isinstance(getattr(owner, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(owner, name, module)

    # --- changing all of it ----------------------------------------------------------------

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Call *fn* on every module, children first; returns self."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: M, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        """Replace every tensor by ``fn(tensor)``.

        Parameters stay the same objects, but for those that change between memory and none (meta).
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _applied(fn, parameter)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def share_memory(self: M) -> M:
        """Move parameters, buffers and existing gradients to shared memory.

        Other processes that get the module then train the same numbers. Returns self.

        Raises:
            RuntimeError: A parameter or buffer has no size yet; nothing is shared then.
        """
        _check_can_be_shared((*self.named_parameters(), *self.named_buffers()))
        return self._apply(lambda tensor: tensor.share_memory_())

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Change dtype, device or memory format of parameters and buffers, in place.

        Takes ``(dtype)``, ``(device[, dtype])``, ``(tensor)`` and the keywords ``device``,
        ``dtype``, ``non_blocking`` and ``memory_format`` (for 4-d and 5-d tensors).

        Raises:
            TypeError: The dtype is integral, or other arguments.
            RuntimeError: ``copy`` is given: a module is changed in place.
        """
        device, dtype, memory_format = parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may "
                "change, and some modules might not work as expected when using complex tensors "
                "as parameters or buffers.",
                stacklevel=2,
            )

        def convert(tensor: Tensor) -> Tensor:
            target = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            options: dict[str, Any] = {}
            if target is not None:
                options["dtype"] = target
            if device is not None:
                options["device"] = device
            if memory_format is not None and tensor.dim() in (4, 5):
                options["memory_format"] = memory_format
            try:
                return tensor.to(**options) if options else tensor
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use shmtensor.nn.Module.to_empty() instead of "
                    "shmtensor.nn.Module.to() when moving module from meta to a different device."
                ) from None

        return self._apply(convert)

    def type(self: M, dst_type: Any) -> M:
        """Cast all parameters and buffers to *dst_type*: a dtype, a class such as `FloatTensor`, or
        its name.

        Raises:
            ValueError: It is none of these.
            RuntimeError: The dtype is integral, and a parameter requires grad.
        """
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _cast_floating(self: M, dtype: Any) -> M:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: M) -> M:
        """Cast floating point parameters and buffers to float32."""
        return self._cast_floating(shmtensor.float32)

    def double(self: M) -> M:
        """Cast floating point parameters and buffers to float64."""
        return self._cast_floating(shmtensor.float64)

    def half(self: M) -> M:
        """Cast floating point parameters and buffers to float16."""
        return self._cast_floating(shmtensor.float16)

    def bfloat16(self: M) -> M:
        """Cast floating point parameters and buffers to bfloat16."""
        return self._cast_floating(shmtensor.bfloat16)

    def cpu(self: M) -> M:
        """Move to the CPU device."""
        return self._apply(lambda tensor: tensor.to(device="cpu"))

    def cuda(self: M, device: Any = None) -> M:
        """Raise what ``to("cuda")`` raises: there is no such device."""
        return self.to("cuda")

    def xpu(self: M, device: Any = None) -> M:
        """Raise what ``to("xpu")`` raises: there is no such device."""
        return self.to("xpu")

    def mtia(self: M, device: Any = None) -> M:
        """Raise what ``to("mtia")`` raises: there is no such device."""
        return self.to("mtia")

    def ipu(self: M, device: Any = None) -> M:
        """Raise RuntimeError: there is no such device."""
        raise RuntimeError("PyTorch is not linked with support for ipu devices")

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Move to *device* without copying values."""
        return self._apply(lambda t: shmtensor.empty_like(t, device=device), recurse=recurse)

    def train(self: M, mode: bool = True) -> M:
        """Set training mode here and below; returns self."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """Set evaluation mode here and below; returns self."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Say for every parameter whether gradients are collected; returns self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or set them to zero in place."""
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. "
                "The parameters are copied (in a differentiable manner) from the original module. "
                "This means they are not leaf nodes in autograd and so don't accumulate gradients. "
                "If you need gradients in your forward method, consider using autograd.grad "
                "instead.",
                stacklevel=2,
            )
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                set_to_zero(parameter)

    # --- the rest --------------------------------------------------------------------------

    def _replicate_for_data_parallel(self: M) -> M:
        """Return a module of the same attributes, without parameters and with its own tables."""
        replica = self.__new__(type(self))
        vars(replica).update(vars(self))
        vars(replica).update(
            _parameters={}, _buffers=dict(self._buffers), _modules=dict(self._modules)
        )
        vars(replica)["_is_replica"] = True
        return replica

    def extra_repr(self) -> str:
        """What a layer says about itself between the parentheses of its repr."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(m))}" for name, m in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        body = "\n  ".join(lines + children)
        return f"{self._get_name()}(\n  {body}\n)"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


if not TYPE_CHECKING:
    # In C (csrc/python/nn/modules.c): in a small model most of the time would be that of this call.
    Module.__call__ = _C._module_call(Module, all_modules.of_calls)
