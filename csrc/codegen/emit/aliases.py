"""Stubs for the standard library's modules that have names in ``shmtensor.multiprocessing`` too.

At run time ``shmtensor/multiprocessing/_overlay.py`` gives the modules themselves.
"""

from __future__ import annotations

from codegen.emit.emitter import Emitter

ALIASES = """
    connection dummy.connection forkserver heap managers popen_fork popen_forkserver
    popen_spawn_posix popen_spawn_win32 process reduction resource_sharer resource_tracker
    shared_memory sharedctypes synchronize util
""".split()


def emit_aliases(emitter: Emitter) -> None:
    """Write a stub for each of them."""
    package = emitter.root / "shmtensor" / "multiprocessing"
    for name in ALIASES:
        path = (package / name.replace(".", "/")).with_suffix(".pyi")
        what = f"The standard `multiprocessing.{name}`: this name means the same module object."
        emitter.python_file(path, what, "ALIASES", f"from multiprocessing.{name} import *")
