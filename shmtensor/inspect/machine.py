"""Checks what this machine and this process's limits allow, by trying it or by reading the limit.

If a check fails, it says what does not work and how to fix it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shmtensor import _C
from shmtensor._boundary.sharing import try_placement

__all__ = ["Check", "check_machine"]

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE
_THP = Path("/sys/kernel/mm/transparent_hugepage")
_NODES = Path("/sys/devices/system/node")


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        name: What was checked.
        verdict: ``"ok"``, ``"note"`` (works, could be better) or ``"bad"`` (does not work).
        found: What was found.
        advice: What this means and what to do; empty when everything works.
    """

    name: str
    verdict: str
    found: str
    advice: str = ""


def _read(path: Path | str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _size(nbytes: int) -> str:
    return f"{nbytes / 2**30:.1f} GiB" if nbytes >= 2**30 else f"{nbytes / 2**20:.1f} MiB"


# --- kernel features: tried ---------------------------------------------------------------------


def _memory_files() -> Check:
    name = "sealed memory files"
    try:
        fd = os.memfd_create("shmtensor-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        return _unnamed_files(name, f"memfd_create: {error.strerror}")
    try:
        os.ftruncate(fd, 4096)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        os.posix_fallocate(fd, 0, 4096)
        os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY))
    except OSError as error:
        advice = "sharing needs seals, fallocate and /proc/self/fd; look for a seccomp filter"
        return Check(name, "bad", f"{error.strerror} ({error.errno})", advice)
    finally:
        os.close(fd)
    return Check(name, "ok", "memfd_create, seals, fallocate work")


def _unnamed_files(name: str, found: str) -> Check:
    """Check what is used where memfd_create is missing or forbidden: unnamed files in /dev/shm."""
    try:
        os.close(os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600))
        space = os.statvfs("/dev/shm")
    except OSError as error:
        advice = f"needs Linux 3.17 or later, or files in /dev/shm, where: {error.strerror}"
        return Check(name, "bad", found, advice)
    free = _size(space.f_bavail * space.f_frsize)
    return Check(name, "note", found, f"unnamed files in /dev/shm are used: {free} are free there")


def _populate() -> Check:
    with mmap.mmap(-1, 4096) as pages:
        try:
            pages.madvise(_POPULATE_WRITE)
        except OSError:
            advice = "first use of shared memory takes about twice as long; Linux 5.14 has it"
            return Check("page population", "note", "MADV_POPULATE_WRITE is missing", advice)
    return Check("page population", "ok", "MADV_POPULATE_WRITE works")


def _pidfd() -> Check:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError) as error:
        advice = "the end of a process is noticed by its connection only; Linux 5.3 has pidfd_open"
        return Check("process watching", "note", f"pidfd_open: {error}", advice)
    return Check("process watching", "ok", "pidfd_open works")


def _sockets() -> Check:
    name = "sockets"
    try:
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with left, right:
            socket.send_fds(left, [b"x"], [0])
            _, fds, _, _ = socket.recv_fds(right, 1, 1)
            for fd in fds:
                os.close(fd)
    except OSError as error:
        advice = "the manager hands out memory over Unix sockets; look for a seccomp filter"
        return Check(name, "bad", f"{error.strerror} ({error.errno})", advice)
    return Check(name, "ok", "SOCK_SEQPACKET passes descriptors")


def _proc() -> Check:
    if not Path("/proc/self/fd").is_dir():
        advice = "mount /proc: without it nothing can be shared"
        return Check("/proc", "bad", "not mounted", advice)
    parent = os.getppid()
    if Path(f"/proc/{parent}").exists() or parent == 0:
        return Check("/proc", "ok", "shows other processes")
    advice = "hidepid or a pid namespace hides them: names of processes will be missing"
    return Check("/proc", "note", f"does not show the parent process {parent}", advice)


def _manager() -> Check:
    program = Path(str(_C.__file__)).parent / "bin" / "shmtensor-manager"
    if not os.access(program, os.X_OK):
        advice = "reinstall the package, or mount the place without noexec"
        return Check("manager program", "bad", f"{program} cannot be run", advice)
    return Check("manager program", "ok", str(program))


# --- limits: read -------------------------------------------------------------------------------


def _limit(name: str, what: int, least: int, advice: str, unit: Callable[[int], str]) -> Check:
    soft, _ = resource.getrlimit(what)
    if soft == resource.RLIM_INFINITY:
        return Check(name, "ok", "unlimited")
    return (
        Check(name, "ok", unit(soft)) if soft >= least else Check(name, "note", unit(soft), advice)
    )


def _memory() -> list[Check]:
    fields = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines() if ":" in line)
    kib = {name: int(value.split()[0]) for name, value in fields.items()}
    available = kib.get("MemAvailable", 0) * 1024
    total = kib.get("MemTotal", 0) * 1024
    checks = [Check("memory", "ok", f"{_size(available)} of {_size(total)} available")]
    limit = _cgroup_limit()
    if limit is not None and limit < total:
        advice = (
            "shared memory counts for the cgroup of the process that touches it first; beyond the "
            "limit the kernel kills: set SHMTENSOR_MAX_SHARED_BYTES below it"
        )
        checks.append(Check("cgroup memory limit", "note", _size(limit), advice))
    return checks


def _cgroup_limit() -> int | None:
    """Return the memory limit of this process's control group, of version 1 or 2."""
    lines = [line.split(":", 2) for line in _read("/proc/self/cgroup").splitlines()]
    groups = {names: path for _, names, path in lines}
    files = [f"/sys/fs/cgroup{groups.get('', '')}/memory.max", "/sys/fs/cgroup/memory.max"]
    top = "/sys/fs/cgroup/memory"
    files += [f"{folder}/memory.limit_in_bytes" for folder in (top + groups.get("memory", ""), top)]
    limits = (_read(file) for file in files)
    return next((int(limit) for limit in limits if limit.isdigit()), None)


def _overcommit() -> Check:
    mode = _read("/proc/sys/vm/overcommit_memory")
    if mode == "2":
        advice = (
            "the arena's address range may be refused; set SHMTENSOR_MAX_SHARED_BYTES or mode 0"
        )
        return Check("overcommit", "note", "strict (mode 2)", advice)
    return Check("overcommit", "ok", f"mode {mode or '?'}")


def _environment() -> Check:
    limit = os.environ.get("SHMTENSOR_MAX_SHARED_BYTES", "")
    if limit and not limit.isdigit():
        advice = "it is ignored; give a number of bytes"
        return Check("SHMTENSOR_MAX_SHARED_BYTES", "bad", repr(limit), advice)
    return Check("SHMTENSOR_MAX_SHARED_BYTES", "ok", limit or "not set: no bound")


# --- placement: read ----------------------------------------------------------------------------


def _chosen(text: str) -> str:
    """Return the bracketed word of a text such as "always [madvise] never"."""
    return text.partition("[")[2].partition("]")[0]


def _huge_pages() -> Check:
    mode = _chosen(_read(_THP / "shmem_enabled"))
    if mode in ("always", "within_size", "advise", "force"):
        found = f"shmem_enabled is {mode}; shm.arena(huge_pages=True) uses them"
        return Check("huge pages for shared memory", "ok", found)
    advice = "shared tensors use 4 KiB pages; as root: echo advise > " + str(_THP / "shmem_enabled")
    return Check(
        "huge pages for shared memory", "note", f"shmem_enabled is {mode or 'missing'}", advice
    )


def _private_huge_pages() -> Check:
    mode = _chosen(_read(_THP / "enabled"))
    if mode in ("always", "madvise"):
        return Check("huge pages for private memory", "ok", f"enabled is {mode}")
    advice = "large private tensors are slower to make; as root: echo madvise > " + str(
        _THP / "enabled"
    )
    return Check("huge pages for private memory", "note", f"enabled is {mode or 'missing'}", advice)


def _numa() -> Check:
    nodes = sorted(int(p.name[4:]) for p in _NODES.glob("node[0-9]*"))
    if len(nodes) < 2:
        return Check("NUMA nodes", "ok", "one, so there is nothing to choose")
    named = ", ".join(map(str, nodes))
    _, refused = try_placement(False, 1, 1 << nodes[0])
    if refused:
        advice = f"mbind: {os.strerror(refused)}; shm.arena(node=...) places without"
        return Check("NUMA nodes", "note", named, advice)
    return Check("NUMA nodes", "ok", f"{named}; shm.arena(node=...) chooses")


def check_machine() -> list[Check]:
    """Check everything that sharing depends on; takes a few milliseconds and leaves nothing."""
    plural = "{:,}".format
    return [
        Check("kernel", "ok", f"{os.uname().sysname} {os.uname().release}"),
        _memory_files(),
        _populate(),
        _pidfd(),
        _sockets(),
        _proc(),
        _manager(),
        *_memory(),
        _overcommit(),
        _limit(
            "open files",
            resource.RLIMIT_NOFILE,
            64,
            "a process needs 5 descriptors, 3 more for each service, and many with file_descriptor",
            plural,
        ),
        _limit(
            "address space",
            resource.RLIMIT_AS,
            2**38,
            "the arena gets at most a quarter of it; ulimit -v unlimited",
            _size,
        ),
        _limit(
            "file size",
            resource.RLIMIT_FSIZE,
            2**38,
            "bounds the arena and single memory files; ulimit -f unlimited",
            _size,
        ),
        _environment(),
        _huge_pages(),
        _private_huge_pages(),
        _numa(),
    ]
