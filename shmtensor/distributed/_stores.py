"""Stores: where the processes of a group find each other. Those inside one process are here.

Source:
    torch.distributed.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import timedelta

from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._interrupts import Condition
from shmtensor.distributed._table import Op, Table, WaitForKeys, number_field, number_of, timed_out
from shmtensor.distributed._timeouts import Limit, check_timeout

__all__ = ["HashStore", "PrefixStore", "Store"]

_DEFAULT_TIMEOUT = timedelta(seconds=300)


def _bytes(value: str | bytes, what: str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise TypeError(f"{what} of a store must be text or bytes, got {type(value).__name__}")


def _all_bytes(texts: Iterable[str | bytes], what: str) -> list[bytes]:
    if isinstance(texts, str | bytes):  # each letter would be one
        raise TypeError(f"expected several, each {what} of a store, got the one text {texts!r}")
    return [_bytes(text, what) for text in texts]


class Store(ABC):
    """Keys and values that several processes share.

    Values are bytes; text is stored as UTF-8. `get` and `wait` wait for keys that are missing, for
    at most `timeout`.

    Source:
        torch.distributed.Store.
    """

    def __init__(self) -> None:
        self._timeout = _DEFAULT_TIMEOUT

    @abstractmethod
    def _ask(self, op: Op, fields: list[bytes], limit: Limit) -> list[bytes]:
        """Do one request of `Table`; wait for keys as long as *limit* allows."""

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait; 300 seconds unless set."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait.

        Raises:
            TypeError: It is not a `timedelta`.
        """
        check_timeout(timeout)
        self._timeout = timeout

    def _request(self, op: Op, *fields: bytes, limit: Limit | None = None) -> list[bytes]:
        return self._ask(op, list(fields), limit or Limit(self.timeout))

    def set(self, key: str, value: str | bytes) -> None:
        """Set the value of *key*, and replace any earlier one."""
        self._request(Op.SET, _bytes(key, "a key"), _bytes(value, "a value"))

    def get(self, key: str) -> bytes:
        """Wait until a key is set, and return its value.

        Raises:
            DistStoreError: It was not set in time.
        """
        return self._request(Op.GET, _bytes(key, "a key"))[0]

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key has (0: none) and return the sum.

        Raises:
            ValueError: The value is not a number, or *amount* or the sum does not fit 64 bits.
            TypeError: *amount* is not an integer.
        """
        return number_of(self._request(Op.ADD, _bytes(key, "a key"), number_field(amount))[0])

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Set a key if its value is *expected*, or if it is missing and *expected* is empty.

        Returns:
            The key's value now; *expected* if the key is missing.
        """
        fields = [_bytes(key, "a key"), _bytes(expected, "a value"), _bytes(desired, "a value")]
        return self._request(Op.COMPARE_SET, *fields)[0]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are set.

        Raises:
            DistStoreError: They were not set in time.
        """
        limit = None if timeout is None else Limit(timeout)
        self._request(Op.WAIT, *_all_bytes(keys, "a key"), limit=limit)

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are set."""
        return bool(number_of(self._request(Op.CHECK, *_all_bytes(keys, "a key"))[0]))

    def _has(self, key: str, limit: Limit) -> bool:
        """Do `check` of one key with another timeout."""
        return bool(number_of(self._request(Op.CHECK, _bytes(key, "a key"), limit=limit)[0]))

    def delete_key(self, key: str) -> bool:
        """Remove a key; return whether it was there."""
        return bool(number_of(self._request(Op.DELETE, _bytes(key, "a key"))[0]))

    def num_keys(self) -> int:
        """Return how many keys there are, including those of the store itself."""
        return number_of(self._request(Op.COUNT)[0])

    def list_keys(self) -> list[str]:
        """Return the keys."""
        return [key.decode("utf-8", "replace") for key in self._request(Op.LIST)]

    def append(self, key: str, value: str | bytes) -> None:
        """Append to a key's value."""
        self._request(Op.APPEND, _bytes(key, "a key"), _bytes(value, "a value"))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Wait until several keys are set, and return their values.

        Raises:
            DistStoreError: They were not set in time; one timeout is for all.
        """
        return self._get_all(keys, Limit(self.timeout))

    def _get_all(self, keys: Sequence[str], limit: Limit) -> list[bytes]:
        """Do `multi_get` with another timeout."""
        names = _all_bytes(keys, "a key")
        self._request(Op.WAIT, *names, limit=limit)
        return [self._request(Op.GET, name, limit=limit)[0] for name in names]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set several keys.

        Raises:
            ValueError: There are not as many values as keys.
            TypeError: One of them is no text. Nothing is set.
        """
        if len(keys) != len(values):
            raise ValueError(f"multi_set(): {len(keys)} keys and {len(values)} values")
        limit = Limit(self.timeout)
        names, contents = _all_bytes(keys, "a key"), _all_bytes(values, "a value")
        for name, content in zip(names, contents, strict=True):
            self._request(Op.SET, name, content, limit=limit)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Append a value to a queue."""
        self._request(Op.QUEUE_PUSH, _bytes(key, "a key"), _bytes(value, "a value"))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue.

        Raises:
            QueueEmptyError: It is empty, and *block* is false.
            DistStoreError: It stayed empty.
        """
        return self._request(Op.QUEUE_POP, _bytes(key, "a key"), number_field(int(block)))[0]

    def queue_len(self, key: str) -> int:
        """Return how many values a queue has."""
        return number_of(self._request(Op.QUEUE_LEN, _bytes(key, "a key"))[0])

    def has_extended_api(self) -> bool:
        """Return whether there are `append`, `multi_get` and `multi_set`: True."""
        return True

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until *world_size* processes have called it with this key.

        Raises:
            DistStoreError: They have not come in time.
        """
        size = operator.index(world_size)  # before others can see this one
        limit = Limit(self.timeout if timeout is None else timeout)
        count, everybody = f"{key}/count".encode(), f"{key}/all".encode()
        if number_of(self._request(Op.ADD, count, number_field(1), limit=limit)[0]) >= size:
            self._request(Op.SET, everybody, b"1", limit=limit)
        self._request(Op.WAIT, everybody, limit=limit)


class HashStore(Store):
    """A store for the threads of one process.

    Source:
        torch.distributed.HashStore.
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()
        self._changed = free_in_child(Condition())

    def _ask(self, op: Op, fields: list[bytes], limit: Limit) -> list[bytes]:
        with self._changed:
            while True:
                try:
                    reply = self._table.apply(op, fields)
                except WaitForKeys:
                    if limit.is_over():
                        raise timed_out(op, fields, limit.seconds) from None
                    self._changed.wait(limit.left())
                else:
                    self._changed.notify_all()
                    return reply


class PrefixStore(Store):
    """A part of another store, where all its keys begin with a prefix.

    Args:
        prefix: The prefix; a ``/`` follows it.
        store: The other store.

    Source:
        torch.distributed.PrefixStore.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix = _bytes(prefix, "a prefix") + b"/"
        self._store = store

    @property
    def underlying_store(self) -> Store:
        """The other store."""
        return self._store

    @property
    def timeout(self) -> timedelta:
        """The other store's."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the other store's."""
        self._store.set_timeout(timeout)

    def _ask(self, op: Op, fields: list[bytes], limit: Limit) -> list[bytes]:
        n_keys = len(fields) if op in (Op.WAIT, Op.CHECK) else min(len(fields), 1)
        fields = [self._prefix + key for key in fields[:n_keys]] + fields[n_keys:]
        return self._store._ask(op, fields, limit)
