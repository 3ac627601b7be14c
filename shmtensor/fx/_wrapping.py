"""Functions that a trace records by name, and how they are replaced while one runs.

Source:
    torch.fx.wrap.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shmtensor._core._fork_locks import module_lock
from shmtensor.utils._pytree import tree_leaves

from ._execution import is_generated
from .proxy import Proxy

__all__ = ["OwnTrace", "Patcher", "as_it_was", "patch_wrapped", "recorded_function", "wrap"]

#: (globals, name) of the functions that `wrap` was told; globals by their identity.
_wrapped_functions: dict[tuple[int, str], dict[str, Any]] = {}
#: (class, name) of methods.
_wrapped_methods: list[tuple[type, str]] = []

#: Under this name, the globals of generated code have the names of functions that it records. They
#: are not among those above, which are kept as long as the process lives.
_WRAPPED_HERE = "__fx_wrapped__"

#: Functions of a program's own trace have this: is it to stand where it does alone?
_ALONE = "__fx_already_patched"

_ABSENT: Any = object()


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Let traces record the calls of a function that the calling module has, and not run it.

    Call it at the top level of a module, with a name or as a decorator::

        wrap("len")

        @wrap
        def chosen(x, y): ...

    Args:
        fn_or_name: A function, or the name of one in the calling module.

    Returns:
        What is given.

    Raises:
        RuntimeError: It is neither.
        NotImplementedError: It is called inside a function.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    here = inspect.currentframe()
    frame = here.f_back if here is not None else None
    if frame is None or frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    if is_generated(frame.f_code.co_filename):
        frame.f_globals.setdefault(_WRAPPED_HERE, {})[name] = None
    else:
        _wrapped_functions[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def wrap_method(cls: type, name: str) -> None:
    """Let traces record the calls of a method with proxies."""
    _wrapped_methods.append((cls, name))


def _proxy_among(args: Any, kwargs: Any) -> Proxy | None:
    return next((leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Proxy)), None)


def recorded_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that records a call with proxies, and calls *function* for others."""

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_among(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    record._fx_records = function  # type: ignore[attr-defined]
    return record


def _recorded_method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_among(args, kwargs)
        if proxy is None:
            return method(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return record


@dataclass(eq=False)
class _Patch:
    """A name in globals or a class that stands for something else while traces run.

    Args:
        holder: The globals or the class.
        name: The name.
    """

    holder: dict[str, Any] | type
    name: str
    before: Any = _ABSENT
    is_applied: bool = False
    users: set[Patcher] = field(default_factory=set)

    def apply(self, make: Callable[[Any], Any]) -> None:
        """Replace what the name stands for by what *make* makes of that."""
        names = self.holder if isinstance(self.holder, dict) else vars(self.holder)
        self.before = names.get(self.name, _ABSENT)
        value = make(self.before)
        self.is_applied = True
        self._put(value)

    def put_back(self) -> None:
        """Let the name stand for what it did."""
        if self.is_applied:
            self._put(self.before)

    def _put(self, value: Any) -> None:
        if isinstance(self.holder, dict):
            if value is _ABSENT:
                self.holder.pop(self.name, None)
            else:
                self.holder[self.name] = value
        elif value is not _ABSENT:
            setattr(self.holder, self.name, value)
        elif self.name in vars(self.holder):
            delattr(self.holder, self.name)


#: What is replaced at present, by the identity of its holder and its name.
_active: dict[tuple[int, str], _Patch] = {}
_lock = module_lock()


class Patcher:
    """What one trace lets names in globals and classes stand for, until `put_back`.

    Note [Traces at once]
    Names are replaced for the whole process, by the first trace that wants it, and put back by the
    last one that does, whatever the order in which threads begin and end. So what stands there
    belongs to no trace: it finds the tracer by the proxies among its arguments, or by its thread.
    A signal's exception may end any step: `put_back` still knows what was done, also when it is
    called again because one has ended it.
    """

    def __init__(self) -> None:
        self._patches: list[_Patch] = []
        self._checked: set[int] = set()

    def patch(self, holder: dict[str, Any] | type, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a name in globals, or a method of a class, unless another trace has done so.

        Args:
            holder: The globals or the class.
            name: The name.
            make: Takes what it stands for, or `_ABSENT`, and returns what it is to stand for.
        """
        place = id(holder), name
        with _lock:
            patch = _active.setdefault(place, _Patch(holder, name))
            if self in patch.users:
                return
            self._patches.append(patch)
            patch.users.add(self)
            if not patch.is_applied:
                patch.apply(make)

    def record_functions_of(self, names: dict[str, Any], functions: set[int]) -> None:
        """Record the calls of functions wherever globals have them.

        Args:
            names: The globals. Those of generated code say themselves which are recorded by name.
            functions: The functions, by their identity.
        """
        if id(names) in self._checked:
            return
        self._checked.add(id(names))
        for name in names.get(_WRAPPED_HERE, ()):
            self.patch(names, name, functools.partial(_recorded, name))
        if not functions:
            return
        for name, value in [*names.items()]:
            plain = as_it_was(names, name, value)
            if not name.startswith("_") and callable(plain) and id(plain) in functions:
                self.patch(names, name, functools.partial(_recorded, name))

    def put_back(self) -> None:
        """Let the names stand for what they did."""
        while self._patches:
            patch = self._patches[-1]
            with _lock:
                patch.users.discard(self)
                place = id(patch.holder), patch.name
                if not patch.users and _active.get(place) is patch:
                    patch.put_back()
                    del _active[place]
            self._patches.pop()
        self._checked.clear()


class OwnTrace:
    """What a trace that a program wrote itself puts in place of names, while ``with`` lasts.

    Such a trace replaces what it likes by functions of its own, in the order that it wants, and
    the last replaced is put back first. What `wrap` was told is shared with other traces.

    Source:
        torch.fx._symbolic_trace._Patcher.
    """

    def __init__(self) -> None:
        self._patches: list[tuple[_Patch, Any]] = []
        self._seen: set[int] = set()
        self.shared = Patcher()

    def patch(
        self,
        frame_dict: dict[str, Any],
        name: str,
        new_fn: Callable[..., Any],
        deduplicate: bool = True,
    ) -> None:
        """Let a name in globals stand for a function.

        Args:
            frame_dict: The globals.
            name: The name.
            new_fn: The function.
            deduplicate: Leave the name alone when a function given with this stands there.
        """
        self._put(frame_dict, name, frame_dict.get(name), new_fn, deduplicate)

    def patch_method(
        self, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True
    ) -> None:
        """Let a method of a class be a function.

        Args:
            cls: The class.
            name: The method's name.
            new_fn: The function.
            deduplicate: Leave the method alone when a function given with this stands there.
        """
        self._put(cls, name, getattr(cls, name), new_fn, deduplicate)

    def _put(
        self, holder: Any, name: str, now: Any, new_fn: Callable[..., Any], deduplicate: bool
    ) -> None:
        setattr(new_fn, _ALONE, deduplicate)
        if getattr(now, _ALONE, False):
            return
        patch = _Patch(holder, name)
        self._patches.append((patch, new_fn))
        patch.apply(lambda before: new_fn)

    def visit_once(self, thing: Any) -> bool:
        """Return whether this is the first time that *thing* is given."""
        is_new = id(thing) not in self._seen
        self._seen.add(id(thing))
        return is_new

    def revert_all_patches(self) -> list[tuple[_Patch, Any]]:
        """Put back what was replaced, until `reapply_all_patches`; return what it was."""
        for patch, _ in reversed(self._patches):
            patch.put_back()
        return self._patches

    def reapply_all_patches(self) -> list[tuple[_Patch, Any]]:
        """Replace again what was put back; return what that is."""
        for patch, new_fn in self._patches:
            patch.apply(lambda before, new_fn=new_fn: new_fn)  # type: ignore[misc]
        return self._patches

    def __enter__(self) -> OwnTrace:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Put everything back."""
        self.shared.put_back()
        self.revert_all_patches()
        self._patches.clear()
        self._seen.clear()


def as_it_was(names: dict[str, Any], name: str, value: Any) -> Any:
    """Return what a name in globals, which is *value* now, is when no trace runs."""
    patch = _active.get((id(names), name))
    return value if patch is None or not patch.is_applied else patch.before


def _recorded(name: str, before: Any) -> Any:
    return recorded_function(getattr(builtins, name) if before is _ABSENT else before)


def patch_wrapped(patcher: Patcher) -> None:
    """Replace all that `wrap` was told."""
    for (_, name), names in [*_wrapped_functions.items()]:
        if name in names or hasattr(builtins, name):
            patcher.patch(names, name, functools.partial(_recorded, name))
    for cls, name in _wrapped_methods:
        method = getattr(cls, name)
        patcher.patch(cls, name, lambda before, m=method, n=name: _recorded_method(m, n))  # type: ignore[misc]
