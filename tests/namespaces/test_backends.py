"""`backends`: which libraries are here, and flags that keep their values."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from same_as_torch import differences

import shmtensor as T
from shmtensor import backends


def put(module: Any, name: str, value: Any) -> Any:
    setattr(module, name, value)
    return getattr(module, name)


def inside(context: Any, module: Any, name: str) -> Any:
    before = getattr(module, name)
    with context:
        now = getattr(module, name)
    return before, now, getattr(module, name)


EXPRESSIONS = """
(m.backends.cudnn.is_available(), m.backends.cudnn.version(), m.backends.cudnn.is_acceptable(m.ones(1)))
(m.backends.cudnn.enabled, m.backends.cudnn.benchmark, m.backends.cudnn.deterministic, m.backends.cudnn.allow_tf32)
(m.backends.cudnn.benchmark_limit, m.backends.cudnn.fp32_precision, m.backends.cudnn.conv.fp32_precision)
m.backends.cudnn.rnn.fp32_precision
put(m.backends.cudnn, 'enabled', 3)
put(m.backends.cudnn, 'benchmark', 1)
put(m.backends.cudnn, 'deterministic', 'a')
put(m.backends.cudnn, 'fp32_precision', 'foo')
put(m.backends.cudnn, 'fp32_precision', 'bf16')
inside(m.backends.cudnn.flags(enabled=False), m.backends.cudnn, 'enabled')
inside(m.backends.cudnn.flags(deterministic=True), m.backends.cudnn, 'deterministic')
m.backends.cudnn.set_flags()
m.backends.cudnn.set_flags(True, True)
m.backends.cudnn.set_flags(True, False)
m.backends.cudnn.nope
(m.backends.mkldnn.enabled, m.backends.mkldnn.deterministic, m.backends.mkldnn.fp32_precision)
m.backends.mkldnn.matmul.fp32_precision
m.backends.mkldnn.is_acl_available()
put(m.backends.mkldnn, 'enabled', 2)
inside(m.backends.mkldnn.flags(enabled=False), m.backends.mkldnn, 'enabled')
m.backends.fp32_precision
inside(m.backends.flags('ieee'), m.backends, 'fp32_precision')
(m.backends.mps.is_available(), m.backends.mps.is_built(), m.backends.cuda.is_built())
(m.backends.cusparselt.is_available(), m.backends.kleidiai.is_available(), m.backends.miopen.immediate)
put(m.backends.miopen, 'immediate', 3)
m.backends.cuda.matmul.allow_tf32
put(m.backends.cuda.matmul, 'allow_tf32', 'a')
put(m.backends.cuda.matmul, 'allow_fp16_reduced_precision_reduction', 'a')
put(m.backends.cuda.matmul, 'nope', 3)
m.backends.cuda.matmul.nope
m.backends.cuda.cufft_plan_cache.size
m.backends.cuda.cufft_plan_cache[0]
m.backends.cuda.preferred_linalg_library('magma')
m.backends.cuda.preferred_linalg_library('foo')
m.backends.cuda.preferred_linalg_library(3)
m.backends.cuda.preferred_blas_library('foo')
(m.backends.cuda.flash_sdp_enabled(), m.backends.cuda.math_sdp_enabled(), m.backends.cuda.cudnn_sdp_enabled())
inside(m.backends.cuda.sdp_kernel(enable_flash=False), type('', (), {'on': property(lambda self: m.backends.cuda.flash_sdp_enabled())})(), 'on')
m.backends.cuda.is_flash_attention_available()
put(m.backends.quantized, 'engine', 'foo')
(m.backends.opt_einsum.is_available(), m.backends.opt_einsum.enabled, m.backends.opt_einsum.strategy)
m.backends.mha.get_fastpath_enabled()
m.has_cuda, m.has_mps, m.has_lapack
m.compiled_with_cxx11_abi()
"""  # noqa: E501


@pytest.mark.check
def test_outcomes_are_torch_s() -> None:
    names = {"put": put, "inside": inside}
    assert differences(EXPRESSIONS, names, ["backends", "backends.cudnn.rnn"]) == []


@pytest.mark.parametrize("name", ["mkl", "mkldnn", "openmp", "nnpack", "cudnn", "mps", "kleidiai"])
def test_libraries_that_are_not_here(name: str) -> None:
    assert importlib.import_module(f"shmtensor.backends.{name}").is_available() is False


def test_flags_keep_what_they_are_given() -> None:
    backends.cudnn.benchmark = True
    try:
        assert backends.cudnn.benchmark is True
        assert importlib.import_module("shmtensor.backends.cudnn").benchmark is True
        with backends.cudnn.flags(benchmark=False):
            assert backends.cudnn.benchmark is False
        assert backends.cudnn.benchmark is True
    finally:
        backends.cudnn.benchmark = False


@pytest.mark.check
def test_frozen_flags_change_in_contexts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor.backends import _flags

    backends.disable_global_flags()
    monkeypatch.setattr(_flags._State, "frozen", True)
    try:
        assert backends.flags_frozen()
        with pytest.raises(RuntimeError, match="not allowed to set"):
            backends.cudnn.enabled = False
        with backends.cudnn.flags(enabled=False):
            assert backends.cudnn.enabled is False
        assert backends.cudnn.enabled is True
    finally:
        _flags._State.frozen = False


def test_the_level_of_instructions() -> None:
    assert backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    assert "OpenBLAS" in T.__config__.show()
    assert str(T.get_num_threads()) in T.__config__.parallel_info()


def test_verbose_contexts_are_accepted() -> None:
    with backends.mkl.verbose(backends.mkl.VERBOSE_ON), backends.mkldnn.verbose(0):
        pass
