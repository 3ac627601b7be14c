"""What a report of a fault should say of the machine and of the versions on it.

``python -m shmtensor.utils.collect_env`` prints it.

Source:
    torch.utils.collect_env.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import shmtensor

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main", "pretty_str", "run"]

#: What the distributions are called that are worth a line.
_RELEVANT = re.compile(
    "^(numpy|mypy|torch|shmtensor|triton|cupy|jax|safetensors|transformers)", re.IGNORECASE
)


class SystemEnv(NamedTuple):
    """The facts; None where nothing is known.

    Attributes are those of torch, and ``shmtensor_version``. What belongs to accelerators is
    ``"N/A"`` or False.
    """

    torch_version: str | None
    shmtensor_version: str | None
    is_debug_build: str | None
    cuda_compiled_version: str | None
    gcc_version: str | None
    clang_version: str | None
    cmake_version: str | None
    os: str | None
    libc_version: str | None
    python_version: str | None
    python_platform: str | None
    is_cuda_available: str | None
    cuda_runtime_version: str | None
    cuda_module_loading: str | None
    nvidia_driver_version: str | None
    nvidia_gpu_models: str | None
    cudnn_version: str | None
    is_xpu_available: str | None
    pip_version: str | None
    pip_packages: str | None
    conda_packages: str | None
    hip_compiled_version: str | None
    hip_runtime_version: str | None
    miopen_runtime_version: str | None
    caching_allocator_config: str | None
    is_xnnpack_available: str | None
    cpu_info: str | None


def run(command: str | list[str]) -> tuple[int, str, str]:
    """Run a command.

    Args:
        command: The program with its arguments, or a line for the shell.

    Returns:
        Its return code, what it printed and what it complained of; 127 if there is no such program.
    """
    try:
        done = subprocess.run(
            command, shell=isinstance(command, str), capture_output=True, text=True, check=False
        )
    except FileNotFoundError as missing:
        return 127, "", str(missing)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def _first_line(program: str, pattern: str = "(.*)") -> str | None:
    """What *pattern* finds in the version that a program prints, or None."""
    if shutil.which(program) is None:
        return None
    code, text, _ = run([program, "--version"])
    found = re.search(pattern, text) if code == 0 else None
    return found.group(1) if found else None


def _os_name() -> str:
    names = platform.freedesktop_os_release() if os.path.exists("/etc/os-release") else {}
    return f"{names.get('PRETTY_NAME', platform.system())} ({platform.machine()})"


def _distributions() -> Iterator[str]:
    """Lines such as "numpy==2.0", of what is relevant."""
    for found in importlib.metadata.distributions():
        name = found.metadata["Name"]
        if name is not None and _RELEVANT.match(name):
            yield f"{name}=={found.version}"


def get_env_info() -> SystemEnv:
    """Return the facts. Programs such as ``gcc`` and ``lscpu`` are asked for some of them."""
    release = sys.version.replace("\n", " ")
    bits = sys.maxsize.bit_length() + 1
    lscpu = run("lscpu")
    return SystemEnv(
        torch_version=str(shmtensor.version.torch_version),
        shmtensor_version=str(shmtensor.__version__),
        is_debug_build=str(shmtensor.version.debug),
        cuda_compiled_version=None,
        gcc_version=_first_line("gcc", r"gcc (.*)"),
        clang_version=_first_line("clang", r"clang version (\S*)"),
        cmake_version=_first_line("cmake", r"cmake (.*)"),
        os=_os_name(),
        libc_version="-".join(platform.libc_ver()),
        python_version=f"{release} ({bits}-bit runtime)",
        python_platform=platform.platform(),
        is_cuda_available="False",
        cuda_runtime_version=None,
        cuda_module_loading="N/A",
        nvidia_driver_version=None,
        nvidia_gpu_models=None,
        cudnn_version=None,
        is_xpu_available="False",
        pip_version="pip3",
        pip_packages="\n".join(sorted({*_distributions()}, key=str.lower)),
        conda_packages=None,
        hip_compiled_version="N/A",
        hip_runtime_version="N/A",
        miopen_runtime_version="N/A",
        caching_allocator_config="N/A",
        is_xnnpack_available="False",
        cpu_info=lscpu[1] if lscpu[0] == 0 else None,
    )


_LINES = """
PyTorch's API of version: {torch_version}
shmtensor version: {shmtensor_version}
Is debug build: {is_debug_build}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Is CUDA available: {is_cuda_available}
Is XPU available: {is_xpu_available}

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}
""".strip()


def pretty_str(envinfo: SystemEnv) -> str:
    """Return the facts as lines of text."""
    known = {
        name: "Could not collect" if value is None else value
        for name, value in envinfo._asdict().items()
    }
    packages = [f"[{known['pip_version']}] {line}" for line in known["pip_packages"].splitlines()]
    known["pip_packages"] = "\n".join(packages)
    return _LINES.format(**known)


def get_pretty_env_info() -> str:
    """Return the facts as lines of text."""
    return pretty_str(get_env_info())


def main() -> None:
    """Print the facts."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
