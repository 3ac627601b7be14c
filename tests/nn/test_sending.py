"""Modules with hooks and handles in files and messages, and modules that cannot be shared."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import nn, optim
from shmtensor.nn.utils import parametrizations
from shmtensor.optim import swa_utils
from shmtensor.utils.hooks import RemovableHandle

CALLS: list[str] = []


def forward_hook(module: Any, inputs: Any, output: Any) -> Any:
    return output + 1


def note(*_: Any) -> None:
    CALLS.append("called")


def returns_something(*_: Any) -> int:
    return 1


def as_saved(value: Any) -> Any:
    file = io.BytesIO()
    st.save(value, file)
    file.seek(0)
    return st.load(file, weights_only=False)


def as_pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def as_sent(value: Any) -> Any:
    reader, writer = mp.Pipe(duplex=False)
    with reader, writer:
        writer.send(value)
        return reader.recv()


WAYS = [as_saved, as_pickled, as_sent, copy.deepcopy]


@pytest.mark.parametrize("way", WAYS)
def test_a_handle_removes_the_hook_of_the_module_that_came_with_it(way: Any) -> None:
    module: Any = nn.Linear(2, 1)
    module.handle = module.register_forward_hook(forward_hook)
    x = st.ones(1, 2)
    expected = module(x).item()
    other = way(module)
    assert other(x).item() == expected
    other.handle.remove()
    assert other(x).item() == pytest.approx(expected - 1, abs=1e-6)
    assert module(x).item() == expected


@pytest.mark.check
def test_new_hooks_replace_none_that_came_from_elsewhere() -> None:
    module = nn.Linear(2, 1)
    last = module.register_forward_hook(forward_hook).id
    for number in range(last + 1, last + 4):  # as another process numbered them
        module._forward_hooks[number] = forward_hook
    module.register_forward_hook(forward_hook)
    assert len(module._forward_hooks) == 5


def test_a_handle_alone_has_nothing_to_remove() -> None:
    module = nn.Linear(2, 1)
    handle = module.register_forward_hook(forward_hook)
    as_pickled(handle).remove()
    assert len(module._forward_hooks) == 1
    del module
    as_pickled(handle).remove()  # its dictionary is gone


def test_handles_of_files_of_torch() -> None:
    hooks: Any = nn.Linear(1, 1)._forward_hooks
    hooks[3] = note
    for state in ((hooks, 3), (hooks, 3, None), (hooks, 3, ())):
        handle = RemovableHandle.__new__(RemovableHandle)
        handle.__setstate__(state)
        hooks[3] = note
        handle.remove()
        assert not hooks
    handle = RemovableHandle.__new__(RemovableHandle)
    handle.__setstate__((None, 3))
    handle.remove()


@pytest.mark.parametrize("way", WAYS)
def test_spectral_norm_by_hooks(way: Any) -> None:
    module = nn.utils.spectral_norm(nn.Linear(3, 2)).eval()
    x = st.ones(1, 3)
    other = way(module)
    assert other(x).tolist() == module(x).tolist()
    assert list(other.state_dict()) == list(module.state_dict())


def test_parametrized_modules_say_that_they_are_saved_as_state() -> None:
    module = parametrizations.spectral_norm(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(module)


@pytest.mark.parametrize("way", WAYS)
def test_hooks_of_state_dicts(way: Any) -> None:
    module: Any = nn.Linear(2, 1)
    module.handles = [
        module.register_state_dict_pre_hook(note),
        module.register_state_dict_post_hook(note),
        module.register_load_state_dict_pre_hook(note),
        module._register_load_state_dict_pre_hook(note),
        module._register_load_state_dict_pre_hook(note, with_module=True),
        module.register_load_state_dict_post_hook(note),
    ]
    other = way(module)
    CALLS.clear()
    state = other.state_dict()
    assert len(CALLS) == 2
    other.load_state_dict(state)
    assert len(CALLS) == 6
    for handle in other.handles:
        handle.remove()
    CALLS.clear()
    other.load_state_dict(other.state_dict())
    assert CALLS == []


@pytest.mark.parametrize("way", WAYS)
def test_a_hook_of_a_state_dict_returns_nothing_there_too(way: Any) -> None:
    module = nn.Linear(2, 1)
    module.register_state_dict_post_hook(returns_something)
    with pytest.raises(RuntimeError, match="post-hook must return None"):
        way(module).state_dict()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:.*backward hook.*")
def test_handles_of_parameters_hooks(way: Any) -> None:
    module: Any = nn.Linear(2, 1)
    module.handles = [
        module.weight.register_hook(note),
        module.bias.register_post_accumulate_grad_hook(note),
    ]
    other = way(module)
    for handle in other.handles:
        assert isinstance(handle, RemovableHandle)
        handle.remove()
    CALLS.clear()
    other(st.ones(1, 2)).sum().backward()
    assert CALLS == []  # hooks of tensors stay behind
    module(st.ones(1, 2)).sum().backward()
    assert len(CALLS) == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)},
        {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
        {"avg_fn": swa_utils.get_ema_avg_fn(0.5)},
        {"avg_fn": swa_utils.get_swa_avg_fn()},
    ],
)
def test_averages_of_models(way: Any, options: Any) -> None:
    model = nn.Linear(1, 1, bias=False)
    with st.no_grad():
        model.weight.fill_(1.0)
    average = swa_utils.AveragedModel(model, **options)
    average.update_parameters(model)
    other = way(average)
    with st.no_grad():
        model.weight.fill_(3.0)
    other.update_parameters(model)
    assert other.module.weight.item() == 2.0


@pytest.mark.check
def test_hooks_of_optimizers_stay_behind() -> None:
    optimizer = optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    optimizer.register_step_pre_hook(note)
    as_pickled(optimizer).zero_grad()


# --- sharing --------------------------------------------------------------------------------------


def _with_buffer() -> nn.Module:
    module = nn.Module()
    module.register_buffer("mean", nn.UninitializedBuffer())
    return module


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (nn.LazyLinear(3), "weight, bias"),
        (nn.LazyConv2d(3, 2, bias=False), "weight"),
        (
            nn.Sequential(nn.Linear(2, 2), nn.LazyBatchNorm1d()),
            "1.weight, 1.bias, 1.running_mean, 1.running_var",
        ),
        (_with_buffer(), "mean"),
    ],
)
def test_what_has_no_size_cannot_be_shared(module: Any, names: str) -> None:
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized") as caught:
        module.share_memory()
    assert str(caught.value).endswith(f"Uninitialized: {names}")
    sized = [p for p in module.parameters() if not nn.parameter.is_lazy(p)]
    assert not any(p.is_shared() for p in sized)


def test_a_lazy_module_can_be_shared_after_its_first_call() -> None:
    module = nn.LazyLinear(3)
    module(st.ones(1, 2))
    module.share_memory()
    assert all(p.is_shared() for p in module.parameters())


def test_meta_tensors_cannot_be_shared() -> None:
    with pytest.raises(NotImplementedError, match="meta storage"):
        nn.Linear(2, 2, device="meta").share_memory()


def test_all_tensors_of_other_modules_are_shared() -> None:
    sparse = nn.Module()
    sparse.p = nn.Parameter(st.ones(2, 2).to_sparse())
    sparse.share_memory()
    assert sparse.p._values().is_shared() and sparse.p._indices().is_shared()
    for module in (
        parametrizations.spectral_norm(nn.Linear(3, 3)),
        nn.utils.spectral_norm(nn.Linear(3, 3)),
        nn.BatchNorm1d(3, track_running_stats=False),
    ):
        module.share_memory()
        assert all(p.is_shared() for p in module.parameters())
        assert all(b.is_shared() for b in module.buffers())
