"""Start methods: contexts with this package's queues and pools.

A program has one start method. The default context here reads and sets that of the standard
package, so both packages agree. Process classes, and everything else that is not overridden, are
the standard ones.
"""

from __future__ import annotations

import multiprocessing.context as _standard
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from shmtensor.multiprocessing._overlay import Overlay
from shmtensor.multiprocessing._stdlib import default_context

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from typing_extensions import Self

    from shmtensor.multiprocessing import pool, queues

__all__: tuple[str, ...] = ()


class BaseContext(_standard.BaseContext):
    """What the contexts of all start methods share."""

    if TYPE_CHECKING:  # each start method has a class of its own
        Process: type[BaseProcess]

    def Queue(  # type: ignore[override]
        self, maxsize: int = 0, *, adopt: str | Iterable[str] | None = None
    ) -> queues.Queue[Any]:
        """Return a queue object; see `shmtensor.multiprocessing.queues.Queue`."""
        from shmtensor.multiprocessing.queues import Queue  # only programs that make one need it

        return Queue(maxsize, ctx=self.get_context(), adopt=adopt)

    def JoinableQueue(  # type: ignore[override]
        self, maxsize: int = 0, *, adopt: str | Iterable[str] | None = None
    ) -> queues.JoinableQueue[Any]:
        """Return a queue that knows which items are done; see `queues.JoinableQueue`."""
        from shmtensor.multiprocessing.queues import JoinableQueue

        return JoinableQueue(maxsize, ctx=self.get_context(), adopt=adopt)

    def SimpleQueue(  # type: ignore[override]
        self, *, adopt: str | Iterable[str] | None = None
    ) -> queues.SimpleQueue[Any]:
        """Return a queue without a bound, a feeder thread or timeouts."""
        from shmtensor.multiprocessing.queues import SimpleQueue

        return SimpleQueue(ctx=self.get_context(), adopt=adopt)

    def Pool(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[object] = (),
        maxtasksperchild: int | None = None,
        *,
        adopt: str | Iterable[str] | None = None,
    ) -> pool.Pool:
        """Return a pool of worker processes; see `shmtensor.multiprocessing.pool.Pool`."""
        from shmtensor.multiprocessing.pool import Pool

        return Pool(
            processes,
            initializer,
            initargs,
            maxtasksperchild,
            context=self.get_context(),
            adopt=adopt,
        )

    @overload  # type: ignore[override]
    def get_context(self, method: None = None) -> Self: ...
    @overload
    def get_context(self, method: Literal["fork"]) -> ForkContext: ...
    @overload
    def get_context(self, method: Literal["spawn"]) -> SpawnContext: ...
    @overload
    def get_context(self, method: Literal["forkserver"]) -> ForkServerContext: ...
    @overload
    def get_context(self, method: str) -> BaseContext: ...
    def get_context(self, method: str | None = None) -> BaseContext:
        """Return the context of a start method; None: this context.

        Raises:
            ValueError: There is no such start method here.
        """
        if method is None:
            return self
        if method not in _concrete_contexts:
            raise ValueError(f"cannot find context for {method!r}")
        default_context().get_context(method)  # raises where the system cannot do it
        return cast("BaseContext", _concrete_contexts[method])


class ForkContext(BaseContext, _standard.ForkContext):  # type: ignore[misc]
    """Children are copies of the process as it is."""


class SpawnContext(BaseContext, _standard.SpawnContext):  # type: ignore[misc]
    """Children are fresh interpreters."""


class ForkServerContext(BaseContext, _standard.ForkServerContext):  # type: ignore[misc]
    """Children are copies of a small server process that was started fresh."""


class DefaultContext(BaseContext, _standard.DefaultContext):  # type: ignore[misc]
    """The context of the current start method, which is the standard package's."""

    def __init__(self) -> None:
        # No state: see the module's docstring.
        pass

    @property
    def _default_context(self) -> BaseContext:
        return cast(BaseContext, _concrete_contexts[self.get_all_start_methods()[0]])

    @property
    def _actual_context(self) -> BaseContext | None:
        method = self.get_start_method(allow_none=True)
        return None if method is None else _concrete_contexts[method]

    @_actual_context.setter
    def _actual_context(self, context: Any) -> None:
        self.set_start_method(None if context is None else context.get_start_method(), force=True)

    def get_context(self, method: str | None = None) -> BaseContext:  # type: ignore[override]
        """Return the context of a start method; None: of the current one.

        Raises:
            ValueError: There is no such start method here.
        """
        return super().get_context(self.get_start_method() if method is None else method)

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        """Choose the start method of this package and the standard one.

        Raises:
            RuntimeError: It was chosen before, and *force* is false.
            ValueError: There is no such start method here.
        """
        default_context().set_start_method(method, force)  # type: ignore[arg-type]

    @overload  # type: ignore[override]
    def get_start_method(self, allow_none: Literal[False] = False) -> str: ...
    @overload
    def get_start_method(self, allow_none: bool) -> str | None: ...
    def get_start_method(self, allow_none: bool = False) -> str | None:
        """Return the name of the start method; None if *allow_none* and none was chosen.

        Without *allow_none*, this call chooses the default.
        """
        return default_context().get_start_method(allow_none)

    def get_all_start_methods(self) -> list[str]:
        """Return the names of the start methods, the default one first."""
        return default_context().get_all_start_methods()


_concrete_contexts: dict[str, Any] = {
    "fork": ForkContext(),
    "spawn": SpawnContext(),
    "forkserver": ForkServerContext(),
}
_default_context = DefaultContext()
Overlay.install(__name__, _standard)
