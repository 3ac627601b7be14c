"""A version as a text that compares as versions do: ``"1.10" > "1.9"``.

Source:
    torch.torch_version; the order is that of the Python packaging specification (PEP 440).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["TorchVersion"]

_PATTERN = re.compile(
    r"""\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>\d*))?
    (?:-(?P<post_only>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*))?
    (?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_PRE = {"alpha": "a", "a": "a", "beta": "b", "b": "b"}
_LAST = (1, 0)  # sorts behind every number in a pair (0, number)


class _NoVersion(ValueError):
    pass


def _key(text: str) -> tuple[Any, ...]:
    """What versions are compared by."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise _NoVersion(text)
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    has_post = found["post_only"] is not None or found["post"] is not None
    # A version without a mark of its own comes after its pre-releases, and a mere development
    # version before them.
    if found["pre"] is not None:
        pre = (0, _PRE.get(found["pre"].lower(), "rc"), int(found["pre_n"] or 0))
    else:
        pre = (-1, "", 0) if found["dev"] is not None and not has_post else (1, "", 0)
    post = int(found["post_only"] or found["post_n"] or 0) if has_post else -1
    dev = (0, int(found["dev_n"] or 0)) if found["dev"] is not None else _LAST
    local = [
        (1, int(part), "") if part.isdigit() else (0, 0, part.lower())
        for part in re.split(r"[-_.]", found["local"] or "")
        if part
    ]
    return int(found["epoch"] or 0), tuple(release), pre, post, dev, tuple(local)


class TorchVersion(str):
    """A text that is compared with other texts and tuples of numbers as a version.

    A text that is not a version is compared as text.

    Examples:
        >>> TorchVersion("1.10.0a") > "1.9"
        True
        >>> TorchVersion("2.13.0") > (2, 9)
        True
    """

    def _keys(self, other: Any) -> tuple[Any, Any]:
        if not isinstance(other, str) and isinstance(other, Iterable):
            other = ".".join(str(part) for part in other)
        if not isinstance(other, str):
            other = str(getattr(other, "public", other))
        try:
            return _key(self), _key(other)
        except _NoVersion:
            return str(self), str(other)

    def __lt__(self, other: Any) -> bool:
        mine, theirs = self._keys(other)
        return bool(mine < theirs)

    def __le__(self, other: Any) -> bool:
        mine, theirs = self._keys(other)
        return bool(mine <= theirs)

    def __gt__(self, other: Any) -> bool:
        mine, theirs = self._keys(other)
        return bool(mine > theirs)

    def __ge__(self, other: Any) -> bool:
        mine, theirs = self._keys(other)
        return bool(mine >= theirs)

    def __eq__(self, other: object) -> bool:
        mine, theirs = self._keys(other)
        return bool(mine == theirs)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)
