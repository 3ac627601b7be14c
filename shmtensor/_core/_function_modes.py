"""Modes that answer every call of their thread, and what `overrides` says of functions.

C catches free functions and methods. What does not go that way - operators, properties, a few
functions that make tensors - is wrapped while there is a mode in the process, and plain again after
the last.

Source:
    torch.overrides.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, TracebackType
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._fork_locks import module_lock
from shmtensor._core._tensor import Tensor
from shmtensor._core._without_overrides import DisableTorchFunction

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "TorchFunctionMode",
    "_get_current_function_mode",
    "_get_current_function_mode_stack",
    "enable_reentrant_dispatch",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "redispatch_function",
]

_FACTORIES = "as_tensor asarray from_dlpack from_numpy frombuffer tensor".split()

_lock = module_lock()
_n_active = 0
_before: list[tuple[Any, str, Any]] = []  # what is wrapped: owner, name, value; None: inherited


def _caught_factory(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    from shmtensor.overrides import handle_torch_function

    @functools.wraps(plain)
    def caught(*args: Any, **kwargs: Any) -> Any:
        if _C._function_mode_depth():
            return handle_torch_function(getattr(shmtensor, name), (), *args, **kwargs)
        return plain(*args, **kwargs)

    return caught


def _wrap(owner: Any, name: str, value: Any) -> None:
    _before.append((owner, name, vars(owner).get(name)))
    setattr(owner, name, value)


def _enter() -> None:
    """Count a mode; wrap for the first one."""
    from shmtensor.overrides import _catchable

    global _n_active
    with _lock:
        _n_active += 1
        if _n_active > 1:
            return
        for name, caught in _catchable().items():
            _wrap(Tensor, name, caught)
        for name in _FACTORIES:
            _wrap(shmtensor, name, _caught_factory(name, getattr(shmtensor, name)))


def _leave() -> None:
    global _n_active
    with _lock:
        _n_active -= 1
        if _n_active:
            return
        for owner, name, value in _before:
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        _before.clear()


class TorchFunctionMode:
    """A context in which ``__torch_function__`` gets every call of this thread.

    Subclasses override ``__torch_function__(self, func, types, args, kwargs)`` and mostly end in
    ``return func(*args, **kwargs)``, which goes on to the next mode out, or to the tensors.

    Source:
        torch.overrides.TorchFunctionMode.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """See a call, and answer it. Must be overridden.

        Args:
            func: What is called: a function, a method of `Tensor`, or ``__get__`` of a property.
            types: The classes of arguments that answer calls themselves.
            args: The positional arguments.
            kwargs: The arguments by name.
        """
        raise NotImplementedError

    def __enter__(self) -> Any:
        _enter()
        _C._push_function_mode(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        _C._pop_function_mode()
        _leave()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a mode; entering it is what takes effect."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that lets every call go on."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> TorchFunctionMode | None:
    """Return the innermost mode of this thread, or None."""
    depth = _C._function_mode_depth()
    mode: TorchFunctionMode | None = _C._function_mode_at(depth - 1) if depth else None
    return mode


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    """Return the modes of this thread, the outermost first."""
    return [_C._function_mode_at(i) for i in range(_C._function_mode_depth())]


def redispatch_function(
    func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """Call *func* plainly, from within ``__torch_function__``.

    Args:
        func: As ``__torch_function__`` got it.
        types: Likewise.
        args: Likewise.
        kwargs: Likewise.
    """
    with DisableTorchFunction():
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Let operators that a dispatch mode calls reach modes again: they do without it."""
    yield


# --- which functions can be overridden -----------------------------------------------------------

_IGNORED = """
    are_deterministic_algorithms_enabled compile enable_grad get_default_device get_default_dtype
    get_num_threads get_rng_state inference_mode initial_seed is_grad_enabled is_storage is_tensor
    load manual_seed no_grad save seed set_default_device set_default_dtype set_default_tensor_type
    set_grad_enabled set_num_threads set_printoptions set_rng_state typename
    use_deterministic_algorithms
""".split()


def _is_function(value: Any) -> bool:
    return isinstance(value, (BuiltinFunctionType, FunctionType))


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return public functions that no class or mode is asked about.

    Source:
        torch.overrides.get_ignored_functions.
    """
    from shmtensor.overrides import _NEVER

    ignored = {getattr(shmtensor, name) for name in _IGNORED if hasattr(shmtensor, name)}
    methods = {getattr(Tensor, name) for name in _NEVER}
    return ignored | methods


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions that a class may be asked about, by the namespace they are in.

    Returns:
        Namespace -> functions. A property stands for itself, with its ``__get__``.

    Source:
        torch.overrides.get_overridable_functions.
    """
    from shmtensor.overrides import _catchable

    ignored = get_ignored_functions()
    found: dict[Any, list[Callable[..., Any]]] = {}
    spaces = (
        shmtensor,
        shmtensor.nn.functional,
        shmtensor.linalg,
        shmtensor.fft,
        shmtensor.special,
    )
    for space in spaces:
        names = [name for name in dir(space) if not name.startswith("_")]
        functions = [getattr(space, name) for name in names]
        has_operator: list[Any] = [
            value
            for name, value in zip(names, functions, strict=True)
            if _is_function(value)
            and value not in ignored
            and (getattr(_C, name, None) is value or getattr(_C._nn, name, None) is value)
        ]
        found[space] = has_operator
    found[Tensor] = []
    for name in _catchable():
        value = getattr(Tensor, name)
        if callable(value):
            found[Tensor].append(value)
        else:
            found[value] = [value.__get__]
    return found


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return a stand-in for every function that a class may be asked about; it returns -1.

    Source:
        torch.overrides.get_testing_overrides, whose stand-ins have the functions' signatures.
    """

    def stand_in(*args: Any, **kwargs: Any) -> int:
        return -1

    return {
        function: stand_in
        for functions in get_overridable_functions().values()
        for function in functions
    }
