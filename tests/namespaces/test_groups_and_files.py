"""`distributed`, `futures`, `monitor`, `hub`, `package`, `nested` and reports of the machine."""

from __future__ import annotations

import importlib
import os
import pickle
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from same_as_torch import differences

import shmtensor as T
from shmtensor import distributed, futures, hub, monitor
from shmtensor.utils import collect_env, cpp_extension

# --- distributed ---------------------------------------------------------------------------------


@pytest.mark.check
def test_what_groups_do_not_offer() -> None:
    assert distributed.is_available() and not distributed.is_initialized()
    assert not distributed.is_nccl_available() and not distributed.is_backend_available("nccl")
    for call in (distributed.split_group, distributed.shrink_group):
        with pytest.raises(RuntimeError, match="not offered"):
            call()
    with pytest.raises(NotImplementedError, match="ProcessGroupNCCL"):
        distributed.ProcessGroupNCCL()
    assert distributed.group.WORLD is None and str(distributed.ReduceOp.SUM) == "RedOpType.SUM"


def test_parts_of_groups_are_types_to_ask_for() -> None:
    tensor = importlib.import_module("shmtensor.distributed.tensor")
    mesh = importlib.import_module("shmtensor.distributed.device_mesh")
    fsdp = importlib.import_module("shmtensor.distributed.fsdp")
    assert not isinstance(T.ones(1), tensor.DTensor)
    assert not isinstance(T.nn.ReLU(), fsdp.FullyShardedDataParallel)
    assert tensor.Shard(0) == tensor.Shard(0) != tensor.Shard(1)
    assert tensor.Shard(1).is_shard(1) and not tensor.Shard(1).is_shard(0)
    assert tensor.Replicate().is_replicate() and tensor.Partial().is_partial("sum")
    with pytest.raises(NotImplementedError, match="process groups"):
        tensor.distribute_tensor(T.ones(1))
    with pytest.raises(RuntimeError, match="process groups"):
        mesh.init_device_mesh("cpu", (1,))


@pytest.mark.parametrize("n", [0, 1, 5, 6, 7])
def test_pieces_are_as_of_chunk(n: int) -> None:
    cut = importlib.import_module("shmtensor.distributed.tensor").Shard.local_shard_size_and_offset
    pieces = [cut(n, 3, rank) for rank in range(3)]
    assert sum(size for size, _ in pieces) == n
    found = [list(range(begin, begin + size)) for size, begin in pieces if size]
    assert found == [each.tolist() for each in T.arange(n).chunk(3) if each.numel()]


def test_pieces_of_pieces() -> None:
    types = importlib.import_module("shmtensor.distributed.tensor.placement_types")
    strided = types._StridedShard(0, split_factor=2)
    # 7 elements are cut in two (4 and 3), and each part in three: 2, 2, 0 and 1, 1, 1.
    found = [strided.local_shard_size_and_offset(7, 3, rank) for rank in range(3)]
    assert found == [(3, 0), (3, 2), (1, 6)]
    assert strided.local_shard_size_and_offset(2, 3, 2) == (0, -1)
    every, none = types._StridedShardOffsetMode.ALL, types._StridedShardOffsetMode.NONE
    assert strided.local_shard_size_and_offset(7, 3, 0, every) == (3, [0, 1, 4])
    assert strided.local_shard_size_and_offset(7, 3, 0, none) == (3, None)
    with pytest.raises(ValueError):
        strided.local_shard_size_and_offset(7, 3, 0, 3)


def test_placements_tell_what_they_are() -> None:
    types = importlib.import_module("shmtensor.distributed.tensor.placement_types")
    strided = types._StridedShard(1, sf=3)
    # A strided piece is not contiguous: libraries ask is_shard() to find that out.
    assert not isinstance(strided, types.Shard) and not strided.is_shard()
    assert types.Shard(1).is_shard(1) and types.Shard(1) != strided
    assert strided == types._StridedShard(1, split_factor=3) != types._StridedShard(1)
    assert len({strided, types._StridedShard(1, sf=3)}) == 1
    for wrong in ({"split_factor": 2, "sf": 2}, {"wrong": 1}):
        with pytest.raises(TypeError):
            types._StridedShard(0, **wrong)
    placements = [types.Shard(1), strided, types.Replicate(), types.Partial("max")]
    assert list(map(str, placements)) == ["S(1)", "_S(1, 3)", "R", "P(max)"]
    assert list(map(repr, placements)) == [
        "Shard(dim=1)",
        "_StridedShard(dim=1, sf=3)",
        "Replicate()",
        "Partial(max)",
    ]


def test_the_local_rank_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with pytest.raises(RuntimeError, match="LOCAL_RANK"):
        distributed.get_node_local_rank()
    assert distributed.get_node_local_rank(2) == 2
    monkeypatch.setenv("LOCAL_RANK", "5")
    assert distributed.get_node_local_rank(2) == 5


# --- futures -------------------------------------------------------------------------------------


def test_a_future_is_waited_for_in_another_thread() -> None:
    future: futures.Future[int] = futures.Future()
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(future.wait()))
    thread.start()
    future.set_result(3)
    thread.join()
    assert seen == [3] and future.done() and future.value() == 3
    with pytest.raises(RuntimeError, match="once"):
        future.set_result(4)


def test_callbacks_are_called_in_any_order_of_events() -> None:
    before: futures.Future[int] = futures.Future()
    chained = before.then(lambda done: done.value() + 1)
    before.set_result(1)
    later = chained.then(lambda done: done.value() / 0)
    assert chained.wait() == 2
    with pytest.raises(ZeroDivisionError):
        later.wait()
    before.add_done_callback(lambda done: done.value() / 0)  # is dropped


def test_several_futures() -> None:
    several: list[futures.Future[int]] = [futures.Future() for _ in range(3)]
    together = futures.collect_all(several)
    for i, each in enumerate(several):
        assert not together.done()
        each.set_result(i)
    assert together.done() and futures.wait_all(several) == [0, 1, 2]
    failed: futures.Future[int] = futures.Future()
    failed.set_exception(KeyError("a"))
    with pytest.raises(KeyError):
        futures.wait_all([*several, failed])


# --- monitor -------------------------------------------------------------------------------------


def test_events_go_to_handlers() -> None:
    seen: list[monitor.Event] = []
    handle = monitor.register_event_handler(seen.append)
    event = monitor.Event("a.b", datetime.now(), {"x": 1.5})
    monitor.log_event(event)
    monitor.unregister_event_handler(handle)
    monitor.log_event(event)
    assert seen == [event]


def test_stats_are_reported_by_windows() -> None:
    seen: list[monitor.Event] = []
    handle = monitor.register_event_handler(seen.append)
    kinds = [monitor.SUM, monitor.MEAN, monitor.MAX, monitor.COUNT]
    stat = monitor.Stat("t", kinds, timedelta(days=1), max_samples=2)
    for value in (1.0, 3.0, 8.0):
        stat.add(value)
    monitor.unregister_event_handler(handle)
    assert [e.data for e in seen] == [{"t.sum": 4.0, "t.mean": 2.0, "t.max": 3.0, "t.count": 2}]
    assert stat.count == 1 and stat.get()[monitor.SUM] == 8.0


# --- hub -----------------------------------------------------------------------------------------


@pytest.fixture
def models(tmp_path: Path) -> str:
    (tmp_path / "neighbour.py").write_text("VALUE = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "import neighbour\n"
        "dependencies = ['math']\n"
        "def small(scale=1):\n"
        "    'A small one.'\n"
        "    return neighbour.VALUE * scale\n"
    )
    return str(tmp_path)


@pytest.mark.check
def test_models_of_a_folder(models: str) -> None:
    assert hub.load(models, "small", source="local", scale=2) == 6
    assert hub.list(models, source="local") == ["small"]
    assert hub.help(models, "small", source="local") == "A small one."
    with pytest.raises(RuntimeError, match="Cannot find callable large"):
        hub.load(models, "large", source="local")
    with pytest.raises(ValueError, match="Unknown source"):
        hub.load(models, "small", source="elsewhere")


def test_nothing_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    url = "https://example.org/weights-0123.pt"
    for call in (
        lambda: hub.load("someone/models", "small"),
        lambda: hub.download_url_to_file(url, "file"),
        lambda: hub.load_state_dict_from_url(url),
    ):
        with pytest.raises(RuntimeError, match="not downloaded"):
            call()
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    T.save({"w": T.ones(2)}, folder / "weights-0123.pt")
    assert hub.load_state_dict_from_url(url)["w"].sum() == 2
    assert T.utils.model_zoo.load_url(url)["w"].sum() == 2


class _Runs:
    """Unpickling it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_a_file_of_a_network_runs_no_code(tmp_path: Path) -> None:
    made = tmp_path / "made"
    T.save(_Runs(made), tmp_path / "weights.pt")
    for load in (hub.load_state_dict_from_url, T.utils.model_zoo.load_url):
        with pytest.raises(pickle.UnpicklingError, match="mkdir"):
            load("https://example.org/weights.pt", model_dir=str(tmp_path))
        assert not made.exists()
    hub.load_state_dict_from_url(
        "https://example.org/weights.pt", model_dir=str(tmp_path), weights_only=False
    )
    assert made.exists()


def test_a_missing_dependency_is_named(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_module_at_all']\n")
    with pytest.raises(RuntimeError, match="no_such_module_at_all"):
        hub.list(str(tmp_path), source="local")


def test_the_progress_bar_without_tqdm(capsys: pytest.CaptureFixture[str]) -> None:
    with hub._Faketqdm(total=4) as bar:
        bar.update(1)
        bar.update(3)
    assert capsys.readouterr().err == "\r25.0%\r100.0%\n"


# --- what is refused, and reports ----------------------------------------------------------------


def test_packages_and_nested_tensors_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="archives"):
        T.package.PackageExporter("file")
    assert not T.package.is_from_package(T)
    with pytest.raises(NotImplementedError, match="nested"):
        T.nested.nested_tensor([T.ones(1), T.ones(2)])
    with pytest.raises(NotImplementedError, match="C\\+\\+"):
        cpp_extension.load("name", ["file.cpp"])
    assert cpp_extension.CUDA_HOME is None and cpp_extension.include_paths() == []


def test_the_report_of_the_machine_names_versions() -> None:
    report = collect_env.get_pretty_env_info()
    assert f"shmtensor version: {T.__version__}" in report
    assert "Is CUDA available: False" in report
    assert collect_env.run("exit 3")[0] == 3
    assert collect_env.run(["no-such-program-at-all"])[0] == 127


def test_single_facts_of_the_machine_come_from_the_given_function() -> None:
    asked = []

    def answer(command: Any) -> tuple[int, str, str]:
        asked.append(command)
        return 0, "gcc (Debian) 12\nGPU 0: A (UUID: 7)", ""

    assert collect_env.get_gcc_version(answer) == "(Debian) 12"
    assert collect_env.get_clang_version(answer) is None
    assert collect_env.get_cpu_info(answer).startswith("gcc")
    assert collect_env.get_gpu_info(answer) == "gcc (Debian) 12\nGPU 0: A"
    assert collect_env.run_and_return_first_line(answer, "x") == "gcc (Debian) 12"
    assert asked == ["gcc --version", "clang --version", "lscpu", "nvidia-smi -L", "x"]

    def fail(command: Any) -> tuple[int, str, str]:
        return 127, "", "not found"

    assert collect_env.get_gpu_info(fail) is None and collect_env.get_gcc_version(fail) is None
    assert collect_env.get_nvidia_driver_version(fail) is None
    assert collect_env.get_cpu_info(fail) == "not found"
    assert collect_env.get_platform() == "linux"
    assert "numpy==" in str(collect_env.get_pip_packages(fail, patterns=["numpy"])[1])


EXPRESSIONS = """
m.futures.Future(devices=['cuda:0'])
(lambda f: (f.set_result(3), f.wait(), f.done()))(m.futures.Future())
m.futures.Future().set_exception(3)
[f.value() for f in m.futures.collect_all([m.jit.fork(abs, -2), m.jit.fork(abs, 3)]).wait()]
m.hub.HASH_REGEX.search('weights-0123abcd.pth').group(1)
m.hub.load('.', 'a', source='elsewhere')
m.utils.cpp_extension.CUDA_HOME
[a.name for a in m.monitor.Aggregation.__members__.values()] if hasattr(m.monitor.Aggregation, '__members__') else 0
"""  # noqa: E501


def test_outcomes_are_torch_s() -> None:
    found = differences(EXPRESSIONS, modules=["futures", "hub", "monitor", "utils.cpp_extension"])
    assert found == []
