"""What a forked child has of its parent's tensors when no number, descriptor or manager is left.

The child holds what it inherited for as long as it lives, whatever fails, and never sees the bytes
of another tensor. Not covered: kills at each step of a fork (tests/shm/test_crash).
"""

from __future__ import annotations

import os

import pytest
from member_programs import run

_PREPARE = """
import resource

def fork(child):
    '''Run child(wait) in a child; wait() returns when the parent calls the first result.

    The second result waits until the child has said that it is there; the third ends it.
    '''
    go, there = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(go[1])
            def wait():
                os.write(there[1], b"x")
                os.read(go[0], 1)
            child(wait)
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(go[0])
    os.close(there[1])
    def end():
        os.close(there[0])
        os.close(go[1])
        assert os.waitpid(pid, 0)[1] == 0
    return lambda: os.write(go[1], b"x"), lambda: os.read(there[0], 1), end

def make():
    return [st.full((n,), 5.0, shared=True) for n in (16, 1000, 100_000)]

def check(tensors):
    assert all((t == 5).all() for t in tensors), [t[:3].tolist() for t in tensors]
"""

_ALL_TAKEN = """
tensors = make()
fd = occupy(range(1, N_PARAMS + 1))

def grandchild(wait):
    wait()
    check(tensors)
    wait()

def child(wait):
    go, there, end = fork(grandchild)
    there()
    wait()
    check(tensors)
    wait()
    go(); there()  # it has looked
    end()

go, there, end = fork(child)
there()
tensors.clear()
gc.collect()
more = churn()
go(); there()
assert sharing.status()["n_leases"] == 3
more += churn()
go()
end()
until(lambda: sharing.status()["n_leases"] == 0)
assert all((t == -1).all() for t in more)
"""


@pytest.mark.check
def test_children_and_grandchildren_without_a_number_keep_what_they_inherited() -> None:
    run(_PREPARE + _ALL_TAKEN)


_FOREIGN_NUMBER = """
tensors = make()
fd = occupy(range(2, N_PARAMS))  # the next process gets the last number
inside = '''
import sys, shmtensor as st
tensor = st.full((1000,), 9.0, shared=True)
print("there", flush=True)
sys.stdin.readline()
assert (tensor == 9).all()
'''
command, pipe = [sys.executable, "-c", inside], subprocess.PIPE
other = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
assert other.stdout.readline() == "there\\n"

def child(wait):
    try:
        st.ones(3, shared=True)
    except Exception as error:
        assert "all 4607 places" in str(error), error
    else:
        raise AssertionError("a process without a number has shared a tensor")
    try:
        ForkingPickler.dumps(tensors[0])
    except Exception as error:
        assert "all 4607 places" in str(error), error
    else:
        raise AssertionError("a process without a number has sent a tensor")
    tensors.clear()
    gc.collect()
    wait()

go, there, end = fork(child)
there()
check(tensors)
go()
end()
other.stdin.write("\\n"); other.stdin.flush()
assert other.wait(30) == 0
"""


def test_child_without_a_number_does_not_act_as_another_member() -> None:
    run(_PREPARE + _FOREIGN_NUMBER)


_NO_DESCRIPTOR = """
CLOSES = {closes}
# Before the first tensor: the library's own numbers are below the limit, too.
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

def fill():
    '''Use up the descriptors.'''
    used = []
    while True:
        try:
            used.append(os.dup(2))
        except OSError:
            return used

tensors = make()
go, there = os.pipe(), os.pipe()
used = fill()
pid = os.fork()
if pid == 0:
    code = 1
    try:
        os.close(go[1])
        os.write(there[1], b"x")
        os.read(go[0], 1)
        check(tensors)
        grandchild = os.fork()
        check(tensors)
        if grandchild != 0:
            assert os.waitpid(grandchild, 0)[1] == 0
            if CLOSES:
                for n in used:
                    os.close(n)
                assert (st.full((10,), 2.0, shared=True) == 2).all()
                ForkingPickler.dumps(tensors[0])
        code = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(code)
os.close(there[1])
os.close(go[0])
assert os.read(there[0], 1) == b"x"
for n in used:
    os.close(n)
tensors.clear()
gc.collect()
more = churn()
os.write(go[1], b"x")
os.close(go[1])
assert os.waitpid(pid, 0)[1] == 0
assert all((t == -1).all() for t in more)
until(lambda: sharing.status()["n_clients"] == 1)
del more
gc.collect()
if not CLOSES:
    until(lambda: sharing.status()["n_leases"] == 0)
"""


@pytest.mark.check
@pytest.mark.parametrize("closes", [False, True])
def test_child_of_a_process_without_a_free_descriptor_keeps_what_it_inherited(closes: bool) -> None:
    run(_PREPARE + _NO_DESCRIPTOR.replace("{closes}", str(closes)))


_OTHER_USER = """
EFFECTIVE = {effective}
tensors = make()
if EFFECTIVE:
    os.setegid(65534); os.seteuid(65534)
else:
    os.setgid(65534); os.setuid(65534)
assert (st.full((200_000,), 2.0, shared=True) == 2).all()  # it goes on as a member

def grandchild(wait):
    wait()
    check(tensors)
    ForkingPickler.dumps(tensors[0])
    assert (st.full((300_000,), 2.0, shared=True) == 2).all()

def child(wait):
    go, there, end = fork(grandchild)
    there()
    wait()
    check(tensors)
    assert (st.full((400_000,), 2.0, shared=True) == 2).all()
    wait()
    go()
    end()

for _ in range(3):
    tensors = make()
    go, there, end = fork(child)
    there()
    tensors.clear()
    gc.collect()
    more = churn()
    go(); there(); go()
    end()
    assert all((t == -1).all() for t in more)
until(lambda: sharing.status()["n_clients"] == 1)

"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize("effective", [False, True])
def test_process_that_has_become_another_user_goes_on_and_forks(effective: bool) -> None:
    program = _OTHER_USER.replace("{effective}", str(effective))
    run(_PREPARE + program)


_OTHER_USER_ALONE = """
tensors = make()
os.kill(sharing.status()["manager_pid"], signal.SIGKILL)
os.setgid(65534); os.setuid(65534)

def child(wait):
    wait()
    check(tensors)

go, there, end = fork(child)
there()
tensors.clear()
gc.collect()
for _ in range(50):  # from what it has; it can get no more
    try:
        more = [st.full((n,), -1.0, shared=True) for n in (16, 1000, 100_000)]
    except Exception as error:
        assert "can start one" in str(error), error
go()
end()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_child_of_another_user_keeps_its_tensors_without_a_manager() -> None:
    run(_PREPARE + _OTHER_USER_ALONE)
