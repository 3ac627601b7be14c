"""The sharing layers alone: built from their sources with failpoints, and driven through ctypes.

Run as a program it is one process of a crash test: ``native.py <directory> <role> ...``.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
HANDLE_BYTES = 56
FAULTS = Path(__file__).parent / "faults.c"

sys.path[:0] = [str(CSRC), str(ROOT / "tests")]

from codegen.emit.protocol import load_failpoints  # noqa: E402 -- found by the path above

FLAGS = "-std=gnu11 -O1 -g -fPIC -pthread -DSHMT_DEBUG=2 -DSHMT_FAILPOINTS".split()
SANITIZERS = {
    "asan": "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer",
    "tsan": "-fsanitize=thread -fno-omit-frame-pointer",
}


def generated_directory() -> Path:
    """Where the generated headers of the build under test are."""
    config = os.environ.get("SHMTENSOR_SANITIZER") or "native"
    return ROOT / "build" / config / "generated"


def _wraps() -> list[str]:
    """Linker flags that put the functions of faults.c in front of the real ones."""
    names = re.findall(r"__real_(\w+)\(|^WRAP\([^,]+, (\w+)", FAULTS.read_text(), re.M)
    return [f"-Wl,--wrap={name}" for name in sorted({a or b for a, b in names})]


def build(directory: Path, *, faults: bool = False) -> None:
    """Put ``libshm.so`` and the manager into *directory*; *faults*: with faults.c.

    They are compiled below build/, for whoever runs tests there: most objects serve all of them,
    and only what has changed is compiled again.
    """
    place = ROOT / "build" / "tests" / (os.environ.get("SHMTENSOR_SANITIZER") or "native")
    place.mkdir(parents=True, exist_ok=True)
    # The compiler itself runs without a sanitizer.
    plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    kind = "faults" if faults else "plain"
    with open(place / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (place / "build.ninja").write_text(_ninja_text())
        subprocess.run([_ninja(), "-C", place, "--quiet", f"all-{kind}"], check=True, env=plain)
        for name in ("shmtensor-manager", "libshm.so"):
            shutil.copy2(place / kind / name, directory / name)


def _ninja() -> str:
    from ninja import BIN_DIR

    return str(Path(BIN_DIR, "ninja"))


def _ninja_text() -> str:
    """What ninja is to make: both programs, as they are and with faults.c."""
    generated = generated_directory()
    include = [f"-I{generated.parent}", f"-I{generated}", f"-I{CSRC}"]
    manager = [
        ROOT / line
        for line in (CSRC / "ipc" / "manager" / "manager.sources").read_text().split("\n")
        if line.strip()
    ]
    library = [
        path
        for folder in ("base", "os", "shm", "storage", "ipc")
        for path in sorted((CSRC / folder).rglob("*.c"))
        if path.name not in ("main.c", "dtype.c", "scalar.c", "promote.c")
    ]
    compiler = os.environ.get("CC", "gcc").split()
    compiler += SANITIZERS.get(os.environ.get("SHMTENSOR_SANITIZER", ""), "").split()
    command = " ".join([*compiler, *FLAGS])
    text = (
        f"rule cc\n  command = {command} {' '.join(include)} $more -MMD -MF $out.d -c $in -o $out\n"
        "  depfile = $out.d\n  deps = gcc\n"
        f"rule link\n  command = {command} $in $more -o $out\n"
    )
    for source in dict.fromkeys([*manager, *library]):
        text += f"build {_object(source)}: cc {source}\n"
    for name, sources, link, define in (
        ("shmtensor-manager", manager, "", "-DFAULTS_IN_MANAGER"),
        ("libshm.so", library, "-shared", ""),
    ):
        objects = " ".join(map(_object, sources))
        faults = f"{name}-faults.o"
        text += f"build {faults}: cc {FAULTS}\n  more = {define}\n"
        text += f"build plain/{name}: link {objects}\n  more = {link}\n"
        more = " ".join([link, *_wraps()])
        text += f"build faults/{name}: link {objects} {faults}\n  more = {more}\n"
    for kind in ("plain", "faults"):
        text += f"build all-{kind}: phony {kind}/shmtensor-manager {kind}/libshm.so\n"
    return text


def _object(source: Path) -> str:
    return f"{source.relative_to(ROOT).with_suffix('.o')}"


def failpoints(scenario: str) -> list[str]:
    """Names of the failpoints that the tests of *scenario* reach."""
    points = load_failpoints(CSRC / "spec" / "failpoints.yaml", ROOT)
    return [point.name for point in points if point.scenario == scenario]


class NativeError(Exception):
    """A C function failed; the first argument is the status."""


class _Status(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "session",
            "incarnation",
            "manager_pid",
            "n_clients",
            "n_leases",
            "n_slabs",
            "resident_bytes",
            "granted_bytes",
            "n_held",
        )
    ]


class Block:
    """A shared storage."""

    def __init__(self, native: Native, pointer: int) -> None:
        self.native = native
        self.pointer = ctypes.c_void_p(pointer)

    def __del__(self) -> None:
        self.native.lib.shmt_storage_release(self.pointer)

    @property
    def bytes(self) -> Any:
        """The memory, as a ctypes array."""
        size = self.native.lib.shmt_storage_nbytes(self.pointer)
        address = self.native.lib.shmt_storage_data(self.pointer)
        return (ctypes.c_ubyte * size).from_address(address)

    def fill(self, value: int) -> Block:
        """Set every byte."""
        ctypes.memset(self.bytes, value, len(self.bytes))
        return self

    def value(self) -> int:
        """The byte that fills the block; an assertion fails when there are two."""
        data = bytes(self.bytes)
        assert data.count(data[:1]) == len(data), "a block holds two processes' bytes"
        return data[0]

    def handle(self, *, lease: bool = True) -> bytes:
        """What would travel in a message."""
        out = (ctypes.c_ubyte * HANDLE_BYTES)()
        call = self.native.lib.shmt__storage_export
        self.native.check(call(self.pointer, ctypes.c_bool(lease), out, None))
        return bytes(out)


class Native:
    """One process's use of the library."""

    def __init__(self, directory: Path, session: int = 0) -> None:
        self.lib = ctypes.CDLL(str(directory / "libshm.so"))
        self.lib.shmt_storage_data.restype = ctypes.c_void_p
        self.lib.shmt_error_message.restype = ctypes.c_char_p
        self.lib.shmt_storage_nbytes.restype = ctypes.c_uint64
        configure = self.lib.shmt_sharing_configure
        configure.restype = ctypes.c_uint64
        configure.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64]
        self.session = configure(os.fsencode(directory / "shmtensor-manager"), session, 0)

    def check(self, status: int) -> None:
        """Raise unless *status* is success."""
        if status:
            raise NativeError(status, self.lib.shmt_error_message().decode())

    def new(self, nbytes: int, *, as_file: bool = False) -> Block:
        """Make a shared storage."""
        out = ctypes.c_void_p()
        make = self.lib.shmt__storage_create_shared
        self.check(make(ctypes.c_uint64(nbytes), int(as_file), ctypes.byref(out)))
        assert out.value is not None
        return Block(self, out.value)

    def open(self, handle: bytes) -> Block:
        """Open a handle."""
        out = ctypes.c_void_p()
        raw = (ctypes.c_ubyte * HANDLE_BYTES).from_buffer_copy(handle)
        self.check(self.lib.shmt__storage_import(raw, None, ctypes.byref(out)))
        assert out.value is not None
        return Block(self, out.value)

    def status(self) -> dict[str, int]:
        """What the manager says."""
        out = _Status()
        self.check(self.lib.shmt_sharing_status(ctypes.byref(out)))
        return {name: getattr(out, name) for name, _ in out._fields_}

    def trim(self) -> int:
        """Return idle memory; gives what is still occupied."""
        out = ctypes.c_uint64()
        self.check(self.lib.shmt_sharing_trim(ctypes.byref(out)))
        return out.value

    def collect(self) -> int:
        """End all leases."""
        out = ctypes.c_uint64()
        self.check(self.lib.shmt_sharing_gc(0, ctypes.byref(out)))
        return out.value


def _child_work(native: Native, inbox: int, outbox: int, held: Block) -> None:
    """Answer every handle with one of our own; leaves at the end of the input."""
    assert held.value() == 77
    kept: list[tuple[Block, int]] = []
    while handle := os.read(inbox, HANDLE_BYTES):
        block = native.open(handle)
        kept.append((block, block.value()))
        for old, value in kept:
            assert old.value() == value
        if len(kept) > 2:
            kept.pop(0)
        answer = native.new(len(block.bytes) + 1000, as_file=len(kept) == 2)
        os.write(outbox, answer.fill((block.value() + 1) % 256).handle())


def work(native: Native, *, tolerant: bool = False) -> None:
    """Allocate, send to a forked child and back, free, go cold: every step of the protocol.

    *tolerant*: errors of the library may end it, in the child too.
    """
    held = native.new(5000).fill(77)
    to_child, from_child = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(to_child[1])
            os.close(from_child[0])
            _child_work(native, to_child[0], from_child[1], held)
            code = 0
        except BrokenPipeError:
            code = 0  # the parent was killed
        except NativeError:
            code = 0 if tolerant else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(to_child[0])
    os.close(from_child[1])
    for turn, nbytes in enumerate((100, 5000, 40_000, 300_000, 3_000_000, 100, 40_000) * 2):
        block = native.new(nbytes, as_file=turn == 5).fill(turn)
        try:
            os.write(to_child[1], block.handle())
        except BrokenPipeError:
            break  # the child was killed
        del block
        answer = os.read(from_child[0], HANDLE_BYTES)
        if not answer:
            break
        assert native.open(answer).value() == turn + 1
        if turn == 6:
            native.trim()
    os.close(to_child[1])
    _, status = os.waitpid(pid, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    assert held.value() == 77


if __name__ == "__main__":
    work(Native(Path(sys.argv[1]), int(sys.argv[2])))
