"""A family that shares while its n-th system call or allocation fails, for n = 1, 2, ...

``fault_loop.py <directory> <role> <kind> <first> <step> <runs>``, see ``faults.c`` for roles and
kinds; *directory* has the build with faults. Each run is a family of its own in one session; the
calls that fail may raise, nothing else. After each, a bystander's memory must be whole, sharing
must work, and nothing of the family may be left. Prints the number of runs in which the fault came;
the loop ends when there were no more calls to fail.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import native
import waiting
from native import Native, NativeError

HANG_S = 90


def _tolerant_work(directory: Path, session: int) -> None:
    try:
        native.work(Native(directory, session), tolerant=True)
    except NativeError as error:
        if not error.args[1]:
            raise AssertionError("an error without a text") from error


def _fork(function: Callable[[], None]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def _wait(pid: int) -> int:
    """The wait status; a process that hangs is killed, which raises."""
    deadline = time.monotonic() + HANG_S
    while True:
        got, status = os.waitpid(pid, os.WNOHANG)
        if got:
            return status
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError(f"process {pid} hangs")
        time.sleep(0.005)


class _Bystander:
    """A member that none of it happens to, beside its manager."""

    def __init__(self, directory: Path, session: int) -> None:
        self.native = Native(directory, session)
        self.mine = self.native.new(100_000).fill(5)
        self.descriptors = len(os.listdir("/proc/self/fd"))

    def manager(self) -> int:
        """The manager's pid, whatever happens to it meanwhile."""
        found: list[int] = []

        def ask() -> bool:
            try:
                found.append(self.native.status()["manager_pid"])
            except NativeError:
                return False
            return True

        waiting.until(ask, lambda: "no manager")
        return found[-1]

    def restart(self) -> None:
        """Kill the manager and start another, which reads the environment of this moment."""
        pid = self.manager()
        os.kill(pid, signal.SIGKILL)
        waiting.until(lambda: not waiting.runs(pid), lambda: "the manager does not die")
        self.manager()

    def check(self) -> None:
        """Nothing of others is left, and mine is whole."""
        assert self.mine.value() == 5
        again = self.native.new(50_000).fill(6)
        assert self.native.open(again.handle()).value() == 6
        del again

        def clean() -> bool:
            self.native.collect()
            resident = self.native.trim()
            status = self.native.status()
            return (
                status["n_clients"] == 1
                and status["n_leases"] == 0
                and resident <= 100_000 + 3 * 65536
            )

        waiting.until(clean, lambda: (self.native.status(), self.native.trim()))
        assert self.mine.value() == 5
        assert len(os.listdir("/proc/self/fd")) <= self.descriptors + 1


def _one_run(
    bystander: _Bystander, zygote: Callable[[str], int], role: str, kind: str, n: int, token: Path
) -> bool:
    """One family with one fault; whether the fault came."""
    token.touch()
    plan = f"{role},{kind},{n},{token}"
    if role == "manager":
        os.environ["SHMTENSOR_FAULT"] = plan
        bystander.restart()
    status = zygote(plan if role == "client" else "")
    os.environ.pop("SHMTENSOR_FAULT", None)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert status == 0 or (killed and kind == "kill"), f"{plan}: wait status {status}"
    if role == "manager":
        bystander.restart()
    bystander.check()
    came = not token.exists()
    token.unlink(missing_ok=True)
    return came


def _serve_zygote(
    requests: tuple[int, int], answers: tuple[int, int], directory: Path, session: int
) -> None:
    """Fork one family for each plan; this process itself never joins."""
    os.close(requests[1])
    os.close(answers[0])
    with os.fdopen(requests[0]) as plans:
        for plan in plans:
            if plan.strip():
                os.environ["SHMTENSOR_FAULT"] = plan.strip()
            else:
                os.environ.pop("SHMTENSOR_FAULT", None)
            status = _wait(_fork(lambda: _tolerant_work(directory, session)))
            os.write(answers[1], f"{status}\n".encode())


def main(arguments: list[str]) -> int:
    """Run the loop; prints how many faults came."""
    directory, role, kind = Path(arguments[0]), arguments[1], arguments[2]
    first, step, most = map(int, arguments[3:6])
    session = (os.getpid() << 42) | 1 << 41
    token = directory / f"fault-{os.getpid()}"
    to_zygote, from_zygote = os.pipe(), os.pipe()
    pid = _fork(lambda: _serve_zygote(to_zygote, from_zygote, directory, session))
    os.close(to_zygote[0])
    os.close(from_zygote[1])
    answers = os.fdopen(from_zygote[0])

    def zygote(plan: str) -> int:
        os.write(to_zygote[1], f"{plan}\n".encode())
        line = answers.readline()
        assert line, "the family hangs"
        return int(line)

    came = 0
    try:
        bystander = _Bystander(directory, session)
        for n in range(first, first + step * most, step):
            try:
                if not _one_run(bystander, zygote, role, kind, n, token):
                    break
            except BaseException:
                print(f"{role},{kind},{n}:", file=sys.stderr)
                raise
            came += 1
    finally:
        os.close(to_zygote[1])
        _wait(pid)
        token.unlink(missing_ok=True)
    print(came)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
