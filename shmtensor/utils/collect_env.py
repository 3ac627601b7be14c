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
import subprocess
import sys
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import shmtensor

__all__ = [
    "SystemEnv",
    "get_clang_version",
    "get_cmake_version",
    "get_cpu_info",
    "get_env_info",
    "get_gcc_version",
    "get_gpu_info",
    "get_libc_version",
    "get_nvidia_driver_version",
    "get_os",
    "get_pip_packages",
    "get_platform",
    "get_pretty_env_info",
    "get_python_platform",
    "get_running_cuda_version",
    "main",
    "pretty_str",
    "run",
    "run_and_parse_first_match",
    "run_and_read_all",
    "run_and_return_first_line",
]

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


#: Runs a command, as `run` does.
_Run = Callable[[Any], tuple[int, str, str]]


def run_and_read_all(run_lambda: _Run, command: str | list[str]) -> str | None:
    """Return all that a command prints; None if it fails."""
    code, text, _ = run_lambda(command)
    return text if code == 0 else None


def run_and_parse_first_match(run_lambda: _Run, command: str | list[str], regex: str) -> str | None:
    """Return the first group that *regex* finds in what a command prints, or None."""
    found = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return found.group(1) if found else None


def run_and_return_first_line(run_lambda: _Run, command: str | list[str]) -> str | None:
    """Return the first line that a command prints; None if it fails."""
    text = run_and_read_all(run_lambda, command)
    return None if text is None else text.split("\n")[0]


# --- single facts --------------------------------------------------------------------------------


def get_gcc_version(run_lambda: _Run) -> str | None:
    """Return the version of gcc."""
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda: _Run) -> str | None:
    """Return the version of clang."""
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda: _Run) -> str | None:
    """Return the version of CMake."""
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake (.*)")


def get_nvidia_driver_version(run_lambda: _Run) -> str | None:
    """Return the version of NVIDIA's driver."""
    return run_and_parse_first_match(run_lambda, "nvidia-smi", r"Driver Version: (.*?) ")


def get_gpu_info(run_lambda: _Run) -> str | None:
    """Return the names of NVIDIA's devices, a line each."""
    text = run_and_read_all(run_lambda, "nvidia-smi -L")
    return None if text is None else re.sub(r" \(UUID: .+?\)", "", text)


def get_running_cuda_version(run_lambda: _Run) -> str | None:
    """Return the version of CUDA's compiler."""
    return run_and_parse_first_match(run_lambda, "nvcc --version", r"release .+ V(.*)")


def get_cpu_info(run_lambda: _Run) -> str:
    """Return what ``lscpu`` prints, or what it complains of."""
    code, text, error = run_lambda("lscpu")
    return text if code == 0 else error


def get_platform() -> str:
    """Return "linux", or what else `sys.platform` says."""
    return sys.platform


def get_os(run_lambda: _Run) -> str:
    """Return the name of the operating system and the architecture."""
    name = run_and_parse_first_match(run_lambda, "lsb_release -a", r"Description:\t(.*)")
    if name is None:
        given = platform.freedesktop_os_release() if os.path.exists("/etc/os-release") else {}
        name = given.get("PRETTY_NAME", platform.system())
    return f"{name} ({platform.machine()})"


def get_python_platform() -> str:
    """Return the platform as Python names it."""
    return platform.platform()


def get_libc_version() -> str:
    """Return the name and the version of the C library."""
    return "-".join(platform.libc_ver())


def get_pip_packages(
    run_lambda: _Run, patterns: Collection[str] | None = None
) -> tuple[str, str | None]:
    """Return what pip is called, and the relevant distributions, such as "numpy==2.0".

    Args:
        run_lambda: Not used: nobody needs to run pip to know.
        patterns: Parts of the names of what is relevant.
    """
    lines = set()
    for found in importlib.metadata.distributions():
        name = found.metadata["Name"]
        if name is None:
            continue
        line = f"{name}=={found.version}"
        if any(p in line for p in patterns) if patterns is not None else _RELEVANT.match(name):
            lines.add(line)
    return "pip3", "\n".join(sorted(lines, key=str.lower))


# --- all of them ---------------------------------------------------------------------------------


def get_env_info() -> SystemEnv:
    """Return the facts. Programs such as ``gcc`` and ``lscpu`` are asked for some of them."""
    release = sys.version.replace("\n", " ")
    bits = sys.maxsize.bit_length() + 1
    pip_version, pip_packages = get_pip_packages(run)
    return SystemEnv(
        torch_version=str(shmtensor.version.torch_version),
        shmtensor_version=str(shmtensor.__version__),
        is_debug_build=str(shmtensor.version.debug),
        cuda_compiled_version=None,
        gcc_version=get_gcc_version(run),
        clang_version=get_clang_version(run),
        cmake_version=get_cmake_version(run),
        os=get_os(run),
        libc_version=get_libc_version(),
        python_version=f"{release} ({bits}-bit runtime)",
        python_platform=get_python_platform(),
        is_cuda_available="False",
        cuda_runtime_version=None,
        cuda_module_loading="N/A",
        nvidia_driver_version=None,
        nvidia_gpu_models=None,
        cudnn_version=None,
        is_xpu_available="False",
        pip_version=pip_version,
        pip_packages=pip_packages,
        conda_packages=None,
        hip_compiled_version="N/A",
        hip_runtime_version="N/A",
        miopen_runtime_version="N/A",
        caching_allocator_config="N/A",
        is_xnnpack_available="False",
        cpu_info=get_cpu_info(run),
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
