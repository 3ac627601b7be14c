"""A session's bound counts all shared memory, and what nobody uses is no reason to refuse."""

from __future__ import annotations

import pytest
from member_programs import run

_PREPARE = """
MB = 1 << 20
LIMIT = 16 * MB

if os.environ.get("SHMTENSOR_MAX_SHARED_BYTES") != str(LIMIT):
    os.environ["SHMTENSOR_MAX_SHARED_BYTES"] = str(LIMIT)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

def fill(n, limit=LIMIT):
    '''Allocate tensors of n bytes until the bound refuses; returns their bytes.'''
    tensors = []
    while len(tensors) * n <= LIMIT:
        try:
            tensors.append(st.ones(n // 4, shared=True))
        except MemoryError as error:
            assert "of the session's" in str(error), error
            break
    assert sharing.status()["granted_bytes"] <= limit, sharing.status()
    return len(tensors) * n
"""

_CLASSES = """
for _ in range(3):
    for n in (64, 1024, 12_000, 100_000, 1 * MB, 3 * MB, 64):
        assert fill(n) >= LIMIT // 2, n
        gc.collect()
"""

_OTHERS = """
def serve(connection):
    while (n := connection.recv()) != 0:
        connection.send(fill(n))

kept = st.ones(1, shared=True)
context = mp.get_context("fork")
pipes = [context.Pipe() for _ in range(3)]
others = [context.Process(target=serve, args=(end,), daemon=True) for _, end in pipes]
for other in others:
    other.start()
for n in (64, 12_000, 1 * MB, 3 * MB, 64, 1000):
    for pipe, _ in pipes:
        pipe.send(n)
        assert pipe.recv() >= LIMIT // 2, n
    assert fill(n) >= LIMIT // 2, n
assert (kept == 1).all()
for pipe, _ in pipes:
    pipe.send(0)
for other in others:
    other.join(30)
    assert other.exitcode == 0
"""

_FILES = """
mp.set_sharing_strategy("file_descriptor")
for n in (64, 1 * MB, 5 * MB, 64):
    assert 0 < fill(n) <= LIMIT, n
    gc.collect()
mp.set_sharing_strategy("file_system")
assert fill(1000) >= LIMIT // 2
mp.set_sharing_strategy("file_descriptor")
tensor = st.ones(MB, shared=True)
try:
    more = [st.ones(MB, shared=True) for _ in range(16)]
except MemoryError:
    pass
else:
    raise AssertionError("64 MB of files in a session of 16 MB")
"""


@pytest.mark.check
@pytest.mark.parametrize("program", [_CLASSES, _OTHERS, _FILES], ids=["classes", "others", "files"])
def test_bound_is_kept_and_idle_memory_does_not_use_it_up(program: str) -> None:
    run(_PREPARE + program)
