"""Namespaces of devices that are not here: silent questions, idle seeds, torch's errors."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import pytest
from same_as_torch import differences

import shmtensor as T

EXPRESSIONS = """
(m.cuda.is_available(), m.cuda.device_count(), m.cuda.is_initialized(), m.cuda.is_bf16_supported())
(m.cuda.get_arch_list(), m.cuda.get_gencode_flags(), m.cuda.default_generators, m.cuda.has_magma)
m.cuda.manual_seed(3)
m.cuda.manual_seed_all(3)
m.cuda.manual_seed('x')
m.cuda.seed_all()
m.cuda.get_rng_state_all()
m.cuda.set_rng_state_all([])
m.cuda.get_rng_state()
m.cuda.initial_seed()
m.cuda.init()
m.cuda.current_device()
m.cuda.synchronize()
m.cuda.get_device_name(0)
m.cuda.get_device_properties(0)
m.cuda.get_device_capability()
m.cuda.current_stream()
m.cuda.mem_get_info()
m.cuda.set_device(-1)
m.cuda.set_device('cpu')
m.cuda.set_device('cuda')
m.cuda.set_stream(None)
m.cuda.Stream()
m.cuda.Event()
m.cuda.CUDAGraph()
m.cuda.is_current_stream_capturing()
m.cuda.FloatTensor(3)
m.cuda.FloatTensor
m.cuda.FloatTensor.dtype
m.cuda.FloatStorage()
isinstance(m.ones(1), m.cuda.FloatTensor)
m.cuda.empty_cache()
(m.cuda.memory_allocated(), m.cuda.max_memory_allocated(), m.cuda.memory_reserved(), m.cuda.memory_stats())
m.cuda._lazy_init()
m.cuda._lazy_call(print)
m.cuda.device(0).__enter__()
m.cuda.device(-1).__enter__()
m.cuda.device_of(m.ones(1)).__enter__()
m.cuda.stream(None).__enter__()
m.cuda.nvtx.range_push('a')
m.cuda.nvtx.mark('a')
m.cuda.nope
(m.cuda.cudaStatus.SUCCESS, m.cuda.cudaStatus.ERROR_NOT_READY, issubclass(m.cuda.CudaError, RuntimeError))
(m.mtia.memory_allocated(), m.mtia.max_memory_allocated(), m.mtia.get_rng_state_all())
m.mtia.set_rng_state_all([m.ones(1)])
m.mtia.set_rng_state(m.ones(1))
m.cuda.set_rng_state_all([m.ones(1)])
m.cuda.set_rng_state(m.ones(1))
m.xpu.set_rng_state_all([m.ones(1)])
m.xpu.set_rng_state(m.ones(1))
m.ones(1).cuda()
(m.xpu.is_available(), m.xpu.device_count(), m.xpu.is_initialized(), m.xpu.get_arch_list())
m.xpu.manual_seed_all(3)
m.xpu.set_device(0)
m.xpu.current_device()
m.xpu.synchronize()
m.xpu.device(0).__enter__()
m.xpu.device('cuda')
m.xpu.Stream()
m.xpu.memory_allocated()
m.xpu.empty_cache()
(m.mps.is_available(), m.mps.device_count(), m.mps.manual_seed(3))
m.mps.empty_cache()
m.mps.synchronize()
m.mps.seed()
m.mps.set_per_process_memory_fraction(1)
m.mps.set_per_process_memory_fraction(0.5)
m.mps.set_per_process_memory_fraction(7.0)
(m.mtia.is_available(), m.mtia.device_count(), m.mtia.is_initialized(), m.mtia.memory_stats())
m.mtia.manual_seed_all(3)
m.mtia.synchronize()
m.mtia.set_device(0)
(m.accelerator.is_available(), m.accelerator.device_count(), m.accelerator.current_accelerator())
m.accelerator.current_device_index()
m.accelerator.synchronize()
m.accelerator.memory_allocated()
m.accelerator.set_device_index(0)
m.accelerator.set_device_index('cuda:0')
m.accelerator.device_index(0).__enter__()
m.accelerator.device_index(None).__enter__()
(m.cpu.is_available(), m.cpu.device_count(), m.cpu.current_device(), m.cpu.is_initialized())
(m.cpu.synchronize(), m.cpu.set_device('cuda'))
m.cpu.stream(m.cpu.Stream()).__enter__()
m.Stream()
m.Event()
m.ones(1).pin_memory()
m.ones(1).ipu()
m.get_device_module('foo')
m.get_device_module('cpu') is m.cpu
m.get_device_module() is m.cpu
m.get_device_module('cuda') is m.cuda
"""  # noqa: E501


@pytest.mark.check
def test_outcomes_are_torch_s() -> None:
    assert differences(EXPRESSIONS) == []


@pytest.mark.parametrize("name", ["cuda", "xpu", "mps", "mtia"])
def test_questions_are_silent(name: str) -> None:
    module = importlib.import_module(f"shmtensor.{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert module.is_available() is False
        assert module.device_count() == 0
        module.manual_seed(3)
    assert "synchronize" in dir(module)
    with pytest.raises((AssertionError, RuntimeError)):
        module.synchronize()
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        module.nope


def test_seeds_of_absent_devices_leave_the_cpu_s_alone() -> None:
    T.manual_seed(5)
    expected = T.rand(3)
    T.manual_seed(5)
    T.cuda.manual_seed_all(7)
    T.xpu.manual_seed(7)
    assert T.equal(T.rand(3), expected)


def test_real_use_says_what_is_missing() -> None:
    for call in (T.cuda.init, T.cuda.current_device, T.cuda.memory_summary, T.cuda.mem_get_info):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            call()
    with pytest.raises(RuntimeError, match="compiled without CUDA support"), T.cuda.device(0):
        pass
    with T.cuda.device(-1), T.cuda.device(None), T.cuda.stream(None):
        pass


@pytest.mark.check
def test_classes_are_for_questions_only() -> None:
    assert not isinstance(T.ones(1), T.cuda.FloatTensor)
    assert not isinstance(3, T.cuda.Stream)
    with pytest.raises(TypeError, match=r"torch\.cuda\.FloatTensor not available"):
        T.cuda.FloatTensor(3)


def test_streams_of_the_cpu_do_nothing() -> None:
    stream = T.cpu.Stream()
    before = T.cpu.current_stream()
    with T.cpu.stream(stream):
        assert T.cpu.current_stream() is stream
    assert T.cpu.current_stream() is before
    event = T.Event()
    event.record(T.Stream())
    assert event.query()
    assert "avx2" in T.cpu.get_capabilities() or "architecture" in T.cpu.get_capabilities()


@pytest.mark.parametrize(
    "module", ["cuda.comm", "cuda.jiterator", "cuda.nccl", "cuda.tunable", "cuda.profiler"]
)
def test_smaller_modules_refuse_their_functions(module: str) -> None:
    found: Any = importlib.import_module(f"shmtensor.{module}")
    for name in found.__all__:
        if name in ("is_available", "profile"):
            continue
        with pytest.raises(AssertionError, match="CUDA"):
            getattr(found, name)()


@pytest.mark.parametrize("name", ["cuda", "xpu", "mtia"])
def test_states_of_generators_name_their_device(name: str) -> None:
    module = importlib.import_module(f"shmtensor.{name}")
    for function in (module.get_rng_state, module.set_rng_state):
        assert inspect.signature(function).parameters["device"].default == name
    with pytest.raises(AssertionError, match=f"not compiled with {name.upper()} enabled"):
        module.get_rng_state()
    assert module.get_rng_state_all() == []


@pytest.mark.parametrize("name", ["cuda", "xpu", "mtia"])
def test_states_saved_elsewhere_are_taken_in_silence(name: str) -> None:
    module = importlib.import_module(f"shmtensor.{name}")
    module.set_rng_state_all([T.ones(1)])
    if name != "mtia":
        module.set_rng_state(T.ones(1))
