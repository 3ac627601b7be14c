"""What a profile records: operators and what they call, backward nodes, ranges, shapes, memory."""

from __future__ import annotations

import re
from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.autograd import profiler as autograd_profiler
from shmtensor.autograd.profiler_util import EventList
from shmtensor.profiler import ProfilerActivity, profile, record_function

CPU = [ProfilerActivity.CPU]


def names(events: EventList) -> list[str]:
    return [event.name for event in events]


def inside(event: Any) -> list[str]:
    return [child.name for child in event.cpu_children]


@pytest.mark.check
def test_operators_in_order_and_what_they_call() -> None:
    layer = nn.Linear(4, 3)
    with profile(activities=CPU) as p:
        st.relu(layer(st.ones(2, 4)))
    events = p.events()
    assert names(events)[:2] == ["aten::ones", "aten::linear"]
    assert names(events)[-1] == "aten::relu"
    linear = next(e for e in events if e.name == "aten::linear")
    assert "aten::addmm" in inside(linear)
    assert linear.cpu_parent is None
    assert linear.cpu_time_total >= sum(c.cpu_time_total for c in linear.cpu_children) > 0
    assert linear.self_cpu_time_total <= linear.cpu_time_total


def test_nothing_is_recorded_outside() -> None:
    with profile(activities=CPU) as p:
        pass
    st.ones(2)
    assert p.events() == []
    assert p.key_averages().table() == ""


def test_ranges_hold_what_runs_inside() -> None:
    with profile(activities=CPU) as p:
        with record_function("outer"):
            with record_function("inner", "3"):
                st.ones(2)
            st.zeros(2)
    outer = p.events()[0]
    assert (outer.name, outer.is_user_annotation, outer.scope) == ("outer", True, 7)
    assert inside(outer) == ["inner(3)", "aten::zeros"]
    assert inside(outer.cpu_children[0]) == ["aten::ones"]


def test_range_decorates_functions_and_is_used_again() -> None:
    @record_function("times two")
    def double(x: st.Tensor, n: int) -> st.Tensor:
        return x * 2 if n == 0 else double(x, n - 1)

    with profile(activities=CPU) as p:
        double(st.ones(1), 1)
    assert names(p.events()) == ["aten::ones", "times two", "aten::mul"]
    with profile(activities=CPU) as p:
        both = record_function("both")
        with both, both:
            st.ones(1)
    assert inside(p.events()[0]) == ["aten::ones"]  # equal names one in another are one


def test_range_ends_when_an_exception_passes() -> None:
    with profile(activities=CPU) as p:
        with pytest.raises(ZeroDivisionError), record_function("fails"):
            1 / 0
        with pytest.raises(RuntimeError):
            st.ones(2) @ st.ones(3)
        st.zeros(1)
    assert p.events()[-1].name == "aten::zeros"
    assert p.events()[-1].cpu_parent is None


def test_backward_nodes_and_their_operators() -> None:
    x = st.ones(3, requires_grad=True)
    y = (x * st.ones(3)).sum()
    with profile(activities=CPU) as p:
        y.backward()
    events = p.events()
    work = next(e for e in events if e.name.endswith("evaluate_function: MulBackward0"))
    node = work.cpu_children[0]
    assert (node.name, node.scope) == ("MulBackward0", 1)
    assert node.sequence_nr >= 0
    assert node.sequence_nr < next(e for e in events if e.name == "SumBackward0").sequence_nr
    assert "torch::autograd::AccumulateGrad" in names(events)


def test_calls_are_linked_with_their_nodes() -> None:
    layer = nn.Linear(3, 2)
    with profile(activities=CPU) as p:
        y = layer(st.ones(1, 3))
        z = y.exp().detach()
        y.sum().backward()
    by_name = {e.name: e for e in p.events()}
    call, node = by_name["aten::addmm"], by_name["AddmmBackward0"]
    assert call.sequence_nr == node.sequence_nr >= 0
    assert by_name["aten::linear"].sequence_nr == call.sequence_nr
    assert node.fwd_thread == call.thread
    assert by_name["aten::ones"].sequence_nr == -1
    assert by_name["torch::autograd::AccumulateGrad"].sequence_nr == -1
    assert z.grad_fn is None


def test_function_written_in_python_appears() -> None:
    class Triple(st.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    x = st.ones(1, requires_grad=True)
    with profile(activities=CPU) as p:
        Triple.apply(x).backward()
    node = next(e for e in p.events() if e.name == "TripleBackward")
    assert "aten::mul" in inside(node)


def test_shapes_types_and_values_of_arguments() -> None:
    with profile(activities=CPU, record_shapes=True) as p:
        st.cat([st.ones(2, 3), st.ones(1, 3)])
        st.ones(4, dtype=st.int64).sum(0, keepdim=True)
        st.add(st.ones(2), 1.5)
    events = p.events()
    cat = next(e for e in events if e.name == "aten::cat")
    assert cat.input_shapes == [[[2, 3], [1, 3]], []]
    assert cat.input_dtypes == ["TensorList", "Scalar"]
    total = next(e for e in events if e.name == "aten::sum")
    assert total.input_shapes[0] == [4]
    assert total.concrete_inputs[1:3] == [[0], True]
    assert total.input_dtypes[0] == "long int"
    add = next(e for e in events if e.name == "aten::add")
    assert add.concrete_inputs[1] == 1.5 or add.input_shapes[1] == []
    with profile(activities=CPU) as p:
        st.ones(2)
    assert p.events()[0].input_shapes == []


def test_memory_is_counted_with_the_events_around() -> None:
    with profile(activities=CPU, profile_memory=True) as p:
        with record_function("keeps"):
            a = st.empty(1000)
        with record_function("keeps nothing"):
            st.empty(1000)
        with record_function("frees"):
            del a
            st.empty(0)
    events = {e.name: e for e in p.events() if e.is_user_annotation}
    assert events["keeps"].cpu_memory_usage == 4000
    assert events["keeps"].self_cpu_memory_usage == 0
    assert events["keeps nothing"].cpu_memory_usage == 0
    assert events["keeps nothing"].self_cpu_memory_usage == -4000
    assert events["frees"].cpu_memory_usage == -4000
    assert "CPU Mem" in p.key_averages().table(sort_by="self_cpu_memory_usage")


@pytest.mark.check
def test_shared_tensors_stay_shared_while_memory_is_counted() -> None:
    with profile(activities=CPU, profile_memory=True):
        a = st.zeros(3, shared=True)
        b = st.zeros(3)
        b.share_memory_()
    assert a.is_shared() and b.is_shared()
    assert st.zeros(3).is_shared() is False


def test_operations_are_counted() -> None:
    conv = nn.Conv2d(3, 4, 3, padding=1, stride=2)
    with profile(activities=CPU, with_flops=True) as p:
        conv(st.ones(2, 3, 8, 8))
        st.ones(2, 3) @ st.ones(3, 4)
        st.bmm(st.ones(2, 3, 4), st.ones(2, 4, 5))
        st.addmm(st.ones(5), st.ones(2, 3), st.ones(3, 5))
        st.ones(2, 3) * st.ones(3)
    flops = {e.name: e.flops for e in p.events() if e.flops}
    assert flops == {
        "aten::conv2d": 6912,
        "aten::mm": 48,
        "aten::bmm": 240,
        "aten::addmm": 60,
        "aten::mul": 6,
    }
    assert all(e.input_shapes == [] for e in p.events())
    assert "Total KFLOPs" in p.key_averages().table()


def calls_from_here() -> None:
    st.ones(2)


def test_stacks_name_the_program() -> None:
    with profile(activities=CPU, with_stack=True) as p:
        calls_from_here()
        calls_from_here()
    first = p.events()[0]
    assert re.fullmatch(r".*test_events\.py\(\d+\): calls_from_here", first.stack[0])
    assert "test_stacks_name_the_program" in first.stack[1]
    grouped = p.key_averages(group_by_stack_n=2)
    assert [e.count for e in grouped] == [1, 1]
    assert "Source Location" in grouped.table()
    assert [e.count for e in p.key_averages(group_by_stack_n=1)] == [2]


@pytest.mark.parametrize("n_before", range(4))
def test_stacks_that_do_not_fit_are_cut_after_a_whole_character(n_before: int) -> None:
    path = "/" + "x" * n_before + "\N{MUSICAL SYMBOL G CLEF}" * 3000  # 4 bytes each
    program: dict[str, Any] = {"ones": st.ones}
    exec(compile("def call():\n    return ones(2)\n", path, "exec"), program)
    with profile(activities=CPU, with_stack=True) as p:
        program["call"]()
    (line,) = p.events()[0].stack
    assert path.startswith(line)
    assert 8192 - 5 <= len(line.encode()) < 8192


def test_autograd_profile() -> None:
    with autograd_profiler.profile(record_shapes=True) as p:
        st.ones(2) + st.ones(2)
    assert names(p.function_events) == ["aten::ones", "aten::ones", "aten::add"]
    assert p.key_averages()[0].count == 2
    assert p.total_average().count == 3
    assert p.self_cpu_time_total > 0
    assert str(p) == p.table()
    with pytest.raises(RuntimeError, match="not reentrant"), p:
        pass
    with autograd_profiler.profile(use_cpu=False) as nothing:
        st.ones(2)
    assert nothing is None
    with autograd_profiler.profile(enabled=False) as nothing:
        st.ones(2)
    assert nothing is None
    unfinished = autograd_profiler.profile()
    with pytest.raises(RuntimeError, match="didn't finish"):
        unfinished.table()


def test_profiles_inside_each_other_see_their_own_time() -> None:
    with profile(activities=CPU) as outer:
        st.ones(1)
        with profile(activities=CPU) as inner:
            st.zeros(1)
        st.empty(1)
    assert names(inner.events()) == ["aten::zeros"]
    assert names(outer.events()) == ["aten::ones", "aten::zeros", "aten::empty"]
    with profile(activities=CPU):
        with pytest.raises(RuntimeError, match="a profile runs already"):
            profile(activities=CPU, record_shapes=True).start()
    with profile(activities=CPU) as after:
        st.ones(1)
    assert len(after.events()) == 1


def test_optimizers_and_loaders_name_their_work() -> None:
    optimizer = st.optim.SGD([st.ones(2, requires_grad=True)], 0.1)
    loader = st.utils.data.DataLoader([1.0, 2.0])
    with profile(activities=CPU) as p:
        optimizer.zero_grad()
        optimizer.step()
        list(loader)
    assert [n for n in names(p.events()) if "#" in n] == [
        "Optimizer.zero_grad#SGD.zero_grad",
        "Optimizer.step#SGD.step",
        *["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] * 3,
    ]


def test_fused_step_is_one_event() -> None:
    w = st.ones(2, requires_grad=True)
    w.grad = st.ones(2)
    optimizer = st.optim.Adam([w])
    with profile(activities=CPU) as p:
        optimizer.step()
    step = p.events()[0]
    assert step.name == "Optimizer.step#Adam.step"
    assert any("adam" in name for name in inside(step))


def test_tools_that_are_not_there_are_accepted() -> None:
    with autograd_profiler.emit_itt() as m:
        st.ones(1)
    with pytest.raises(RuntimeError, match="not reentrant"), m:
        pass
    for marks in (autograd_profiler.emit_nvtx, autograd_profiler.emit_itt):
        with marks(enabled=False) as m:
            assert m is None
    with pytest.raises(AssertionError, match="CUDA"), autograd_profiler.emit_nvtx():
        pass
    with pytest.raises(NotImplementedError, match="no traces of GPUs"):
        autograd_profiler.load_nvprof("x")
    assert st.profiler.itt.is_available() is False
    with pytest.raises(RuntimeError, match="ITT"):
        st.profiler.itt.mark("x")


def test_results_are_the_same_while_profiled() -> None:
    def run() -> list[Any]:
        st.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 1))
        loss = net(st.randn(3, 4)).pow(2).mean()
        loss.backward()
        return [loss.item(), *(p.grad for p in net.parameters())]

    plain = run()
    with profile(activities=CPU, record_shapes=True, profile_memory=True, with_stack=True):
        profiled = run()
    assert plain[0] == profiled[0]
    assert all(a.equal(b) for a, b in zip(plain[1:], profiled[1:], strict=True))


def _key(library: Any, profiler: Any) -> dict[str, tuple[int, Any]]:
    x = library.ones(2, 3, requires_grad=True)
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU], record_shapes=True, with_flops=True
    ) as p:
        y = library.nn.functional.linear(x, library.ones(4, 3))
        library.mm(y, library.ones(4, 2)).relu().sum().backward()
    wanted = ("aten::linear", "aten::mm", "aten::relu", "MmBackward0", "ReluBackward0")
    return {
        e.key: (e.count, e.flops)
        for e in p.key_averages()
        if e.key in wanted and e.key != "aten::mm"
    }


def test_events_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    assert _key(st, st.profiler) == _key(torch, torch.profiler)
