"""The client of a service: publishes and attaches named values in shared memory."""

from __future__ import annotations

import math
import operator
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, NoReturn, TypeVar, overload

from shmtensor._boundary.service import MODES, SLICE_MS, Counters, Entry, Handle, Snapshot
from shmtensor._boundary.storage import StorageRef
from shmtensor._core._deadlines import deadline_of
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor.errors import HandleError, NotPublishedError, WaitTimeoutError
from shmtensor.service import _encoding, _libraries, _modules
from shmtensor.service._calls import Client, Server
from shmtensor.service._events import Event
from shmtensor.service._libraries import Library
from shmtensor.service._locks import Barrier, Lock, Semaphore
from shmtensor.service._names import with_article
from shmtensor.service._queues import Queue
from shmtensor.service._topics import Topic
from shmtensor.storage import UntypedStorage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shmtensor import Tensor

__all__ = ["Service", "Versioned"]

_RETRY_S = 0.005
_END_OF_VERSIONS = 1 << 64
_END_OF_USERS = (1 << 32) - 1
_END_OF_BYTES = 1 << 63
_MAX_DIMS = 64  # SHMT_MAX_DIMS in C

_T = TypeVar("_T")


def _default_name() -> str:
    """Name of the service that its first user starts."""
    return os.environ.get("SHMTENSOR_SERVICE") or "default"


def _sizes_of(size: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """Return the sizes that were given as numbers, or as one sequence of them."""
    given = size[0] if len(size) == 1 and isinstance(size[0], Sequence) else size
    sizes = tuple(operator.index(n) for n in given)  # type: ignore[arg-type]
    if any(n < 0 for n in sizes):
        raise ValueError(f"empty(): sizes cannot be negative, got {sizes}")
    if len(sizes) > _MAX_DIMS:
        raise RuntimeError(f"empty(): at most {_MAX_DIMS} sizes are possible, got {len(sizes)}")
    return sizes


def _slice_ms(deadline: float | None) -> int:
    """Milliseconds to wait next; 0: the deadline has passed."""
    if deadline is None:
        return SLICE_MS
    left = deadline - time.monotonic()
    return 0 if left <= 0 else min(SLICE_MS, int(left * 1000) + 1)


if TYPE_CHECKING:

    class Versioned(NamedTuple, Generic[_T]):
        """A value and its version."""

        value: _T
        version: int

else:  # Python 3.10 has no generic named tuples

    class Versioned(NamedTuple):
        """A value and its version."""

        value: Any
        version: int


class Service:
    """Named values that unrelated processes share.

    Args:
        name: The name in ``shmtensor serve --name``. None: the default service. Its name is in
            the environment variable ``SHMTENSOR_SERVICE``, or ``"default"``. The first process
            that needs it starts it, and it ends when it has no process and no persistent name.
        socket: The path in ``shmtensor serve --socket``.
        owner: Id of the user who runs the service; None: the user of this process at its first use.
        start: Start the service if it does not run; it then ends like the default one. Not with
            *socket*, or with another *owner*.

    Raises:
        ValueError: *start* was given with *socket* or another *owner*, or *owner* can be no user.

    The first method that needs the service joins it, and raises `ManagerError` if the service does
    not run. A ``with`` block closes the object at its end.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        owner: int | None = None,
        start: bool = False,
    ) -> None:
        self._given_name = name
        self._path = None if socket is None else os.path.abspath(os.fsdecode(socket))
        self._owner = owner
        self._starts = start
        self._made: Handle | None = None
        self._is_closed = False
        if owner is not None and not 0 <= owner < _END_OF_USERS:
            raise ValueError(f"owner must be the id of a user, got {owner}")
        if start and not self._is_own():
            raise ValueError(
                "Service(): start=True starts your own service by its name; "
                "leave out socket and owner"
            )
        if name is not None:
            self._make_handle()  # which checks the arguments

    def _is_own(self) -> bool:
        return self._path is None and self._owner in (None, os.geteuid())

    @property
    def _name(self) -> str:
        return _default_name() if self._given_name is None else self._given_name

    @property
    def _handle(self) -> Handle:
        if self._is_closed:
            raise ValueError(f"{self!r} is used after close()")
        return self._make_handle() if self._made is None else self._made

    def _make_handle(self) -> Handle:
        name = self._name
        may_start = self._is_own() and (self._starts or name == _default_name())
        self._made = made = Handle(name, self._path, self._owner, may_start)
        return made

    def close(self) -> None:
        """Stop using the service through this object: its methods raise ValueError from now on.

        Values that this process has published stay until someone unpublishes them or the process
        ends. Attached values and open locks stay usable.
        """
        self._is_closed = True
        self._made = None

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        path = "" if self._path is None else f", socket={self._path!r}"
        owner = "" if self._owner is None else f", owner={self._owner}"
        closed = ", closed" if self._is_closed else ""
        return f"<Service {self._name!r}{path}{owner}{closed}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Service is found by its name, it cannot be pickled")

    # --- publishing ---------------------------------------------------------------------------

    def publish(
        self, name: str, value: object, *, persist: bool = False, timeout: float | None = 0.0
    ) -> int:
        """Publish *value* under *name*, as a new version.

        Processes that have an older version keep it. Nobody waits, and nobody sees a half-published
        value. `publish` copies the bytes into the service, except those of tensors that are in its
        memory already (from `empty`, or attached with ``mode="rw"``). It shares these as they are:
        everybody who has this version sees later writes to them.

        Args:
            name: 1 to 127 bytes.
            value: A tensor or a module, of this package or of torch; a NumPy array; or dicts,
                lists and tuples of tensors, arrays, numbers, strings, bytes and None. Tensors that
                share a storage also share one in the readers.
            persist: Let the name outlive this process.
            timeout: Seconds to wait for room if a memory limit is reached; None waits forever.

        Returns:
            The version; it is higher than all earlier ones of this name.

        Raises:
            TypeError: *value* contains something else.
            RuntimeError: A tensor requires grad and is not a leaf, or the name is another user's.
            MemoryError: There is not enough room; the text states the bytes and who has most.
            ManagerError: The service cannot be reached.
        """
        if _libraries.is_module(value) or _libraries.is_torch_module(value):
            return self.publish_module(name, value, persist=persist, timeout=timeout)
        return self._publish(name, "value", value, {}, persist, timeout)

    def _publish(
        self,
        name: str,
        kind: str,
        value: object,
        more: Mapping[str, Any],
        persist: bool,
        timeout: float | None,
    ) -> int:
        self._check_name(name)
        deadline = deadline_of(timeout)

        def make(nbytes: int) -> StorageRef:
            return self._with_room(lambda: self._handle.new_storage(nbytes), deadline)

        self._handle.join(True)
        storages, structure = _encoding.encode(value, self._handle.owns, make)
        text = _encoding.to_text({"kind": kind, "value": structure, **more})
        addresses = [s._cdata for s in storages]
        return self._with_room(
            lambda: self._handle.publish(name, addresses, text, persist), deadline
        )

    @staticmethod
    def _with_room(attempt: Callable[[], _T], deadline: float | None) -> _T:
        while True:
            try:
                return attempt()
            except MemoryError as error:
                raise_of_handler(error)
                if deadline is not None and time.monotonic() >= deadline:
                    raise
            time.sleep(_RETRY_S)

    @staticmethod
    def _check_name(name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a name must be a str, got {type(name).__name__}")
        if not name or len(name.encode()) > 127 or "\0" in name:
            raise ValueError(f"a name must have 1 to 127 bytes, none of them 0; got {name!r}")

    def unpublish(self, name: str) -> None:
        """Remove the value of *name*. Processes that have the value keep it.

        Raises:
            NotPublishedError: Nothing is published under this name; it is a KeyError.
            RuntimeError: Another user published it.
        """
        self._check_name(name)
        self._handle.unpublish(name)

    @overload
    def empty(
        self,
        *size: int | Sequence[int],
        dtype: object = None,
        timeout: float | None = 0.0,
        as_: Literal["shmtensor"] = "shmtensor",
    ) -> Tensor: ...
    @overload
    def empty(
        self,
        *size: int | Sequence[int],
        dtype: object = None,
        timeout: float | None = 0.0,
        as_: Literal["numpy"],
    ) -> NDArray[Any]: ...
    @overload
    def empty(
        self,
        *size: int | Sequence[int],
        dtype: object = None,
        timeout: float | None = 0.0,
        as_: Library,
    ) -> Any: ...
    def empty(
        self,
        *size: int | Sequence[int],
        dtype: object = None,
        timeout: float | None = 0.0,
        as_: Library = "shmtensor",
    ) -> Any:
        """Make a tensor or an array in the service's memory, which `publish` need not copy.

        Args:
            *size: The sizes: numbers, or one sequence of them.
            dtype: A dtype of this package, of NumPy or of torch; for arrays, anything that
                ``numpy.dtype`` takes, except objects. None: the library's default dtype.
            timeout: As in `publish`.
            as_: What to return: a tensor of this package (``"shmtensor"``), an array
                (``"numpy"``), or a tensor of torch (``"torch"``).

        Returns:
            A contiguous tensor or array; its elements are not initialised.

        Raises:
            TypeError: The library has no such dtype.
            ValueError: A size is negative.
            RuntimeError: There are more than 64 sizes.
            MemoryError: There is not enough room.
            ModuleNotFoundError: *as_* is ``"torch"``, and torch is not installed.
        """
        _libraries.check_library(as_)
        ours, theirs = _libraries.dtype_of(dtype, as_)
        sizes = _sizes_of(size)
        nbytes = math.prod(sizes) * _libraries.itemsize_of(ours, theirs)
        if nbytes >= _END_OF_BYTES:
            raise MemoryError(f"empty(): tried to allocate {nbytes} bytes")
        deadline = deadline_of(timeout)
        ref = self._with_room(lambda: self._handle.new_storage(nbytes), deadline)
        return _libraries.over(UntypedStorage._own(ref), sizes, ours, theirs, as_)

    # --- attaching ----------------------------------------------------------------------------

    def attach(self, name: str, mode: str = "ro", *, as_: Library = "shmtensor") -> Any:
        """Return the current value of *name* without copying it.

        The memory lives as long as the returned tensors, whatever happens to the name.

        Args:
            name: As given to `publish`.
            mode: ``"ro"``: operators that write raise RuntimeError, and the kernel stops other
                stores; torch has no read-only tensors, so there a write ends the process. ``"rw"``:
                everybody who has this version sees writes. ``"cow"``: writes stay in this process;
                pages that it has not written show later writes of others.
            as_: What to return, whoever published it: tensors of this package
                (``"shmtensor"``), arrays (``"numpy"``), or tensors of torch (``"torch"``).

        Returns:
            The value; for a module, its parameters and buffers by name.

        Raises:
            NotPublishedError: Nothing is published under this name; it is a KeyError.
            ValueError: The name stands for a queue.
            TypeError: The value has a dtype that the library *as_* does not have.
            HandleError: The value is damaged: a process has written over its description.
            ManagerError: The service cannot be reached.
            ModuleNotFoundError: *as_* is ``"torch"``, and torch is not installed.
        """
        return self.latest(name, mode, as_=as_).value

    def latest(self, name: str, mode: str = "ro", *, as_: Library = "shmtensor") -> Versioned[Any]:
        """Return the newest value with its version; otherwise like `attach`."""
        document, entry = self._open(name, mode, as_)
        return Versioned(document.value, entry.version)

    def _open(self, name: str, mode: str, as_: Library) -> tuple[_encoding.Document, Entry]:
        _libraries.check_library(as_)
        if mode not in MODES:
            raise ValueError(f"mode must be one of {MODES}, got {mode!r}")
        self._check_name(name)
        try:
            snapshot = self._snapshot(name, mode)
            storages = [UntypedStorage._own(ref) for ref in snapshot.storages]
            document = _encoding.read(snapshot.text, storages)
        except HandleError as error:
            raise HandleError(f"{name!r}: {error}") from None
        if document.file is not None:
            if mode == "rw":
                raise ValueError(f"{name!r} is a file; attach it with mode 'ro' or 'cow'")
            document = document._replace(value=_modules.open_file(document.file, mode == "cow"))
        try:
            value = _libraries.given(document.value, as_)
        except (TypeError, HandleError) as error:
            raise_of_handler(error)
            raise type(error)(f"{name!r}: {error}") from None
        return document._replace(value=value), snapshot.entry

    def _snapshot(self, name: str, mode: str) -> Snapshot:
        snapshot = self._handle.snapshot(name, mode)
        if snapshot.entry.kind != "value":
            kind = snapshot.entry.kind
            raise ValueError(
                f"{name!r} is {with_article(kind)}; open it with {kind.title()}({name!r})"
            )
        return snapshot

    def version(self, name: str) -> int:
        """Return the number of the newest version, without a system call.

        Raises:
            NotPublishedError: Nothing is published under this name; it is a KeyError.
        """
        return self.info(name).version

    def info(self, name: str) -> Entry:
        """Return version, bytes, age and publisher of *name*.

        Raises:
            NotPublishedError: Nothing is published under this name; it is a KeyError.
        """
        self._check_name(name)
        return self._handle.entry(name)

    def wait_newer(
        self,
        name: str,
        version: int,
        timeout: float | None = None,
        mode: str = "ro",
        *,
        as_: Library = "shmtensor",
    ) -> Versioned[Any]:
        """Wait until *name* has a version above *version*; it need not exist yet.

        Args:
            name: As published.
            version: The version that you have; 0 waits for any.
            timeout: Seconds to wait; None waits forever.
            mode: As in `attach`.
            as_: As in `attach`.

        Returns:
            The newest value and its version.

        Raises:
            WaitTimeoutError: Nobody published one in time; it is a TimeoutError.
            ValueError: *version* is out of range.
            HandleError: The value is damaged.
            ManagerError: The service has ended, or another manager has started a new one.
        """
        self._check_name(name)
        if not 0 <= version < _END_OF_VERSIONS:
            raise ValueError(f"version must be a number from 0 to 2**64 - 1, got {version}")
        deadline = deadline_of(timeout)
        while True:
            wait_ms = _slice_ms(deadline)
            if self._handle.wait_newer(name, version, wait_ms):
                found = self._latest_above(name, version, mode, as_)
                if found is not None:
                    return found
                time.sleep(_RETRY_S)
            if wait_ms == 0:
                raise WaitTimeoutError(f"no version of {name!r} above {version} after {timeout} s")

    def _latest_above(
        self, name: str, version: int, mode: str, as_: Library
    ) -> Versioned[Any] | None:
        try:
            found = self.latest(name, mode, as_=as_)
        except NotPublishedError:
            return None  # it was unpublished meanwhile
        return found if found.version > version else None

    def list(self) -> dict[str, Entry]:
        """Return the facts of every name, see `info`."""
        return self._handle.entries()

    def status(self) -> Counters:
        """Return the service's counters."""
        return self._handle.status()

    # --- modules ------------------------------------------------------------------------------

    def publish_module(
        self,
        name: str,
        module: object,
        *,
        persist: bool = False,
        timeout: float | None = 0.0,
    ) -> int:
        """Publish a module's parameters and buffers, or those in a safetensors file.

        Of a file, only the path and identity are published. Every process that attaches it maps the
        file itself, so there is one copy of its pages in memory, and none in the service.

        Args:
            name: As in `publish`.
            module: A module of this package or of torch, or the path of a file.
            persist: As in `publish`.
            timeout: As in `publish`.

        Returns:
            The version.

        Raises:
            SafetensorsError: The file is not a valid safetensors file.
            MemoryError: There is not enough room.
        """
        if isinstance(module, (str, os.PathLike)):
            more = {"file": _modules.file_identity(module)}
            return self._publish(name, "file", None, more, persist, timeout)
        if not _libraries.is_module(module) and not _libraries.is_torch_module(module):
            raise TypeError(
                f"publish_module(): expected a module or a path, got {type(module).__name__}"
            )
        state = _modules.state_of(module)
        skeleton = {"skeleton": _modules.pack_skeleton(module, state)}
        return self._publish(name, "module", state, skeleton, persist, timeout)

    @overload
    def attach_module(
        self, name: str, module: None = None, mode: str = "ro", *, as_: Library = "shmtensor"
    ) -> Versioned[Any]: ...
    @overload
    def attach_module(self, name: str, module: _T, mode: str = "ro") -> Versioned[_T]: ...
    def attach_module(
        self, name: str, module: object = None, mode: str = "ro", *, as_: Library = "shmtensor"
    ) -> Versioned[Any]:
        """Return a module over the published parameters and buffers, without copying them.

        Args:
            name: As given to `publish_module`.
            module: A module of this package or of torch; the published memory replaces its
                parameters and buffers. None makes a module from a pickle. That works only in a
                service of this user that is not open to a group.
            mode: As in `attach`.
            as_: Without a module: the library of the published one, ``"shmtensor"`` or
                ``"torch"``.

        Returns:
            The module, and the version of its memory.

        Raises:
            NotPublishedError: Nothing is published under this name; it is a KeyError.
            HandleError: The published value is damaged.
            TypeError: *module* is not a module.
            ValueError: *as_* is ``"numpy"``, which has no modules.
            RuntimeError: The module does not fit, or *module* must be given.
        """
        if module is not None:
            as_ = _modules.library_of(module)
        if as_ == "numpy":
            raise ValueError("attach_module(): NumPy has no modules; attach() gives the arrays")
        document, entry = self._open(name, mode, as_)
        state = document.value
        if document.kind == "value" and not _modules.is_state(state):
            raise RuntimeError(f"attach_module(): {name!r} is not a module")
        if module is not None:
            _modules.assign(module, state, as_)
            return Versioned(module, entry.version)
        if document.skeleton is None:
            raise RuntimeError(
                f"attach_module(): {name!r} has tensors only; make the module and pass it"
            )
        self._check_trust(name)
        try:
            return Versioned(_modules.rebuild(document.skeleton, state, as_), entry.version)
        except HandleError as error:
            raise HandleError(f"{name!r}: {error}") from error.__cause__

    def _check_trust(self, name: str) -> None:
        """Refuse pickles unless only processes of this user can be members.

        What says so is the manager, and the kernel about the manager; never the service's memory,
        which members can write.
        """
        facts = self.status()
        if facts.is_group or facts.owner != os.geteuid():
            members = "a group" if facts.is_group else f"user {facts.owner}"
            raise RuntimeError(
                f"attach_module(): {name!r} is in a service of {members}, and pickles are read "
                "from this user's own service only; make the module and pass it"
            )

    # --- queues -------------------------------------------------------------------------------

    def Queue(
        self,
        name: str,
        maxsize: int = 0,
        *,
        max_deliveries: int = 0,
        persist: bool = False,
        adopt: str | Iterable[str] | None = None,
        as_: Library = "shmtensor",
    ) -> Queue[Any]:
        """Return the `Queue` of this name, which is made if need be."""
        return Queue(
            self,
            name,
            maxsize,
            max_deliveries=max_deliveries,
            persist=persist,
            adopt=adopt,
            as_=as_,
        )

    # --- topics -------------------------------------------------------------------------------

    def Topic(
        self,
        name: str,
        *,
        history: int | None = None,
        depth: int | None = None,
        overflow: str | None = None,
        persist: bool = False,
    ) -> Topic[Any]:
        """Return the `Topic` of this name, which is made if need be."""
        return Topic(self, name, history=history, depth=depth, overflow=overflow, persist=persist)

    # --- calls --------------------------------------------------------------------------------

    def Server(
        self,
        name: str,
        maxsize: int = 0,
        *,
        persist: bool = False,
        mode: str = "rw",
        as_: Library = "shmtensor",
    ) -> Server:
        """Return a `Server` of this name; several share the requests."""
        return Server(self, name, maxsize, persist=persist, mode=mode, as_=as_)

    def Client(self, name: str, *, as_: Library = "shmtensor") -> Client:
        """Return a `Client` of the servers of this name."""
        return Client(self, name, as_=as_)

    # --- events -------------------------------------------------------------------------------

    def Event(self, name: str, *, persist: bool = False) -> Event:
        """Return the `Event` of this name, which is made if need be."""
        return Event(self, name, persist=persist)

    # --- locks --------------------------------------------------------------------------------

    def Lock(self, name: str) -> Lock:
        """Return the `Lock` of this name."""
        return Lock(self, name)

    def Semaphore(self, name: str, n: int | None = None) -> Semaphore:
        """Return the `Semaphore` of this name with *n* permits."""
        return Semaphore(self, name, n)

    def Barrier(self, name: str, parties: int) -> Barrier:
        """Return the `Barrier` of this name for *parties*."""
        return Barrier(self, name, parties)
