"""Models from a folder or from the cache; nothing is downloaded.

Source:
    torch.hub.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import types
from typing import Any, NoReturn
from urllib.parse import urlparse

from shmtensor.serialization import load as _load

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

ENV_TORCH_HOME = "TORCH_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR = "~/.cache"
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
READ_DATA_CHUNK = 128 * 1024

#: The start of a checksum at the end of a file's name.
HASH_REGEX = re.compile("-([a-f0-9]*)\\.")

_dir: str | None = None


def _get_torch_home() -> str:
    """Return the folder for torch's files: ``$TORCH_HOME``, or ``torch`` in the user's cache."""
    cache = os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def get_dir() -> str:
    """Return the folder of files from the network.

    What `set_dir` was told; else ``$TORCH_HOME/hub``, ``$XDG_CACHE_HOME/torch/hub`` or
    ``~/.cache/torch/hub``, so that what torch has downloaded is found.
    """
    return os.path.join(_get_torch_home(), "hub") if _dir is None else _dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of files from the network."""
    global _dir
    _dir = os.path.expanduser(d)


def _refuse(what: str, where: str) -> NoReturn:
    raise RuntimeError(
        f"{what} is not downloaded: shmtensor does not fetch files from the network. Put it at "
        f"{where} and call again."
    )


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Raise RuntimeError: nothing is downloaded."""
    _refuse(url, dst)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> dict[str, Any]:
    """Load a file that is in the cache already.

    Args:
        url: Where it came from; its last part names the file.
        model_dir: The folder; ``checkpoints`` in `get_dir` when left out.
        map_location: As for `shmtensor.load`.
        progress: Accepted.
        check_hash: Accepted.
        file_name: Names the file instead.
        weights_only: As for `shmtensor.load`. True here where torch says False: a file from a
            network is the last one whose code should run.

    Raises:
        RuntimeError: The file is not there.
        pickle.UnpicklingError: It uses something that *weights_only* forbids.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        _refuse(url, path)
    state: dict[str, Any] = _load(path, map_location=map_location, weights_only=weights_only)
    return state


class _Faketqdm:
    """A progress bar in one line of the error stream, for where the library tqdm is missing."""

    def __init__(
        self,
        total: int | None = None,
        disable: bool = False,
        unit: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.total = total
        self.disable = disable
        self.n = 0

    def update(self, n: int) -> None:
        """Count *n* more."""
        self.n += n
        if not self.disable:
            done = f"{self.n} bytes" if self.total is None else f"{100 * self.n / self.total:.1f}%"
            sys.stderr.write(f"\r{done}")
            sys.stderr.flush()

    def set_description(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: there is no room for a text."""

    def write(self, s: str) -> None:
        """Write a line."""
        sys.stderr.write(f"{s}\n")

    def close(self) -> None:
        """End the line."""
        if not self.disable:
            sys.stderr.write("\n")

    def __enter__(self) -> _Faketqdm:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def __getattr__(name: str) -> Any:
    if name == "tqdm":  # loaded for those who want it: others need not wait for it
        try:
            return importlib.import_module("tqdm").tqdm
        except ImportError:
            return _Faketqdm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# --- models that a folder describes --------------------------------------------------------------


def _conf(repo_or_dir: str, source: str) -> types.ModuleType:
    """The module that lists the models of a folder."""
    if source.lower() not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source.lower() == "github":
        _refuse(repo_or_dir, "some folder, give that and source='local'")
    folder = os.fspath(repo_or_dir)
    spec = importlib.util.spec_from_file_location(
        MODULE_HUBCONF, os.path.join(folder, MODULE_HUBCONF)
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)  # it imports its neighbours
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [
        name
        for name in getattr(module, VAR_DEPENDENCY, ())
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: types.ModuleType, name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Return a model that the ``hubconf.py`` of a folder makes. Its code is run.

    Args:
        repo_or_dir: The folder.
        model: The name of a function there.
        *args: For the function.
        source: ``"local"``; ``"github"`` would have to be downloaded.
        trust_repo: Accepted.
        force_reload: Accepted.
        verbose: Accepted.
        skip_validation: Accepted.
        **kwargs: For the function.

    Raises:
        RuntimeError: It would have to be downloaded, or there is no such function.
        ValueError: *source* is something else.
    """
    return _entry(_conf(repo_or_dir, source), model)(*args, **kwargs)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
    source: str = "github",
) -> Any:
    """Return the names of the models of a folder; with ``source="local"`` only, as `load`."""
    module = _conf(github, source)
    return [
        name for name, value in vars(module).items() if callable(value) and not name.startswith("_")
    ]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    source: str = "github",
) -> str | None:
    """Return what a model of a folder says of itself; with ``source="local"`` only, as `load`."""
    text: str | None = _entry(_conf(github, source), model).__doc__
    return text
