"""Operators made of Python functions: `custom_op` and what can be added to one.

A custom operator is an ordinary operator of the dispatcher. Its function is the kernel of a device
or of all; ``register_fake`` is its Meta kernel; the kernel at Autograd applies a
`autograd.Function` made of what ``register_autograd`` was given.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from shmtensor import _C
from shmtensor._core._ops import OpOverload, OpOverloadPacket
from shmtensor.library._autograd_kernel import AutogradKernel
from shmtensor.library._infer_schema import infer_schema
from shmtensor.library._registrations import Library

__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake", "register_kernel"]

_DEVICE_KEYS = {"cpu": "CPU", "meta": "Meta"}
_definitions: weakref.WeakValueDictionary[str, CustomOpDef] = weakref.WeakValueDictionary()
_libraries: dict[str, Library] = {}  # by the operator's name: a definition ends the one before
_added: dict[str, Library] = {}  # registrations for operators that others defined


def _split_name(qualname: str) -> tuple[str, str]:
    namespace, separator, name = qualname.partition("::")
    if not separator or not namespace or not name or "::" in name:
        raise ValueError(f"Expected `name` to be of the form 'namespace::name', got {qualname!r}")
    if "." in name:
        raise ValueError(f"Expected no overload in the name of a custom operator, got {qualname!r}")
    return namespace, name


def _keys_of(device_types: str | Sequence[str] | None) -> list[str]:
    if device_types is None:
        return ["CompositeExplicitAutograd"]
    names = [device_types] if isinstance(device_types, str) else list(device_types)
    for name in names:
        if name not in _DEVICE_KEYS:
            _C.device(name)  # of a device that is not here, or an error: its name is wrong
    return [_DEVICE_KEYS[name] for name in names if name in _DEVICE_KEYS]


def _tensors_in(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, _C._TensorBase):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors_in(value)


def _refuse_aliases(name: str, inputs: Iterable[Any], result: Any) -> None:
    """Raise when a result shares memory with an argument or another result."""
    seen = {t._storage_cdata for t in _tensors_in(inputs) if t._storage_cdata}
    for tensor in _tensors_in(result if isinstance(result, (list, tuple)) else (result,)):
        storage = tensor._storage_cdata
        if storage and storage in seen:
            raise RuntimeError(
                f"{name} (with implementation in Python): The output of this custom operator (1) "
                "must not also be an input to this custom operator and (2) may not alias any "
                "inputs to this custom operator or other returns. The most common way to trigger "
                "this error is if we have y = custom_op(x) and y and x are the same Tensor. Please "
                "instead return a clone of the offending output tensor(s) (e.g. return x.clone()) "
                "or refactor the custom operator to not return y."
            )
        seen.add(storage)


class CustomOpDef:
    """An operator made by `custom_op`; call it as the function.

    Source:
        torch.library.CustomOpDef.
    """

    def __init__(
        self, namespace: str, name: str, schema: str, function: Callable[..., Any]
    ) -> None:
        self._namespace = namespace
        self._name = name
        self._schema = schema
        self._init_fn = function
        self._qualname = f"{namespace}::{name}"
        self._disabled: set[str] = set()  # keys whose kernel stands aside
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        before = _libraries.pop(self._qualname, None)
        if before is not None:
            before._destroy()
        self._lib = Library(namespace, "FRAGMENT")
        self._lib.define(f"{name}{schema}")
        _libraries[self._qualname] = self._lib
        self._opoverload: OpOverload = OpOverloadPacket(self._qualname).default
        self._autograd = AutogradKernel(self._opoverload)
        self._lib.impl(name, self._autograd, "Autograd")
        if self._autograd.mutated:
            self._lib.impl(name, self._bump_versions, "ADInplaceOrView")
        _definitions[self._qualname] = self

    def _bump_versions(self, *args: Any, **kwargs: Any) -> Any:
        before = _C._change_keys(False, "ADInplaceOrView", True)
        try:
            result = self._opoverload(*args, **kwargs)
        finally:
            _C._change_keys(False, "ADInplaceOrView", before)
        for tensor in _tensors_in(self._autograd.mutated_values(args, kwargs)):
            _C._increment_version(tensor)
        return result

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """Give the operator another function for some devices.

        Args:
            device_types: ``"cpu"``, ``"meta"``, a list of them, or None for all. Functions for
                devices that are not here, such as ``"cuda"``, are never called.
            fn: Takes the operator's arguments; without it this is a decorator.

        Raises:
            RuntimeError: A name is that of no device.

        Source:
            torch.library.CustomOpDef.register_kernel.
        """
        keys = _keys_of(device_types)

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for key in keys:
                self._lib.impl(self._name, self._kernel(function, key), key)
            return function

        return register if fn is None else register(fn)

    def _kernel(self, function: Callable[..., Any], key: str) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            run = self._init_fn if key in self._disabled else function
            result = run(*args, **kwargs)
            _refuse_aliases(self._qualname, (*args, *kwargs.values()), result)
            return result

        return kernel

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Let a device's kernel stand aside inside the block, for the operator's own function.

        Args:
            device_type: What the kernel was registered for; another changes nothing.
            enabled: False for aside; true inside a block where it stands aside, for back.

        Source:
            torch.library.CustomOpDef.set_kernel_enabled.
        """
        key = _DEVICE_KEYS.get(device_type, device_type)
        before = set(self._disabled)
        (self._disabled.discard if enabled else self._disabled.add)(key)
        try:
            yield
        finally:
            self._disabled = before

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Say the shapes and dtypes of the results: what runs for Meta tensors.

        Args:
            fn: Takes the operator's arguments and returns tensors without looking at data.

        Returns:
            *fn*.

        Source:
            torch.library.CustomOpDef.register_fake.
        """
        self._lib.impl(self._name, fn, "Meta")
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Say the derivative.

        Args:
            backward: ``backward(ctx, *grads)``: a gradient or None for each argument.
            setup_context: ``setup_context(ctx, inputs, output)``, with ``keyword_only_inputs`` as
                well when the schema has keyword-only arguments: saves what *backward* needs.

        Raises:
            RuntimeError: The operator changes arguments, or returns none.

        Source:
            torch.library.CustomOpDef.register_autograd.
        """
        self._autograd.register(backward, setup_context)


@overload
def custom_op(
    name: str,
    fn: None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Callable[[Callable[..., Any]], CustomOpDef]: ...
@overload
def custom_op(
    name: str,
    fn: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> CustomOpDef: ...
def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an operator of a Python function.

    Args:
        name: ``"namespace::name"``. Using it again replaces the operator.
        fn: The function; without it this is a decorator.
        mutates_args: The arguments that it changes in place; see `infer_schema`.
        device_types: The devices of the tensors that it takes; None: all.
        schema: Used instead of the annotations, such as ``"(Tensor x) -> Tensor"``.
        tags: Accepted.

    Returns:
        A `CustomOpDef`.

    Raises:
        ValueError: The name has no namespace, or the annotations make no schema.

    Source:
        torch.library.custom_op.
    """
    namespace, plain = _split_name(name)

    def make(function: Callable[..., Any]) -> CustomOpDef:
        text = schema
        if text is None:
            text = infer_schema(function, mutates_args=mutates_args)
        made = CustomOpDef(namespace, plain, text, function)
        declared = {made._autograd.names[i] for i in made._autograd.mutated}
        if schema is not None and mutates_args != "unknown" and declared != set(mutates_args):
            _libraries.pop(made._qualname)._destroy()
            raise ValueError(
                f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema="
                f"{schema}. The schema suggests that the op mutates {sorted(declared)} which is "
                "different from what was provided to us in `mutates_args`. Please make these "
                "consistent."
            )
        made.register_kernel(device_types, function)
        return made

    return make if fn is None else make(fn)


# --- the same for operators by name -------------------------------------------------------------


def _find(op: str | OpOverload | CustomOpDef) -> tuple[CustomOpDef | None, OpOverload]:
    if isinstance(op, CustomOpDef):
        return op, op._opoverload
    overload = op
    if isinstance(overload, str):
        namespace, name = _split_name(overload)
        overload = OpOverloadPacket(f"{namespace}::{name}").default
    if not isinstance(overload, OpOverload):
        raise ValueError(f"expected an operator, its name or a CustomOpDef, got {type(op)}")
    return _definitions.get(overload.name()), overload


def _library_of(overload: OpOverload, lib: Library | None) -> Library:
    if lib is not None:
        return lib
    if overload.namespace not in _added:
        _added[overload.namespace] = Library(overload.namespace, "FRAGMENT")
    return _added[overload.namespace]


def register_kernel(
    op: str | OpOverload | CustomOpDef,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Give an operator a function for some devices.

    Args:
        op: The operator or its name.
        device_types: As in `CustomOpDef.register_kernel`.
        func: The function; without it this is a decorator.
        lib: Holds the registration; without it, it stays.

    Source:
        torch.library.register_kernel.
    """
    definition, overload = _find(op)
    if definition is not None and lib is None:
        return definition.register_kernel(device_types, func)
    keys = _keys_of(device_types)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for key in keys:
            _library_of(overload, lib).impl(overload, function, key)
        return function

    return register if func is None else register(func)


def register_fake(
    op: str | OpOverload | CustomOpDef,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Give an operator its Meta kernel.

    Args:
        op: The operator or its name.
        func: As in `CustomOpDef.register_fake`; without it this is a decorator.
        lib: Holds the registration; without it, it stays.
        _stacklevel: Accepted.
        allow_override: Accepted, as for `Library.impl`.

    Source:
        torch.library.register_fake.
    """
    _, overload = _find(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _library_of(overload, lib).impl(overload, function, "Meta")
        return function

    return register if func is None else register(func)


def register_autograd(
    op: str | OpOverload | CustomOpDef,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Give an operator its derivative.

    Args:
        op: The operator or its name.
        backward: As in `CustomOpDef.register_autograd`.
        setup_context: The same.
        lib: Holds the registration; without it, it stays.

    Source:
        torch.library.register_autograd.
    """
    definition, overload = _find(op)
    if definition is not None:
        definition.register_autograd(backward, setup_context=setup_context)
        return
    kernel = AutogradKernel(overload)
    kernel.register(backward, setup_context)
    _library_of(overload, lib).impl(overload, kernel, "Autograd")
