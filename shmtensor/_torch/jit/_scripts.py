"""What `script` makes of a module: the module as it is, whose errors are those of scripts.

Note [Faces of modules]
A script shares everything with its module: parameters, buffers, children, hooks and all other
attributes are in one dict that both objects have. It differs in its class, a subclass of the
module's own that is made for it, so methods and ``isinstance`` work as before. `ScriptModule` is a
base too, as programs ask for it. Copies and pickles hold the module, and make the script again.

Source:
    torch.jit.ScriptModule.
"""

from __future__ import annotations

import copy
import functools
import types
from typing import Any

from shmtensor._core._not_offered import not_offered
from shmtensor.nn import Module

from . import _trace

__all__ = ["RecursiveScriptModule", "ScriptModule", "scripted"]


class ScriptModule(Module):
    """A base of scripts and traces, and of modules that old programs write for `script_method`."""

    def save(self, f: Any, **options: Any) -> None:
        """Raise NotImplementedError: there are no files of scripts."""
        raise not_offered("there is no TorchScript here; save() keeps a state_dict")


class RecursiveScriptModule(ScriptModule):
    """What `script` makes of a module (Note [Faces of modules])."""

    _script_of: type[Module] = Module

    def __init_subclass__(cls, **options: Any) -> None:
        """Don't tell the module's class: it made no subclass."""

    @property
    def original_name(self) -> str:
        """What the class of the module is called."""
        return type(self)._script_of.__name__

    def extra_repr(self) -> str:
        """Name the class of the module."""
        return f"original_name={self.original_name}"

    def _without_script(self) -> Module:
        """The module without its script."""
        return _face(type(self)._script_of, self)

    def __copy__(self) -> Module:
        return scripted(copy.copy(self._without_script()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        return scripted(copy.deepcopy(self._without_script(), memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return scripted, (self._without_script(),)


def _face(kind: type[Module], module: Module) -> Module:
    """Another object with everything that a module has, of another class."""
    made: Module = object.__new__(kind)
    object.__setattr__(made, "__dict__", vars(module))
    return made


def scripted(module: Module) -> Module:
    """Return the script of a module. What its ``forward`` raises is a RuntimeError.

    Args:
        module: It; one that is a script or a trace is returned as it is.
    """
    if isinstance(module, ScriptModule):
        return module
    kind = type(module)

    @functools.wraps(kind.forward)
    def forward(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return _trace.run("script", functools.partial(super(made, self).forward, *args, **kwargs))

    names = {"_script_of": kind, "__module__": kind.__module__, "forward": forward}
    bases = (RecursiveScriptModule, kind)
    made: type[Module] = types.new_class(
        "RecursiveScriptModule", bases, exec_body=lambda own: own.update(names)
    )
    return _face(made, module)
