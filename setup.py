"""Packaging hooks: compile with ``build_ffi`` and put the result where setuptools wants it.

Everything that can be said in pyproject.toml is said there. What remains: the generator must run
before the package's modules are collected (some of them are generated), ninja does the compiling,
and the manager program and the BLAS travel beside the extension, in editable installs too.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setuptools import Extension, find_namespace_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))
import build_ffi


def _build(*, in_place: bool, this_machine: bool) -> build_ffi.Artifacts:
    try:
        return build_ffi.build("native", in_place=in_place, this_machine=this_machine)
    except build_ffi.BuildError as error:
        raise SystemExit(f"shmtensor: {error}") from error


class BuildExtension(build_ext):
    """Compile by ninja; the objects stay in ``build/native`` between runs.

    What stays in this tree is for this machine; archives have kernels for all processors.
    """

    def run(self) -> None:
        """Build and install into the source tree or into ``build_lib``."""
        in_place = bool(self.inplace)
        artifacts = _build(in_place=in_place, this_machine=in_place)
        if not self.inplace:
            artifacts.install(Path(self.build_lib) / "shmtensor", stripped=True)

    def copy_extensions_to_source(self) -> None:
        """Do nothing: ``run`` has put the files there."""


class CleanPy(build_py):
    """Collect the modules of this tree only, generated ones included."""

    def run(self) -> None:
        """Generate, drop what an earlier build left behind, collect."""
        _build(in_place=False, this_machine=self.editable_mode)
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib) / "shmtensor", ignore_errors=True)
            # as_torch/site has folders that look like packages and have no __init__.py.
            self.packages = find_namespace_packages(
                include=["shmtensor", "shmtensor.*"],
                exclude=[
                    "*.__pycache__",
                    "shmtensor.bin",
                    "shmtensor.include",
                    "shmtensor.lib",  # not shmtensor.library
                    "shmtensor.lib.*",
                    "shmtensor._libs*",
                ],
            )
            self.__dict__.pop("data_files", None)
        super().run()


setup(
    ext_modules=[Extension("shmtensor._C", sources=[])],
    cmdclass={"build_ext": BuildExtension, "build_py": CleanPy},
)
