"""`shmtensor run --as-torch` and `import shmtensor.as_torch`: what `import torch` gives."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def run_program(path: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    path.write_text(textwrap.dedent(text))
    return run("-m", "shmtensor", "run", "--as-torch", *options, str(path), "one", "--two")


@pytest.mark.check
def test_modules_are_the_same_objects(tmp_path):
    done = run_program(
        tmp_path / "program.py",
        """
        import sys
        import torch
        import torch.nn.functional as F
        from torch.nn.utils import rnn
        from torch.optim.lr_scheduler import StepLR
        import shmtensor
        assert torch is shmtensor
        assert F is shmtensor.nn.functional
        assert rnn is shmtensor.nn.utils.rnn
        assert shmtensor.nn.utils.rnn.__spec__.name == "shmtensor.nn.utils.rnn"
        assert shmtensor.optim.__path__
        assert torch.__name__ == torch.Tensor.__module__ == "torch"
        assert torch.torch is torch
        from torch._C._functorch import is_batchedtensor
        from functorch import vmap
        assert vmap is torch.func.vmap
        assert issubclass(StepLR, shmtensor.optim.lr_scheduler.LRScheduler)
        print(sys.argv[1:])
        sys.exit(3)
        """,
    )
    assert done.stderr == ""
    assert done.stdout == "['one', '--two']\n"
    assert done.returncode == 3


def test_version_is_a_version_of_torch(tmp_path):
    done = run_program(
        tmp_path / "program.py",
        """
        import importlib.metadata, importlib.util
        import torch
        assert importlib.util.find_spec("torch") is not None
        assert importlib.util.find_spec("torch.nn") is not None
        assert importlib.util.find_spec("torch.no_such_module") is None
        assert torch.__version__ >= "2.13"
        print(torch.__version__, importlib.metadata.version("torch"))
        """,
    )
    ours, of_metadata = done.stdout.split()
    assert ours.startswith("2.13.0+shmtensor.")
    assert of_metadata.startswith("2.13.0+shmtensor")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_and_programs_that_are_started_find_it(tmp_path, method):
    done = run_program(
        tmp_path / "program.py",
        f"""
        import subprocess, sys
        import multiprocessing
        import torch
        import torch.multiprocessing as mp

        def work(queue):
            import torch
            queue.put(torch.arange(3))

        if __name__ == "__main__":
            for package in (mp, multiprocessing):
                context = package.get_context({method!r})
                queue = context.SimpleQueue()
                process = context.Process(target=work, args=(queue,))
                process.start()
                print(queue.get().tolist(), flush=True)
                process.join()
            text = "import torch; print('shmtensor' in torch.__file__)"
            subprocess.run([sys.executable, "-c", text])
        """,
    )
    assert done.stdout.splitlines() == ["[0, 1, 2]", "[0, 1, 2]", "True"], done.stderr


def test_missing_names_are_named_and_reported(tmp_path):
    done = run_program(
        tmp_path / "program.py",
        """
        import torch
        from torch import nn
        nn.Linear(1, 1)
        for name in ("no_such_module", "nn.no_such_module"):
            try:
                __import__(f"torch.{name}")
            except ModuleNotFoundError as error:
                print(error)
        try:
            torch.no_such_name
        except AttributeError as error:
            print(error)
        """,
        "--report",
    )
    assert done.stdout.splitlines() == [
        "No module named 'torch.no_such_module'",
        "No module named 'torch.nn.no_such_module'",
        "module 'torch' has no attribute 'no_such_name'",
    ]
    used, missing = done.stderr.split("names that the program asked for are missing in shmtensor:")
    assert "  torch.nn.Linear\n" in used
    for name in ("torch.no_such_module", "torch.nn.no_such_module", "torch.no_such_name"):
        assert f"  {name}\n" in missing


@pytest.mark.check
def test_a_forked_copy_that_exits_reports_nothing(tmp_path):
    done = run_program(
        tmp_path / "program.py",
        """
        import os, sys, torch
        torch.ones(1)
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        """,
        "--report",
    )
    assert done.stderr.count("names of torch were used:") == 1


def test_import_in_a_program_of_ones_own():
    done = run("-c", "import shmtensor.as_torch, torch; print(torch.ones(2).sum().item())")
    assert done.stdout == "2.0\n", done.stderr


def test_torch_that_is_loaded_already_is_refused(tmp_path):
    (tmp_path / "torch.py").write_text("")
    done = run("-c", "import torch, shmtensor.as_torch", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert done.returncode == 1
    assert "torch itself has been imported already" in done.stderr


def test_modules_run_with_m(tmp_path):
    (tmp_path / "program.py").write_text(
        "import torch; print(__name__, 'shmtensor' in torch.__file__)"
    )
    done = run(
        "-m", "shmtensor", "run", "--as-torch", "-m", "program", PYTHONPATH=f"{tmp_path}:{ROOT}"
    )
    assert done.stdout == "__main__ True\n", done.stderr


def test_missing_program_is_one_line():
    done = run("-m", "shmtensor", "run", "--as-torch", "no_such_program.py")
    assert done.returncode == 2
    assert done.stderr == "shmtensor run: no_such_program.py: no such file\n"
