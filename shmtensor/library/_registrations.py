"""Definitions, kernels and fallbacks, each held by a `Library`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from shmtensor import _C
from shmtensor._core._dispatch_keys import is_absent, own_name
from shmtensor._core._ops import OpOverload

__all__ = ["Library", "define", "fallthrough_kernel", "impl"]

_F = TypeVar("_F", bound=Callable[..., Any])
_BUILTIN = ("aten", "shmtensor")
_KINDS = ("DEF", "IMPL", "FRAGMENT")

_KEYS_OF_TYPES = {"cpu": "CPU", "meta": "Meta", "default": "CompositeExplicitAutograd"}

_lasting: dict[str, Library] = {}  # by namespace: what was registered without a library
_definitions: dict[str, str] = {}  # namespace -> where its DEF library was made


def fallthrough_kernel() -> None:
    """Stand for "pass on to the next key" in `Library.impl` and `Library.fallback`."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def _caller() -> str:
    """``file:line`` of the code outside this module that is registering."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Library:
    """Registrations in one namespace.

    Args:
        ns: The namespace; ``"aten"`` is that of the built-in operators.
        kind: ``"DEF"`` defines a namespace's operators (one such library per namespace),
            ``"FRAGMENT"`` adds operators, ``"IMPL"`` adds kernels only.
        dispatch_key: The key of kernels if ``impl`` names none.

    Raises:
        ValueError: *kind* is another word.
        RuntimeError: The namespace has a ``DEF`` library already; both places are named.

    Source:
        torch.library.Library.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self._registrations: list[Any] = []
        self._is_definition = False
        if kind not in _KINDS:
            raise ValueError(f"Unsupported kind: {kind}")
        if kind == "DEF" and ns in _BUILTIN:
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        where = _caller()
        if kind == "DEF":
            if ns in _definitions:
                raise RuntimeError(
                    f"Library: only a single DEF library can define namespace '{ns}'; first at "
                    f"{_definitions[ns]}, again at {where}"
                )
            _definitions[ns] = where
            self._is_definition = True
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def _full_name(self, name: str) -> str:
        namespace, separator, plain = name.rpartition("::")
        if separator and namespace != self.ns and {namespace, self.ns} - set(_BUILTIN):
            raise ValueError(f"'{name}' is not in this library's namespace '{self.ns}'")
        return plain if self.ns in _BUILTIN else f"{self.ns}::{plain}"

    def _key(self, given: Any) -> str:
        """The key of a registration as it is called here; empty for none."""
        key = given or self.dispatch_key
        return own_name(getattr(key, "name", key))

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator.

        Args:
            schema: Such as ``"scale(Tensor self, float by=2.0) -> Tensor"``.
            alias_analysis: Accepted.
            tags: Accepted.

        Returns:
            The operator's name.

        Raises:
            RuntimeError: It exists; both places are named.
            ValueError: The schema cannot be read, with the position.

        Source:
            torch.library.Library.define.
        """
        if self.kind == "IMPL":
            raise RuntimeError(f"define(): a library of kind IMPL cannot define '{schema}'")
        name, parenthesis, rest = schema.partition("(")
        full = self._full_name(name.strip())
        self._registrations.append(_C._library_define(full + parenthesis + rest, _caller()))
        return name.strip().rpartition("::")[2]

    def impl(
        self,
        op_name: str | OpOverload,
        fn: Callable[..., Any],
        dispatch_key: Any = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Give an operator a kernel.

        Args:
            op_name: ``"name"`` or ``"name.overload"`` in this namespace, or an operator object.
            fn: Takes the schema's arguments, the keyword-only ones by keyword.
            dispatch_key: A dispatch or alias key, as a text or a `DispatchKey`; by default that of
                the library. Keys of devices that are not here are accepted, and never asked.
            with_keyset: Pass the key set, an int, before the arguments.
            allow_override: Accepted: the newest kernel counts, and dropping it brings the one
                before back.

        Raises:
            RuntimeError: No such operator is defined.
            ValueError: There is no such key.

        Source:
            torch.library.Library.impl.
        """
        name = op_name._name if isinstance(op_name, OpOverload) else op_name
        if isinstance(op_name, OpOverload) and op_name._overload:
            name = f"{name}.{op_name._overload}"
        key = self._key(dispatch_key) or "CompositeImplicitAutograd"
        if fn is fallthrough_kernel:
            raise ValueError("a fallthrough is for keys as a whole: use Library.fallback")
        full = self._full_name(name)
        if is_absent(key):  # of devices that are not here
            return
        self._registrations.append(_C._library_impl(full, key, fn, _caller(), with_keyset))

    def fallback(
        self, fn: Callable[..., Any], dispatch_key: Any = "", *, with_keyset: bool = False
    ) -> None:
        """Serve every operator that has no kernel for a key.

        Args:
            fn: Gets the operator object, then its arguments; `fallthrough_kernel` passes on to
                the next key.
            dispatch_key: A dispatch key; by default that of the library.
            with_keyset: Not available for fallbacks.

        Raises:
            RuntimeError: *with_keyset*.
            ValueError: There is no such key, or it is an alias.

        Source:
            torch.library.Library.fallback.
        """
        key = self._key(dispatch_key)
        if not key:
            raise ValueError("fallback(): a dispatch key is needed")
        if with_keyset:
            raise RuntimeError("fallback(): with_keyset is not available")
        if is_absent(key):
            return
        kernel = None if fn is fallthrough_kernel else fn
        self._registrations.append(_C._library_impl(None, key, kernel, _caller(), False))

    def _destroy(self) -> None:
        """Take everything back; the newest first."""
        while self._registrations:
            self._registrations.pop()
        if self._is_definition:
            _definitions.pop(self.ns, None)
            self._is_definition = False

    def __del__(self) -> None:
        self._destroy()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *exc: object) -> None:
        self._destroy()


def _library_for(qualname: str, lib: Library | None) -> Library:
    """*lib*, or one for the namespace of *qualname* whose registrations stay.

    Raises:
        ValueError: *qualname* is not ``"namespace::name"``.
    """
    namespace, separator, name = qualname.partition("::")
    if not (separator and namespace and name):
        raise ValueError(
            'Expected `qualname` to be of the form "namespace::name", but got '
            f"{qualname}: the namespace tells whose operator it is, as in aten::sin"
        )
    if lib is not None:
        return lib
    if namespace not in _lasting:
        _lasting[namespace] = Library(namespace, "FRAGMENT")
    return _lasting[namespace]


@functools.singledispatch
def impl(
    qualname: Any,
    types: str | Sequence[str],
    func: _F | None = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Register *func*, or without it the decorated function, as an operator's kernel.

    ``impl("mylib::twice", "cpu")``; or the decorator ``impl(lib, "twice", "CPU")``, with a
    `Library`, the name of an operator in it, and a dispatch key as in `Library.impl`.

    Args:
        qualname: The operator, ``"namespace::name"``.
        types: ``"cpu"``, ``"meta"``, ``"default"`` for all devices, a dispatch key, or several.
        func: Takes the schema's arguments, the keyword-only ones by keyword.
        lib: Holds the registration; without it, it stays.

    Returns:
        *func*, or a decorator.

    Raises:
        RuntimeError: No such operator is defined.
        ValueError: *qualname* has no namespace, or there is no such device or key.

    Source:
        torch.library.impl.
    """
    holder = _library_for(qualname, lib)
    keys = [_KEYS_OF_TYPES.get(t, t) for t in ([types] if isinstance(types, str) else types)]

    def register(function: _F) -> _F:
        for key in keys:
            holder.impl(qualname, function, key)
        return function

    return register if func is None else register(func)


@impl.register
def _impl_in(lib: Library, name: str, dispatch_key: str = "") -> Callable[[_F], _F]:
    def register(function: _F) -> _F:
        lib.impl(name, function, dispatch_key)
        return function

    return register


@functools.singledispatch
def define(qualname: Any, schema: str, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Define an operator; `impl`, `register_fake` and their like give it kernels.

    ``define("mylib::twice", "(Tensor x) -> Tensor")``; or ``define(lib, "twice(Tensor x) ->
    Tensor")``, with a `Library`: a decorator of the operator's CompositeImplicitAutograd kernel.

    Args:
        qualname: ``"namespace::name"``.
        schema: Arguments and results.
        lib: Holds the registration; without it, it stays.
        tags: Accepted.

    Raises:
        RuntimeError: The operator exists.
        ValueError: *qualname* has no namespace, or *schema* cannot be read.

    Source:
        torch.library.define.
    """
    if not isinstance(qualname, str):
        raise ValueError(
            "define(qualname, schema): expected qualname to be instance of str, got "
            f"{type(qualname)}"
        )
    if not schema.lstrip().startswith("("):
        raise ValueError(
            "define(qualname, schema, ...): expected schema to look like e.g. "
            f'"(Tensor x) -> Tensor" but got "{schema}"'
        )
    _library_for(qualname, lib).define(qualname + schema, tags=tags)


@define.register
def _define_in(lib: Library, schema: str, alias_analysis: str = "") -> Callable[[_F], _F]:
    def register(function: _F) -> _F:
        name = lib.define(schema, alias_analysis)
        lib.impl(name, function)
        return function

    return register
