"""`DistributedDataParallel`, against one process with the whole batch."""

from __future__ import annotations

import copy
import importlib
import pickle
import subprocess
import sys
import weakref
from typing import Any

import pytest
from ranks import run

import shmtensor as T
from shmtensor import distributed as dist
from shmtensor import nn
from shmtensor.nn.parallel import DistributedDataParallel
from shmtensor.nn.parallel.distributed import _find_tensors
from shmtensor.utils.checkpoint import checkpoint
from shmtensor.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    """Two branches, of which one can be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 8)
        self.b = nn.Linear(6, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Any, both: bool = True) -> Any:
        """Call the branches."""
        h = self.a(x)
        return self.out(T.tanh(h + self.b(x) if both else h))


def _batch(size: int) -> Any:
    return T.randn(4 * size, 6, generator=T.Generator().manual_seed(7))


def _loss(model: Any, x: Any, both: bool = True) -> Any:
    return model(x, both).square().mean()


def _whole(state: Any, size: int, steps: int) -> list[Any]:
    """What one process has after training with the whole batches."""
    model = Net()
    model.load_state_dict(state)
    optimizer = T.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        _loss(model, _batch(size)).backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def _trains(rank: int, size: int, bucket: float) -> list[bytes]:
    T.manual_seed(rank)  # rank 0's parameters count
    model = DistributedDataParallel(Net(), bucket_cap_mb=bucket)
    state = {k.removeprefix("module."): v.clone() for k, v in model.state_dict().items()}
    assert all(name.startswith("module.") for name in model.state_dict())
    assert len(model.reducer.buckets) == (1 if bucket > 1 else 6)
    optimizer = T.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        _loss(model, _batch(size)[4 * rank : 4 * rank + 4]).backward()
        optimizer.step()
    for p, q in zip(model.parameters(), _whole(state, size, 5), strict=True):
        T.testing.assert_close(p.detach(), q, rtol=1e-5, atol=1e-6)
    return [p.detach().numpy().tobytes() for p in model.parameters()]


@pytest.mark.check
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("bucket", [25, 1e-6])
def test_training_equals_one_process(size: int, bucket: float) -> None:
    first, *others = run(size, _trains, bucket)
    assert all(other == first for other in others)


def _no_sync(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net())
    x = _batch(size)[4 * rank : 4 * rank + 4]
    with model.no_sync():
        _loss(model, x).backward()
    local = model.module.a.weight.grad.clone()
    every = [T.empty_like(local) for _ in range(size)]
    dist.all_gather(every, local)
    assert not T.equal(every[0], every[1])
    _loss(model, x).backward()  # adds, and reduces the sum
    expected = sum(every) / size * 2
    T.testing.assert_close(model.module.a.weight.grad, expected)


def test_gradients_add_up_without_sync() -> None:
    run(2, _no_sync)


def _unused(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net(), find_unused_parameters=True)
    _loss(model, _batch(size)[:4], both=False).backward()
    assert model.module.b.weight.grad is None  # used nowhere
    _loss(model, _batch(size)[:4], both=rank == 1).backward()
    grad = model.module.b.weight.grad
    assert grad is not None and grad.abs().sum() > 0
    every = [T.empty_like(grad) for _ in range(size)]
    dist.all_gather(every, grad)
    assert T.equal(every[0], every[1])


def test_parameters_without_gradients() -> None:
    run(2, _unused)


def _unfinished(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net())
    _loss(model, _batch(size), both=False).backward()
    with pytest.raises(RuntimeError, match=r"finished reduction.*2 parameters had no gradient"):
        model(_batch(size))


def test_an_unfinished_reduction_is_reported() -> None:
    run(2, _unfinished)


def _buffers(rank: int, size: int) -> None:
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)))
    for _ in range(2):
        model(_batch(size)[4 * rank : 4 * rank + 4]).sum().backward()
    with T.no_grad():
        model(_batch(size)[:4])  # takes rank 0's buffers, then all do the same
    mean = model.module[1].running_mean  # type: ignore[index]
    every = [T.empty_like(mean) for _ in range(size)]
    dist.all_gather(every, mean)
    assert T.equal(every[0], every[1])


def test_buffers_are_those_of_rank_0() -> None:
    run(2, _buffers)


class _Buffers(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(T.ones(1))
        for i in range(n):
            self.register_buffer(f"b{i}", T.zeros(1))


_DIFFERENT = {
    "shape": lambda own: nn.Linear(2 + own, 2),
    "dtype": lambda own: nn.Linear(2, 2, dtype=T.float64 if own else T.float32),
    "number": lambda own: nn.Linear(2, 2, bias=not own),
    "gradient": lambda own: nn.Linear(2, 2).requires_grad_(not own),
    "none": lambda own: nn.ReLU() if own else nn.Linear(2, 2),
    "buffers": lambda own: _Buffers(1 + own),
}


def _differs(rank: int, size: int) -> dict[str, str]:
    answers = {}
    for name, make in _DIFFERENT.items():
        try:
            DistributedDataParallel(make(rank == size - 1))
        except RuntimeError as error:
            answers[name] = str(error).removeprefix("DDP expects same model across all ranks")
    return answers


@pytest.mark.check
@pytest.mark.parametrize("size", [2, 3])
def test_modules_that_differ_raise_on_all_ranks_alike(size: int) -> None:
    answers = run(size, _differs)
    assert all(answer == answers[0] for answer in answers)
    last = size - 1
    alike = "shape (2, 2), dtype torch.float32 and requires_grad=True on rank 0, shape"
    assert answers[0] == {
        "shape": f": the param weight has {alike} (2, 3), dtype torch.float32 and "
        f"requires_grad=True on rank {last}",
        "dtype": f": the param weight has {alike} (2, 2), dtype torch.float64 and "
        f"requires_grad=True on rank {last}",
        "number": f", but Rank {last} has 1 params, while rank 0 has inconsistent 2 params.",
        "gradient": f": the param weight has {alike} (2, 2), dtype torch.float32 and "
        f"requires_grad=False on rank {last}",
        "none": f", but Rank {last} has 0 params, while rank 0 has inconsistent 2 params.",
        "buffers": f", but Rank {last} has 2 buffers, while rank 0 has inconsistent 1 buffers.",
    }


def _gradients(model: Any) -> list[Any]:
    return [p.grad.clone() for p in model.parameters()]


def _alone(rank: int, size: int) -> None:
    module = Net()
    model = DistributedDataParallel(module)
    reducer = weakref.ref(model.reducer)
    if rank == 0:  # nobody else takes part
        _loss(model.module, _batch(size)).backward()
        assert all(p.grad is not None for p in module.parameters())
    dist.barrier()
    module.zero_grad()
    _loss(model, _batch(size)[rank : rank + 1]).backward()
    every = [T.empty_like(module.a.weight) for _ in range(size)]
    dist.all_gather(every, module.a.weight.grad)
    assert T.equal(every[0], every[1])
    del model
    assert reducer() is None
    assert not any(p._post_accumulate_grad_hooks for p in module.parameters())
    if rank == 0:
        _loss(module, _batch(size)).backward()


def test_the_module_trains_by_itself_beside_and_after() -> None:
    run(2, _alone)


def _copies(rank: int, size: int) -> None:
    T.manual_seed(rank)
    group = dist.new_group([0, 1])
    x = _batch(size)[4 * rank : 4 * rank + 4]
    for chosen in (None, group):
        model = DistributedDataParallel(Net(), process_group=chosen, bucket_cap_mb=0.0001)
        _loss(model, x).backward()
        expected = _gradients(model)
        copies = [copy.deepcopy(model), T.optim.swa_utils.AveragedModel(model).module]
        if chosen is None:
            copies.append(pickle.loads(pickle.dumps(model)))
        else:
            assert copies[0].process_group is group
            with pytest.raises(
                RuntimeError, match="only supported when using DDP with the default"
            ):
                pickle.dumps(model)
        for twin in copies:
            assert len(twin.reducer.buckets) == len(model.reducer.buckets) == 6
            twin.zero_grad()
            _loss(twin, x).backward()
            for grad, own in zip(expected, _gradients(twin), strict=True):
                T.testing.assert_close(own, grad)
        for p, grad in zip(model.parameters(), expected, strict=True):
            assert T.equal(p.grad, grad)


def test_copies_reduce_their_own_gradients() -> None:
    run(2, _copies)


def _sync_is_of_the_forward(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net())
    x = _batch(size)[4 * rank : 4 * rank + 4]
    outside = _loss(model, x)
    with model.no_sync():
        outside.backward()
    reduced = _gradients(model)
    every = [T.empty_like(reduced[0]) for _ in range(size)]
    dist.all_gather(every, reduced[0])
    assert T.equal(every[0], every[1])
    model.zero_grad()
    with model.no_sync():
        inside = _loss(model, x)
    inside.backward()
    dist.all_gather(every, model.module.a.weight.grad)
    assert not T.equal(every[0], every[1])


def test_whether_gradients_are_reduced_is_said_at_the_forward() -> None:
    run(2, _sync_is_of_the_forward)


def _static(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net(), static_graph=True)
    x = _batch(size)[4 * rank : 4 * rank + 4]
    for _ in range(3):
        model.zero_grad()
        _loss(model, x, both=False).backward()
        assert model.module.b.weight.grad is None
        grad = model.module.a.weight.grad
        every = [T.empty_like(grad) for _ in range(size)]
        dist.all_gather(every, grad)
        assert T.equal(every[0], every[1])


def test_a_static_graph_may_leave_parameters_out() -> None:
    run(2, _static)


class _Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        once = checkpoint(self.part, x, use_reentrant=True)
        return checkpoint(self.part, once, use_reentrant=True)


def _ready_twice(rank: int, size: int) -> None:
    x = T.ones(1, 2, requires_grad=True)
    for bucket in (None, 0.000001):
        model = DistributedDataParallel(_Twice(), bucket_cap_mb=bucket)
        with pytest.raises(RuntimeError, match=r"only once.*has got another gradient"):
            model(x).sum().backward()
    model = DistributedDataParallel(_Twice(), find_unused_parameters=True)
    with pytest.raises(RuntimeError, match=r"only once.*though the outputs did not use it"):
        model(x).sum().backward()
    model = DistributedDataParallel(Net())
    loss = _loss(model, _batch(1), both=False)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="has got another gradient"):
        loss.backward()


def test_a_second_gradient_of_one_parameter_is_refused() -> None:
    run(1, _ready_twice)


def _prepares(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net(), find_unused_parameters=True)
    x = _batch(size)[4 * rank : 4 * rank + 4]
    with model.no_sync():
        output = model.module(x)
        model.reducer.prepare_for_backward(_find_tensors({"y": output}))
    output.square().mean().backward()
    grad = model.module.a.weight.grad
    every = [T.empty_like(grad) for _ in range(size)]
    dist.all_gather(every, grad)
    assert T.equal(every[0], every[1])


def test_a_backward_prepared_by_hand() -> None:
    run(2, _prepares)


def _tells(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net(), bucket_cap_mb=1, find_unused_parameters=True)
    facts = model._get_ddp_logging_data()
    assert (facts["rank"], facts["world_size"], facts["backend_name"]) == (rank, size, "shm")
    assert facts["module_name"] == "Net" and facts["find_unused_parameters"] == 1
    n_bytes = sum(4 * p.numel() for p in model.parameters())
    assert facts["bucket_sizes"] == str(facts["total_parameter_size_bytes"]) == str(n_bytes)
    assert facts["bucket_cap_bytes"] == 1 << 20 and facts["iteration"] == 0
    for _ in range(2):
        assert model.reducer._rebuild_buckets() is False
        model(_batch(1)).sum().backward()
    assert model._get_ddp_logging_data()["iteration"] == 2
    assert all(isinstance(value, int | str) for value in facts.values())


def test_facts_of_a_model() -> None:
    run(2, _tells)


def _sends_states(rank: int, size: int) -> None:
    module = T.nn.BatchNorm1d(2)
    for value in (*module.parameters(), module.running_mean, module.running_var):
        T.nn.init.constant_(value, rank + 1)
    group = dist.distributed_c10d._get_default_group()
    utils = importlib.import_module("shmtensor.distributed.utils")
    utils._sync_module_states(module, group, 1 << 20, 1, {"bias"}, broadcast_buffers=False)
    assert (module.weight[0].item(), module.bias[0].item()) == (2, rank + 1)
    assert module.running_mean[0].item() == rank + 1
    utils._sync_module_states(module, group, 1 << 20, 0, {"running_var"})
    assert (module.bias[0].item(), module.running_mean[0].item()) == (1, 1)
    assert module.running_var[0].item() == rank + 1


def test_states_of_one_rank_are_sent_to_all() -> None:
    run(2, _sends_states)


def _hook(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net())
    seen = []

    def hook(state: list[int], bucket: Any) -> Any:
        state.append(bucket.index())
        assert bucket.is_last() and len(bucket.gradients()) == len(bucket.parameters()) == 6
        work = dist.all_reduce(bucket.buffer(), dist.ReduceOp.AVG, async_op=True)
        assert work is not None
        return work.get_future()

    model.register_comm_hook(seen, hook)
    with pytest.raises(RuntimeError, match="only be called once"):
        model.register_comm_hook(seen, hook)
    x = _batch(size)[4 * rank : 4 * rank + 4]
    _loss(model, x).backward()
    plain = DistributedDataParallel(Net(), init_sync=False)
    plain.load_state_dict(model.state_dict())
    _loss(plain, x).backward()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        T.testing.assert_close(p.grad, q.grad)
    assert seen == [0]


def test_a_hook_reduces() -> None:
    run(2, _hook)


def _refusals(rank: int, size: int) -> None:
    with pytest.raises(RuntimeError, match="not needed when a module doesn't have any parameter"):
        DistributedDataParallel(nn.ReLU())
    with pytest.raises(ValueError, match="devices"):
        DistributedDataParallel(Net(), device_ids=[0])
    for name in (
        "delay_all_reduce_named_params",
        "param_to_hook_all_reduce",
        "mixed_precision",
        "device_mesh",
        "skip_all_reduce_unused_params",
        "bucket_cap_mb_list",
        "forward_sync_buffers",
    ):
        with pytest.raises(NotImplementedError, match=f"{name} is not offered, got 5"):
            DistributedDataParallel(Net(), **{name: 5})
        DistributedDataParallel(Net(), **{name: None})
    for value in (None, False, 5):
        with pytest.raises(TypeError, match="unexpected keyword argument 'bucket_size'"):
            DistributedDataParallel(Net(), bucket_size=value)
    model = DistributedDataParallel(nn.Linear(2, 2))
    weight = model.module.weight
    weight.register_hook(lambda grad: grad.to_sparse())
    with pytest.raises(RuntimeError, match="not the weight of an Embedding"):
        model(T.ones(1, 2)).sum().backward()


def test_what_is_refused() -> None:
    run(1, _refusals)
    with pytest.raises(ValueError, match="init_process_group"):
        DistributedDataParallel(Net())


def _sampler(rank: int, size: int) -> list[int]:
    return list(DistributedSampler(range(11), shuffle=False))


def test_a_sampler_asks_the_group() -> None:
    assert run(2, _sampler) == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 0]]


# nn stands below distributed, which gives itself to it when it is loaded.
_WITHOUT_GROUP = """
import sys
from shmtensor import nn
from shmtensor.nn.parallel import DistributedDataParallel
from shmtensor.utils.data.distributed import DistributedSampler


def refused():
    for make in (lambda: DistributedDataParallel(nn.Linear(1, 1)), lambda: DistributedSampler([1])):
        try:
            make()
        except ValueError as error:
            assert str(error).startswith("Default process group has not been initialized"), error
        else:
            raise AssertionError("made without a group")


assert "shmtensor.distributed" not in sys.modules
refused()
import shmtensor.distributed
refused()
"""


def test_without_a_group_it_is_refused_whether_distributed_is_loaded_or_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_GROUP], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
