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


def test_operators_of_torch_that_are_functions_here(tmp_path):
    done = run_program(
        tmp_path / "program.py",
        """
        import torch
        aten = torch.ops.aten
        x = torch.ones(2, 3)
        print(aten.sym_size.int(x, -1), aten.sym_stride.int(x, 0), aten.sym_numel.default(x))
        print(aten.sym_storage_offset(x[1]), aten._is_all_true(x > 0), aten._is_any_true(x < 0))
        y = x.requires_grad_() * 2
        print(aten.detach_(y) is y, y.requires_grad)
        offs = torch.tensor([1, 2], dtype=torch.int32)
        print(aten._grouped_mm(x, torch.ones(2, 3, 4, requires_grad=True), offs).grad_fn is None)
        aten._assert_tensor_metadata(x, [2, 3], None, torch.float32)
        aten.sym_constrain_range(3, min=2)
        for wrong in (
            lambda: aten._assert_async(torch.tensor(0)),
            lambda: aten._assert_async.msg(torch.tensor(0), "a reason"),
            lambda: aten._assert_scalar.default(0, "a reason"),
            lambda: aten.sym_constrain_range_for_size.default(-1, max=3),
        ):
            try:
                wrong()
            except RuntimeError as error:
                print(error)
        """,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "3 3 6",
        "3 tensor(True) tensor(False)",
        "True False",
        "False",
        "Expected Tensor with single nonzero value, but got zero",
        "a reason",
        "a reason",
        "Invalid value range for -1 between [0, 3].",
    ]


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


_NAMES = """
import inspect, pickle, sys, torch
import torch.nn.functional as F
import torch.nn.utils.rnn

for value, name in (
    (torch.dtype, "torch"),
    (torch.device, "torch"),
    (torch.Size, "torch"),
    (torch.Tensor, "torch"),
    (torch.finfo, "torch"),
    (torch.add, "torch"),
    (torch.Stream, "torch"),
    (torch.nn.Parameter, "torch.nn.parameter"),
    (torch.nn.Linear, "torch.nn.modules.linear"),
    (torch.nn.Linear.forward, "torch.nn.modules.linear"),
    (torch.nn.MultiheadAttention, "torch.nn.modules.activation"),
    (F.relu, "torch.nn.functional"),
    (torch.func.grad, "torch.func"),
    (torch.optim.SGD, "torch.optim.sgd"),
    (torch.autograd.Function, "torch.autograd.function"),
    (torch.utils.data.DataLoader, "torch.utils.data.dataloader"),
    (torch.distributions.Normal, "torch.distributions.normal"),
    (torch.distributed.Store, "torch.distributed"),
):
    assert value.__module__ == name, (value, value.__module__)
    assert inspect.getmodule(value) is sys.modules[name]
assert repr(torch.nn.Linear) == "<class 'torch.nn.modules.linear.Linear'>"
for name in ("torch", "torch.nn", "torch.nn.functional", "torch.nn.utils.rnn", "torch.optim.sgd"):
    assert sys.modules[name].__name__ == name
    assert sys.modules[name] is sys.modules["shmtensor" + name[len("torch") :]]
"""


def test_classes_functions_and_modules_are_called_as_in_torch(tmp_path):
    done = run_program(tmp_path / "program.py", _NAMES)
    assert done.stderr == ""
    assert done.returncode == 0


def test_modules_that_are_loaded_late_are_named_too(tmp_path):
    done = run_program(
        tmp_path / "program.py",
        """
        import sys, torch
        assert "shmtensor.distributions.normal" not in sys.modules
        kind = torch.distributions.Normal
        assert kind.__module__ == "torch.distributions.normal"
        import shmtensor.distributions.kl as kl
        assert kl.__name__ == "torch.distributions.kl"
        assert kl.__spec__.name == "shmtensor.distributions.kl"
        assert kl.__package__ == "shmtensor.distributions.kl"
        import importlib
        assert importlib.reload(torch.nn.utils.clip_grad).__name__ == "torch.nn.utils.clip_grad"
        assert importlib.import_module(".rnn", torch.nn.utils.__name__) is torch.nn.utils.rnn
        """,
    )
    assert done.stderr == ""


def test_every_name_that_is_given_leads_to_its_object(tmp_path):
    done = run_program(
        tmp_path / "program.py",
        """
        import functools, importlib, inspect, pkgutil, sys, torch
        for part in ("nn", "optim", "utils", "distributions", "func", "autograd", "sparse"):
            for found in pkgutil.walk_packages(getattr(torch, part).__path__, f"torch.{part}."):
                if "tensorboard" not in found.name:  # may not be installed
                    importlib.import_module(found.name)
        named = 0
        for name, module in list(sys.modules.items()):
            for value in list(vars(module).values()) if name.startswith("shmtensor") else ():
                if isinstance(value, type) or inspect.isroutine(value):
                    owner = getattr(value, "__module__", None)
                    if isinstance(owner, str) and owner.partition(".")[0] == "torch":
                        if owner == "torch.return_types":
                            continue
                        named += 1
                        path = value.__qualname__.split(".")
                        if "<locals>" not in path:
                            found = functools.reduce(getattr, path, sys.modules[owner])
                            assert found is value, (value, owner)
        assert named > 1000, named
        """,
    )
    assert done.stderr == ""


def test_pickles_are_read_in_both_modes_where_they_can_be(tmp_path):
    plain, named = tmp_path / "plain", tmp_path / "named"
    ours = """
        import pickle, sys, shmtensor as torch
        value = [torch.nn.Linear, torch.nn.functional.relu, torch.float32, torch.Size([2])]
        tensor = pickle.dumps(torch.arange(3))
    """
    write = "\nopen(sys.argv[1], 'wb').write(pickle.dumps((value, tensor)))\n"
    done = run("-c", textwrap.dedent(ours) + write, str(plain))
    assert done.stderr == ""
    done = run("-c", "import shmtensor.as_torch" + textwrap.dedent(ours) + write, str(named))
    assert done.stderr == ""
    assert b"shmtensor.nn" in plain.read_bytes()
    assert b"shmtensor.nn" not in named.read_bytes()
    read = textwrap.dedent(ours) + textwrap.dedent(
        """
        found, tensor = pickle.load(open(sys.argv[1], "rb"))
        assert all(a is b for a, b in zip(found[:3], value[:3])) and found[3] == value[3]
        assert pickle.loads(tensor).tolist() == [0, 1, 2]
        """
    )
    for path in (plain, named):
        done = run("-c", "import shmtensor.as_torch" + read, str(path))
        assert done.stderr == ""
    assert run("-c", read, str(plain)).stderr == ""
    done = run("-c", read, str(named))  # there is no torch to find
    assert "No module named 'torch'" in done.stderr or "torch/__init__.py" in done.stderr


def test_files_are_read_in_both_modes(tmp_path):
    program = """
        import sys, shmtensor as torch
        if not (len(sys.argv) > 2):
            torch.save(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), sys.argv[1])
        loaded = torch.load(sys.argv[1], weights_only=False)
        assert type(loaded[0]) is torch.nn.Linear
        with torch.serialization.safe_globals(
            [torch.nn.Sequential, torch.nn.Linear, torch.nn.ReLU, set]
        ):
            loaded = torch.load(sys.argv[1], weights_only=True)
        assert type(loaded[0]) is torch.nn.Linear
    """
    head = {"plain": "", "named": "import shmtensor.as_torch\n"}
    for writer, first in head.items():
        for reader, second in head.items():
            path = str(tmp_path / writer)
            assert run("-c", first + textwrap.dedent(program), path).stderr == ""
            done = run("-c", second + textwrap.dedent(program), path, "read")
            assert done.stderr == "", (writer, reader)


def test_names_are_the_packages_own_without_the_import():
    done = run(
        "-c",
        "import sys, shmtensor as s; print(s.dtype.__module__, s.nn.Linear.__module__, "
        "s.nn.__name__, s.add.__module__, 'torch' in sys.modules)",
    )
    assert done.stdout == "shmtensor shmtensor.nn.modules.linear shmtensor.nn shmtensor._C False\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_values_with_names_go_through_queues(tmp_path, method):
    done = run_program(
        tmp_path / "program.py",
        f"""
        import torch, torch.multiprocessing as mp

        def work(ours, theirs):
            import shmtensor  # no import of torch here
            theirs.put([*ours.get(), shmtensor.nn.ReLU, shmtensor.nn.Parameter(shmtensor.ones(1))])

        if __name__ == "__main__":
            context = mp.get_context({method!r})
            ours, theirs = context.Queue(), context.Queue()
            process = context.Process(target=work, args=(ours, theirs))
            process.start()
            values = [torch.float32, torch.Size([1]), torch.device("cpu"), torch.nn.Linear(1, 1)]
            ours.put(values)
            got = theirs.get()
            assert got[:3] == values[:3] and type(got[3]) is torch.nn.Linear
            assert got[4] is torch.nn.ReLU and type(got[5]) is torch.nn.Parameter
            process.join()
        """,
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_doctests_of_a_module_are_found(tmp_path):
    done = run_program(
        tmp_path / "program.py",
        """
        import doctest, torch
        found = doctest.DocTestFinder(exclude_empty=False).find(torch.nn.modules.linear)
        assert "torch.nn.modules.linear.Linear.forward" in {test.name for test in found}
        """,
    )
    assert done.stderr == ""


def test_the_package_knows_its_own_code_by_any_name(tmp_path):
    """Traces warn of what the program takes from a tensor, and say where the program is."""
    done = run_program(
        tmp_path / "program.py",
        """
        import warnings
        import torch

        def density(loc, scale, value):
            return torch.distributions.Normal(loc, scale, validate_args=False).log_prob(value)

        def doubled(x):
            return x * float(x.sum())

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.jit.trace(density, (torch.zeros(()), torch.ones(()), torch.randn(5, 1)))
            torch.jit.trace(torch.nn.LSTM(2, 2), torch.ones(3, 2))
            assert not caught, caught[0]
            torch.jit.trace(doubled, torch.ones(2))
        assert {each.filename for each in caught} == {__file__}

        tracer = torch.fx.Tracer()
        tracer.record_stack_traces = True
        graph = tracer.trace(lambda x: torch.nn.functional.softsign(x))
        stacks = [node.stack_trace for node in graph.nodes if node.stack_trace]
        assert stacks and all(__file__ in stack.splitlines()[-2] for stack in stacks)
        """,
    )
    assert (done.stderr, done.returncode) == ("", 0)
