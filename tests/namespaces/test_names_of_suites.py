"""Names that libraries and their tests import: functional modules, error files, parts of groups."""

from __future__ import annotations

import functools
import importlib
import json
import subprocess
import sys
import unittest
from pathlib import Path

import pytest

import shmtensor as T

# --- names for isinstance and for annotations --------------------------------------------------


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"),
        ("distributed.fsdp", "FullyShardedDataParallel"),
        ("distributed.fsdp", "FlatParameter"),
        ("distributed.algorithms.ddp_comm_hooks.powerSGD_hook", "PowerSGDState"),
        ("distributed.optim", "DistributedOptimizer"),
        ("distributed.device_mesh", "DeviceMesh"),
        ("distributed", "Reducer"),
        ("distributed.autograd", "context"),
        ("distributed._tensor", "DTensor"),
        ("utils.data.datapipes.iter.combinatorics", "ShufflerIterDataPipe"),
        ("utils.data.datapipes.iter.combinatorics", "SamplerIterDataPipe"),
    ],
)
def test_classes_of_what_is_missing_have_no_instances(module: str, name: str) -> None:
    kind = getattr(importlib.import_module(f"shmtensor.{module}"), name)
    assert not isinstance(T.nn.Linear(1, 1), kind)
    with pytest.raises(NotImplementedError, match=name):
        kind(T.nn.Linear(1, 1))


def test_functions_of_what_is_missing_refuse() -> None:
    autograd = importlib.import_module("shmtensor.distributed.autograd")
    for function in (
        autograd.backward,
        importlib.import_module("shmtensor.distributed.checkpoint.state_dict_loader").load,
        importlib.import_module("shmtensor.distributed.checkpoint.state_dict_saver").save,
        importlib.import_module("shmtensor.distributed._tensor.experimental").implicit_replication,
    ):
        with pytest.raises(NotImplementedError):
            function(T.nn.Linear(1, 1))
    assert not autograd.is_available()


def test_logs_of_compiling_are_asked_for_by_torchs_names() -> None:
    logging = importlib.import_module("shmtensor._logging")
    logging.set_logs(recompiles_verbose=True, dynamo=10, modules={"a": 10})
    logging.set_logs()
    with pytest.raises(TypeError, match="unexpected keyword argument 'recompile'"):
        logging.set_logs(recompile=True)


def test_choices_are_names_with_torchs_numbers() -> None:
    fsdp = importlib.import_module("shmtensor.distributed.fsdp")
    assert [fsdp.ShardingStrategy(n).name for n in range(1, 5)] == [
        "FULL_SHARD",
        "SHARD_GRAD_OP",
        "NO_SHARD",
        "HYBRID_SHARD",
    ]
    assert fsdp.StateDictType.FULL_STATE_DICT.value == 1
    assert fsdp.BackwardPrefetch["BACKWARD_PRE"].value == 1


def test_settings_of_modules_in_parts_can_be_made() -> None:
    fsdp = importlib.import_module("shmtensor.distributed.fsdp")
    assert not fsdp.CPUOffload().offload_params and fsdp.CPUOffload(offload_params=True) == (
        fsdp.CPUOffload(True)
    )
    assert fsdp.MixedPrecision(T.float16).param_dtype is T.float16
    assert fsdp.MixedPrecision().cast_root_forward_inputs
    with pytest.raises(TypeError, match="wrong"):
        fsdp.MixedPrecision(wrong=1)
    assert not fsdp.FullStateDictConfig().offload_to_cpu
    assert fsdp.FullOptimStateDictConfig(rank0_only=True) == fsdp.FullOptimStateDictConfig(
        offload_to_cpu=True, rank0_only=True
    )
    assert not fsdp.LocalOptimStateDictConfig().offload_to_cpu
    assert isinstance(fsdp.CPUOffloadPolicy(), fsdp.OffloadPolicy)
    assert hash(fsdp.MixedPrecisionPolicy(T.bfloat16)) == hash(
        fsdp.MixedPrecisionPolicy(param_dtype=T.bfloat16)
    )


def test_policies_say_which_modules_would_be_in_parts() -> None:
    wrap = importlib.import_module("shmtensor.distributed.fsdp.wrap")
    linear, many, attention = T.nn.Linear(1, 1), T.nn.ModuleList(), T.nn.MultiheadAttention(2, 1)
    assert wrap.always_wrap_policy(linear, recurse=False)
    by_class = wrap.ModuleWrapPolicy([T.nn.Linear])
    assert by_class(linear, False, 0) and by_class(many, True) and not by_class(many, False, 0)
    assert "Linear" in repr(by_class)
    assert not wrap.transformer_auto_wrap_policy(many, False, 5, {T.nn.Linear})
    assert wrap.lambda_auto_wrap_policy(linear, False, 5, lambda module: module is linear)
    assert not wrap.lambda_auto_wrap_policy(many, False, 5, lambda module: module is linear)
    by_size = wrap.size_based_auto_wrap_policy
    for module, recurse, numel, right in (
        (linear, False, 10, True),
        (linear, False, 9, False),
        (linear, True, 9, False),
        (many, True, 10, True),
        (many, False, 10, False),
        (attention, True, 10, False),
        (attention, False, 10, True),
    ):
        assert by_size(module, recurse, numel, min_num_params=10) is right
    assert by_size(many, False, 10, 10, exclude_wrap_modules=set())
    assert not by_size(linear, True, 10, 10, force_leaf_modules={T.nn.Linear})
    assert not by_size(linear, False, 99_999_999)


class _Around(T.nn.Module):
    def __init__(self, inside: T.nn.Module, **settings: object) -> None:
        super().__init__()
        self.inside, self.settings = inside, settings


def test_a_class_is_put_around_modules_within_a_context() -> None:
    wrap = importlib.import_module("shmtensor.distributed.fsdp.wrap")
    linear = T.nn.Linear(1, 1)
    assert wrap.wrap(linear) is linear
    with wrap.enable_wrap(wrapper_cls=_Around, a=1, b=2):
        around = wrap.wrap(linear, b=3, c=4)
        assert around.inside is linear and around.settings == {"a": 1, "b": 3, "c": 4}
        with pytest.raises(NotImplementedError, match="already within an autowrap context"):
            with wrap.enable_wrap(wrapper_cls=_Around):
                pass
    assert wrap.wrap(linear) is linear
    linear._wrap_overrides = {"a": 5}
    with wrap.enable_wrap(wrapper_cls=_Around, a=1):
        assert wrap.wrap(linear, b=2).settings == {"a": 5, "b": 2}


def test_a_class_is_put_around_the_parts_that_a_policy_chooses() -> None:
    wrap = importlib.import_module("shmtensor.distributed.fsdp.wrap")

    def net() -> T.nn.Sequential:
        return T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Sequential(T.nn.Linear(3, 3), T.nn.ReLU()))

    by_class = wrap.ModuleWrapPolicy([T.nn.Linear])
    model, n = wrap._recursive_wrap(net(), by_class, _Around, set(), set(), a=1)
    assert n == 6 + 12 and type(model[0]) is type(model[1][0]) is _Around
    assert model[0].settings == {"a": 1} and type(model[1][1]) is T.nn.ReLU
    with pytest.raises(AssertionError, match="already wrapped"):
        wrap._recursive_wrap(model, by_class, _Around, set(), set())

    # By size: the outer module has 6 elements of its own left, fewer than a part needs.
    by_size = functools.partial(wrap.size_based_auto_wrap_policy, min_num_params=12)
    model, n = wrap._recursive_wrap(net(), by_size, _Around, set(), set())
    assert n == 12 and type(model[0]) is T.nn.Linear and type(model[1][0]) is _Around

    model = net()
    ignored = model[1]
    same, n = wrap._recursive_wrap(
        model, wrap.always_wrap_policy, _Around, {ignored}, set(ignored.parameters()), True
    )
    assert same is model and n == 6 and model[1] is ignored and type(model[0]) is _Around
    outer, n = wrap._recursive_wrap(net(), wrap.always_wrap_policy, lambda m: m, set(), set())
    assert type(outer) is T.nn.Sequential and n == 18


def test_a_profile_without_a_schedule_records_each_step() -> None:
    profiler = T.profiler.profiler
    assert profiler._default_schedule_fn(3) is profiler.ProfilerAction.RECORD
    assert T.profiler.profile().schedule is profiler._default_schedule_fn


@pytest.mark.check
def test_small_names() -> None:
    assert T.distributed.device_mesh.init_device_mesh is T.distributed.init_device_mesh
    assert T.distributed.Backend.default_device_backend_map["cpu"] == "gloo"
    assert isinstance(T.jagged, T.layout) and str(T.jagged) == "torch.jagged"
    assert T.jagged != T.strided and T.ones(1).layout is T.strided
    assert isinstance(T.ones(1).untyped_storage(), T.StorageBase)
    assert not isinstance(T.ones(1).storage(), T.StorageBase)
    assert T._C._LinAlgError is T.linalg.LinAlgError
    assert T._guards.active_fake_mode() is None
    assert T.legacy_contiguous_format is T.contiguous_format
    capturable = importlib.import_module("shmtensor.optim.optimizer")
    assert "xla" in capturable._get_capturable_supported_devices()
    assert "xla" not in capturable._get_capturable_supported_devices(supports_xla=False)
    assert T._guards.detect_fake_mode([T.ones(1)]) is None
    from shmtensor.utils.data.dataloader import _collate_fn_t

    assert _collate_fn_t.__args__[-1] is not None


def test_segments_are_reduced_under_the_private_name() -> None:
    data = T.tensor([1.0, 2, 3, 4])
    assert T._segment_reduce(data, "sum", lengths=T.tensor([1, 3])).tolist() == [1.0, 9.0]
    assert T._segment_reduce(data, "max", offsets=T.tensor([0, 1, 4])).tolist() == [1.0, 4.0]


def test_operators_that_take_functions_are_a_base_class() -> None:
    base = importlib.import_module("shmtensor._ops").HigherOrderOperator
    with pytest.raises(RuntimeError, match="Please subclass"):
        base("twice")

    class Twice(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("twice")

    assert Twice().name() == "twice" and str(Twice()) == "twice"
    with pytest.raises(NotImplementedError, match="twice"):
        Twice()(len, 1)


#: Modules that ``import torch`` brings, so programs use them as attributes without importing them.
_BROUGHT = """
    _custom_ops _functorch.autograd_function _functorch.batch_norm_replacement
    _functorch.functional_call _prims_common _subclasses.functional_tensor distributed.algorithms
    distributed.algorithms.join distributed.autograd distributed.constants
    distributed.device_mesh distributed.distributed_c10d distributed.rpc
    distributed.checkpoint distributed.fsdp distributed.nn distributed.optim distributed.tensor
    distributed.utils fx.experimental fx.experimental.proxy_tensor fx.passes nn.common_types
    nn.utils.rnn testing._internal utils.data._utils.collate utils.data._utils.pin_memory
    utils.data.datapipes utils.data.datapipes.iter utils.data.datapipes.iter.combinatorics
    utils.data.distributed
"""


@pytest.mark.parametrize("first", ["import shmtensor", "import shmtensor.as_torch, torch"])
def test_submodules_are_attributes_before_anybody_imports_them(first: str) -> None:
    text = f"""
{first}
from operator import attrgetter
from types import ModuleType
import sys
package = sys.modules["torch" if "torch" in sys.modules else "shmtensor"]
for name in '''{_BROUGHT}'''.split():
    module = attrgetter(name)(package)
    assert isinstance(module, ModuleType), name
    assert dir(module) and module.__doc__, name  # its code has run
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- functional modules -----------------------------------------------------------------------

functional = importlib.import_module("shmtensor._functorch.make_functional")


def test_modules_as_functions_of_their_parameters() -> None:
    net = T.nn.Sequential(T.nn.Linear(2, 3), T.nn.Tanh(), T.nn.Linear(3, 1))
    call, params = functional.make_functional(net)
    x = T.ones(4, 2)
    assert T.equal(call(params, x), net(x))
    assert call.param_names == ("0.weight", "0.bias", "2.weight", "2.bias")
    assert params[0] is not net[0].weight and params[0].requires_grad
    assert all(p.is_meta for p in call.parameters())
    grads = T.func.grad(lambda p: call(p, x).sum())(tuple(p.detach() for p in params))
    net(x).sum().backward()
    for mine, parameter in zip(grads, net.parameters(), strict=True):
        T.testing.assert_close(mine, parameter.grad)
    _, params = functional.make_functional(net, disable_autograd_tracking=True)
    assert not any(p.requires_grad for p in params) and net[0].weight.requires_grad


def test_tied_parameters_are_one() -> None:
    net = T.nn.Sequential(T.nn.Linear(2, 2, bias=False), T.nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    call, params = functional.make_functional(net)
    assert len(params) == 1
    assert call.names_map == {"0.weight": ["0.weight", "1.weight"]}
    assert call((T.eye(2) * 3,), T.ones(1, 2)).tolist() == [[9.0, 9.0]]


def test_buffers_are_given_and_written() -> None:
    net = T.nn.BatchNorm1d(2)
    with pytest.raises(RuntimeError, match="make_functional_with_buffers"):
        functional.make_functional(net)
    call, params, buffers = functional.make_functional_with_buffers(net)
    assert call.buffer_names == ("running_mean", "running_var", "num_batches_tracked")
    call(params, buffers, T.tensor([[1.0, 2.0], [3.0, 4.0]]))
    T.testing.assert_close(buffers[0], T.tensor([0.2, 0.3]))
    assert net.running_mean.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="expected 5 tensors"):
        call(params, buffers[:1], T.ones(2, 2))


def test_ensembles_are_stacked() -> None:
    nets = [T.nn.Linear(2, 1) for _ in range(3)]
    call, params, buffers = functional.combine_state_for_ensemble(nets)
    x = T.ones(4, 2)
    got = T.func.vmap(call, in_dims=(0, 0, None))(params, buffers, x)
    T.testing.assert_close(got, T.stack([net(x) for net in nets]))
    with pytest.raises(RuntimeError, match="at least one model"):
        functional.combine_state_for_ensemble([])
    with pytest.raises(RuntimeError, match="same class"):
        functional.combine_state_for_ensemble([nets[0], T.nn.ReLU()])
    with pytest.raises(RuntimeError, match="training/eval"):
        functional.combine_state_for_ensemble([nets[0], T.nn.Linear(2, 1).eval()])


# --- error files of workers -------------------------------------------------------------------

errors = importlib.import_module("shmtensor.distributed.elastic.multiprocessing.errors")


def test_a_recorded_error_is_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    @errors.record
    def main(number: int) -> int:
        if number == 0:
            raise ValueError("no zeros")
        if number < 0:
            raise SystemExit(-number)
        return number

    assert main(5) == 5 and main.__name__ == "main" and not path.exists()
    with pytest.raises(SystemExit):
        main(-3)
    assert not path.exists()
    with pytest.raises(ValueError, match="no zeros"):
        main(0)
    message = json.loads(path.read_text())["message"]
    assert message["message"] == "ValueError: no zeros"
    assert "in main" in message["extraInfo"]["py_callstack"]
    assert message["extraInfo"]["timestamp"].isdigit()
    failure = errors.ProcessFailure(local_rank=1, pid=7, exitcode=1, error_file=str(path))
    assert failure.message == message
    assert failure.timestamp == int(message["extraInfo"]["timestamp"])


def test_without_a_file_the_error_is_only_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    with pytest.raises(ZeroDivisionError):
        errors.record(lambda: 1 // 0)()


def test_a_worker_s_own_error_is_raised_whatever_becomes_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fails(error: BaseException) -> None:
        raise error

    with pytest.raises(Silent):
        errors.record(fails)(Silent())
    assert json.loads(path.read_text())["message"]["message"] == ("Silent: <no text: RuntimeError>")
    theirs = tmp_path / "theirs.json"
    theirs.write_text(path.read_text())
    failure = errors.ProcessFailure(local_rank=0, pid=1, exitcode=1, error_file=str(theirs))
    for text in ("{half of", None):
        if text is None:
            theirs.unlink()
        else:
            theirs.write_text(text)
        with pytest.raises(errors.ChildFailedError):
            errors.record(fails)(errors.ChildFailedError("train", {0: failure}))


def test_a_worker_that_exits_with_0_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    assert errors.record(lambda: sys.exit(0))() is None
    for code in (None, 1, "text"):
        with pytest.raises(SystemExit) as caught:
            errors.record(lambda code=code: sys.exit(code))()
        assert caught.value.code == code
    assert not path.exists()


def test_the_first_failure_of_workers_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, own = tmp_path / "theirs.json", tmp_path / "own.json"
    theirs.write_text(
        json.dumps(
            {"message": {"message": "E: x", "extraInfo": {"py_callstack": "t", "timestamp": "12"}}}
        )
    )
    first = errors.ProcessFailure(local_rank=0, pid=1, exitcode=1, error_file=str(theirs))
    other = errors.ProcessFailure(local_rank=1, pid=2, exitcode=-9, error_file="<none>")
    assert (other.signal_name(), other.error_file) == ("SIGKILL", "<N/A>")
    assert other.message == "Signal 9 (SIGKILL) received by PID 2"
    error = errors.ChildFailedError("train", {1: other, 0: first})
    assert error.get_first_failure() == (0, first)
    assert "train FAILED" in str(error) and "SIGKILL" in str(error)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(own))

    def main() -> None:
        raise error

    with pytest.raises(errors.ChildFailedError):
        errors.record(main)()
    message = json.loads(own.read_text())["message"]
    assert (message["message"], message["errorCode"]) == ("E: x", 1)


# --- helpers ----------------------------------------------------------------------------------


def test_helpers_of_wrappers(capsys: pytest.CaptureFixture[str]) -> None:
    utils = importlib.import_module("shmtensor.distributed.utils")
    state = {"module.a": 1, "b": 2}
    utils._replace_by_prefix(state, "module.", "")
    assert state == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match="distinct"):
        utils._replace_by_prefix(state, "a", "a")
    got = utils._apply_to_tensors(lambda t: t + 1, {"a": [T.zeros(1)], "b": (2, T.ones(1))})
    assert got["a"][0].item() == 1.0 and got["b"][0] == 2 and got["b"][1].item() == 2.0
    utils._p_assert(True, "not printed")
    with pytest.raises(AssertionError, match="printed"):
        utils._p_assert(False, "printed")
    assert capsys.readouterr().out == "printed\n"


def test_cases_compare_tensors() -> None:
    common = importlib.import_module("shmtensor.testing._internal.common_utils")

    class Case(common.TestCase):  # type: ignore[misc]
        def test_equal(self) -> None:
            same = self.assertEqual
            same(T.ones(2), T.ones(2) + 1e-8)
            same({"a": [T.ones(1)]}, {"a": [T.ones(1)]})
            same("a", "a")
            state = {"name": "adam", "dtype": T.bfloat16, "rates": {0.5}, "on": True, "none": None}
            same({"t": T.ones(1), "groups": [state]}, {"t": T.ones(1), "groups": [dict(state)]})

        def test_unequal(self) -> None:
            same = self.assertEqual
            same(T.ones(2), T.zeros(2))

        def test_unequal_beside_a_tensor(self) -> None:
            same = self.assertEqual
            same([T.ones(2), "adam"], [T.ones(2), "sgd"])

        def test_unequal_dtypes_beside_a_tensor(self) -> None:
            same = self.assertEqual
            same([T.ones(2), T.float16], [T.ones(2), T.float32])

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert (result.testsRun, len(result.failures), len(result.errors)) == (4, 3, 0)
    assert "adam != sgd" in str(result.failures)
    with common.freeze_rng_state():
        first = T.rand(1)
    assert T.equal(first, T.rand(1))
