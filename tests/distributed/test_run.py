"""``python -m shmtensor.distributed.run``, and programs that are written for torch and gloo."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest


def program(folder: Path, text: str) -> str:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def launch(
    *arguments: str, module: str = "shmtensor.distributed.run", **options: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **options},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


SUM = """
    import os, sys
    import shmtensor.distributed as dist
    import shmtensor as torch
    dist.init_process_group()
    x = torch.tensor([float(os.environ["RANK"])])
    dist.all_reduce(x)
    if dist.get_rank() == 0:
        print(x.item(), dist.get_world_size(), os.environ["LOCAL_WORLD_SIZE"], sys.argv[1:])
    dist.destroy_process_group()
"""


@pytest.mark.check
def test_ranks_are_started(tmp_path: Path) -> None:
    code, out, err = finish(
        launch("--nproc-per-node", "3", "--standalone", program(tmp_path, SUM), "--x", "1")
    )
    assert (code, out) == (0, "3.0 3 3 ['--x', '1']\n"), err


PROGRAM_RUNS = """
    import signal, sys
    from shmtensor.distributed import run
    from shmtensor.distributed.elastic.multiprocessing.errors import ChildFailedError

    before = signal.getsignal(signal.SIGTERM)
    options = run.get_args_parser().parse_args([sys.argv[1], "--x", "1"])
    assert options.training_script_args == ["--x", "1"]
    assert run.parse_args([sys.argv[1]]).training_script == sys.argv[1]
    options.nproc_per_node, options.nnodes, options.master_port = "3", "1:1", None
    run.run(options)
    options.training_script_args = ["fail"]
    try:
        run.run(options)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        print(rank, failure.local_rank, failure.exitcode)
    assert signal.getsignal(signal.SIGTERM) is before
    options.nnodes = "1:2"
    try:
        run.run(options)
    except ValueError as error:
        print(error)
"""


def test_programs_start_ranks(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    fails = """
    if sys.argv[1:] == ["fail"] and os.environ["RANK"] == "1":
        sys.exit(7)
    """
    ranks = program(tmp_path / "ranks", SUM.replace("sys.argv[1:])", "sys.argv[1:], flush=True)"))
    Path(ranks).write_text(Path(ranks).read_text() + textwrap.dedent(fails))
    path = program(tmp_path, PROGRAM_RUNS)
    found = subprocess.run(
        [sys.executable, path, ranks], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [
        "3.0 3 3 ['--x', '1']",
        "3.0 3 3 ['fail']",
        "1 1 7",
        "as many machines at the end as at first, got 1:2",
    ]


def test_modules_and_other_programs_are_started(tmp_path: Path) -> None:
    program(tmp_path, SUM)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    code, out, err = finish(launch("--nproc_per_node=2", "-m", "program", PYTHONPATH=path))
    assert (code, out) == (0, "1.0 2 2 []\n"), err
    code, out, err = finish(
        launch("--nproc-per-node", "2", "--no-python", "sh", "-c", "echo rank=$RANK")
    )
    assert code == 0 and sorted(out.split()) == ["rank=0", "rank=1"], err


def test_a_failing_rank_ends_the_run(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        import os, sys, time
        if os.environ["RANK"] == "1":
            sys.exit(7)
        time.sleep(100)
        """,
    )
    code, _, err = finish(launch("--nproc-per-node", "2", path))
    assert code == 1
    assert re.search(r"rank 1 \(pid \d+\) ended with status 7; the other ranks are ended", err)


def test_a_killed_rank_ends_the_run(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        import os, signal
        import shmtensor as torch, shmtensor.distributed as dist
        dist.init_process_group("gloo")
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            dist.all_reduce(torch.ones(1))
        """,
    )
    code, _, err = finish(launch("--nproc-per-node", "3", path))
    assert code == 1 and "was killed by SIGKILL; the other ranks are ended" in err


def test_all_ranks_start_again(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        import os, sys
        import shmtensor as torch, shmtensor.distributed as dist
        dist.init_process_group("shm")
        attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        x = torch.ones(1)
        dist.all_reduce(x)
        if attempt < 2 and dist.get_rank() == attempt:
            sys.exit(3)
        dist.barrier()
        if dist.get_rank() == 0:
            print("attempt", attempt, x.item())
        """,
    )
    code, out, err = finish(launch("--nproc-per-node", "2", "--max-restarts", "2", path))
    assert (code, out) == (0, "attempt 2 2.0\n"), err
    # The rank that waits for the failed one may be seen first.
    assert err.count("all ranks start again") == 2


WAITS = """
    import os, time
    os.write(1, f"pid {os.getpid()}\\n".encode())  # as a whole: two ranks write
    time.sleep(100)
"""


def _pids(process: subprocess.Popen[str], n: int) -> list[int]:
    assert process.stdout is not None
    return [int(process.stdout.readline().split()[1]) for _ in range(n)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_ranks_end_with_the_launcher(tmp_path: Path, number: signal.Signals) -> None:
    process = launch("--nproc-per-node", "2", program(tmp_path, WAITS))
    ranks = [psutil.Process(pid) for pid in _pids(process, 2)]
    process.send_signal(number)
    code, _, _ = finish(process)
    assert code == (-9 if number == signal.SIGKILL else 128 + number)
    _, alive = psutil.wait_procs(ranks, timeout=30)
    assert not alive


@pytest.mark.check
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--nproc-per-node", "0", "x.py"], "must be at least 1"),
        (["absent.py"], "there is no program absent.py"),
        (["--nnodes", "2", "--no-python", "true"], "needs --master-addr"),
        (["--nnodes", "2", "--node-rank", "2", "--no-python", "true"], "--node-rank 2"),
        (["--no-python", "/absent/program"], "cannot be started"),
    ],
)
def test_bad_options(arguments: list[str], text: str) -> None:
    code, _, err = finish(launch(*arguments))
    assert code == 2 and text in err and "Traceback" not in err


def test_a_port_in_use(tmp_path: Path) -> None:
    from shmtensor.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, 1, True)
    path = program(
        tmp_path,
        """
        import sys
        import shmtensor.distributed as dist
        try:
            dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{sys.argv[1]}")
        except ValueError:
            dist.init_process_group(
                "gloo", init_method=f"tcp://127.0.0.1:{sys.argv[1]}", rank=0, world_size=2
            )
        """,
    )
    done = subprocess.run(
        [sys.executable, path, str(store.port)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "DistNetworkError: The server socket has failed to listen" in done.stderr


GLOO_PROGRAM = """
    import os, sys
    library = sys.argv[1]
    if library == "torch":
        import torch
    else:
        import shmtensor as torch
        sys.modules["torch"] = torch
        for name in ("distributed", "nn", "nn.parallel", "utils", "utils.data"):
            __import__("shmtensor." + name)
            sys.modules["torch." + name] = sys.modules["shmtensor." + name]
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    def show(*values):
        for r in range(dist.get_world_size()):
            if r == dist.get_rank():
                print(r, *values, flush=True)
            dist.barrier()

    dist.init_process_group(backend="gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    show(dist.get_backend(), size, dist.is_initialized(), dist.get_process_group_ranks(None))
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8, torch.bfloat16):
            x = (torch.arange(5) + rank + 1).to(dtype)
            dist.all_reduce(x, op=op)
            show(str(op), x.tolist())
    x = torch.arange(4) * (rank + 1)
    dist.broadcast(x, src=1)
    show(x.tolist())
    parts = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(parts, torch.full((2,), float(rank)))
    show([p.tolist() for p in parts])
    out = torch.zeros(size * 2)
    dist.all_gather_into_tensor(out, torch.full((2,), rank + 0.5))
    show(out.tolist())
    out = torch.zeros(2)
    dist.reduce_scatter(out, [torch.full((2,), float(rank + i)) for i in range(size)])
    show(out.tolist())
    got = [torch.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.ones(1) * rank, got, dst=0)
    show(None if got is None else [g.item() for g in got])
    mine = torch.zeros(2)
    rows = [torch.full((2,), 10.0 + i) for i in range(size)]
    dist.scatter(mine, rows if rank == 0 else None, src=0)
    show(mine.tolist())
    out = torch.zeros(size)
    dist.all_to_all_single(out, torch.arange(size) + 10.0 * rank)
    show(out.tolist())
    if rank == 0:
        dist.send(torch.tensor([3.5]), dst=1)
        work = dist.irecv(mine, src=1)
        work.wait()
    elif rank == 1:
        x = torch.zeros(1)
        sender = dist.recv(x, src=0)
        dist.isend(torch.tensor([x.item(), sender]), dst=0).wait()
    show(mine.tolist())
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    show(objects)
    group = dist.new_group([0, size - 1])
    show(dist.get_rank(group), dist.get_world_size(group))
    if dist.get_rank(group) >= 0:
        x = torch.ones(3)
        work = dist.all_reduce(x, group=group, async_op=True)
        work.wait()
        assert x.tolist() == [2.0, 2.0, 2.0] and work.is_completed()
    for call in (
        lambda: dist.broadcast(x), lambda: dist.all_reduce(3), lambda: dist.new_group([9]),
        lambda: dist.init_process_group("gloo"), lambda: dist.all_gather([x, x.int()], x),
    ):
        try:
            call()
        except Exception as error:
            show(type(error).__name__, str(error).splitlines()[0])
    model = torch.nn.Linear(3, 1)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(rank + 1)
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.full((4, 3), rank + 1.0) * 0.1).square().mean()
        loss.backward()
        optimizer.step()
    values = [v for p in model.parameters() for v in p.flatten().tolist()]
    show(sorted(model.state_dict()), [round(v, 5) for v in values])
    dist.destroy_process_group()
    if rank == 0:
        print(dist.is_initialized())
"""


def _run_gloo_program(folder: Path, library: str) -> str:
    path = program(folder, GLOO_PROGRAM)
    code, out, err = finish(
        launch("--nproc-per-node", "3", "--master-port", _port(), path, library)
    )
    assert code == 0, err
    return out


def _port() -> str:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def test_a_program_for_gloo_prints_what_it_must(tmp_path: Path) -> None:
    out = _run_gloo_program(tmp_path, "shmtensor")
    for line in (
        "0 gloo 3 True [0, 1, 2]",
        "2 RedOpType.SUM [6.0, 9.0, 12.0, 15.0, 18.0]",
        "0 RedOpType.PRODUCT [6, 24, 60, 120, 210]",
        "1 [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]",
        "2 [9.0, 9.0]",
        "0 [3.5, 0.0]",
        "1 -1 -1",
        "2 1 2",
    ):
        assert line in out.splitlines(), out


def test_a_program_for_gloo_prints_the_same_with_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert _run_gloo_program(tmp_path, "shmtensor") == _run_gloo_program(tmp_path, "torch")


def test_an_ignored_sigchld_hides_no_failure(tmp_path: Path) -> None:
    path = program(tmp_path, "import os; os._exit(7 * int(os.environ['RANK']))")
    start = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-c", start, "-m", "shmtensor.distributed.run"),
            *("--nproc-per-node", "2", path),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert re.search(r"rank 1 \(pid \d+\) ended with status 7; the other ranks", done.stderr)


def test_a_program_that_does_not_exist() -> None:
    code, _, err = finish(launch("--no-python", "there-is-no-such-program"))
    assert code == 2
    assert "cannot be started: there-is-no-such-program: No such file or directory" in err


def test_programs_get_the_signals_and_variables_of_the_command() -> None:
    text = "grep SigIgn /proc/$$/status; echo $RANK ${LC_CTYPE-none}"
    options = {"LC_ALL": "", "LANG": "C", "PYTHONCOERCECLOCALE": "0"}
    code, out, err = finish(launch("--no-python", "sh", "-c", text, **options))
    assert (code, out.splitlines()[1]) == (0, f"0 {os.environ.get('LC_CTYPE', 'none')}"), err
    ignored = int(out.split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))
    assert not ignored & (1 << (signal.SIGXFSZ - 1))
