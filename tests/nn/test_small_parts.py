"""Parts of ``nn`` that are a class or a function each: parallel modules, old layers, tools."""

from __future__ import annotations

from typing import Any

import pytest
from same_as_torch import differences

import shmtensor as T
from shmtensor import nn
from shmtensor.nn import functional as F
from shmtensor.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, bias, sdpa_kernel
from shmtensor.nn.modules.utils import consume_prefix_in_state_dict_if_present


def linear(m: Any) -> Any:
    layer = m.nn.Linear(4, 3)
    with m.no_grad():
        layer.weight.copy_(m.arange(12.0).view(3, 4))
        layer.bias.copy_(m.tensor([0.5, -0.25, 0.125]))
    return layer


def old_norm(m: Any, size: int) -> Any:
    return m.nn.CrossMapLRN2d(size, alpha=0.5, beta=0.7, k=2)(m.arange(54.0).view(1, 6, 3, 3))


def without_prefix(m: Any) -> Any:
    state = {"module.a": 1, "module.b": 2, "c": 3}
    m.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    return state


EXPRESSIONS = """
m.nn.DataParallel(linear(m))
m.nn.DataParallel(linear(m))(m.ones(1, 4))
m.nn.DataParallel(linear(m), device_ids=[0]).state_dict().keys()
m.nn.DataParallel(linear(m)).device_ids
m.nn.parallel.DistributedDataParallel(linear(m))
m.nn.parallel.data_parallel(linear(m), m.ones(1, 4))
m.nn.parallel.replicate(linear(m), [])
m.nn.parallel.parallel_apply([linear(m)], [m.ones(1, 4)], devices=[0, 1])
m.nn.parallel.parallel_apply([linear(m)], [m.ones(1, 4)])
m.nn.parallel.gather([m.ones(2)], 0)
m.nn.SyncBatchNorm(3)
m.nn.SyncBatchNorm(3)(m.arange(24.).view(2, 3, 4))
m.nn.SyncBatchNorm(3).eval()(m.arange(24.).view(2, 3, 4))
m.nn.SyncBatchNorm(3)(m.ones(2))
m.nn.SyncBatchNorm(3)(m.ones(2, 4, 1))
m.nn.SyncBatchNorm.convert_sync_batchnorm(m.nn.Sequential(m.nn.BatchNorm1d(3), m.nn.Sequential(m.nn.BatchNorm2d(2, affine=False), m.nn.InstanceNorm1d(3))))
m.nn.SyncBatchNorm.convert_sync_batchnorm(m.nn.BatchNorm1d(3).eval()).training
m.nn.CrossMapLRN2d(3)
m.nn.CrossMapLRN2d(3)(m.ones(2, 3))
old_norm(m, 1)
old_norm(m, 2)
old_norm(m, 3)
old_norm(m, 4)
old_norm(m, 5)
old_norm(m, 9)
old_norm(m, 20)
m.nn.init._calculate_fan_in_and_fan_out(m.ones(2, 3, 4))
m.nn.init._calculate_fan_in_and_fan_out(m.ones(2))
m.nn.init._calculate_correct_fan(m.ones(2, 3), 'fan_out')
m.nn.init._calculate_correct_fan(m.ones(2, 3), 'foo')
m.nn.init._no_grad_fill_(m.ones(2), 3)
m.nn.init._no_grad_zero_(m.ones(2))
m.nn.modules.utils._single(1) + m.nn.modules.utils._pair(2) + m.nn.modules.utils._triple((1, 2, 3))
m.nn.modules.utils._quadruple(3) + m.nn.modules.utils._ntuple(2)([1, 2])
m.nn.modules.utils._reverse_repeat_tuple((1, 2), 2)
m.nn.modules.utils._list_with_default([None, 3], [1, 2])
m.nn.modules.utils._list_with_default([None, 3], [1, 2, 4])
without_prefix(m)
[m.nn._reduction.get_enum(name) for name in ('none', 'mean', 'sum', 'elementwise_mean')]
m.nn._reduction.get_enum('foo')
[m.nn._reduction.legacy_get_string(a, b) for a in (None, True, False) for b in (None, True, False)]
m.nn._reduction.legacy_get_enum(False, None)
m.nn.factory_kwargs({'device': 3, 'dtype': 4, 'x': 5})
m.nn.factory_kwargs({'factory_kwargs': {'device': 3}, 'device': 4})
m.nn.factory_kwargs({'factory_kwargs': {'device': 3}, 'dtype': 4})
m.nn.factory_kwargs(None)
m.nn.Container(a=linear(m))
m.nn.Linear(1, 1).ipu()
m.nn.Linear(1, 1).cuda()
m.nn.attention.bias.causal_upper_left(2, 4)._materialize()
m.nn.attention.bias.causal_lower_right(3, 5)._materialize()
m.nn.attention.bias.causal_lower_right(3)
m.nn.attention.bias.causal_lower_right(3, 5).variant
[int(way.value) if hasattr(way, 'value') else way for way in m.nn.attention.SDPBackend.__members__.values()]
list(m.nn.attention.SDPBackend.__members__)
"""  # noqa: E501


@pytest.mark.check
def test_outcomes_are_torch_s() -> None:
    modules = ["nn.modules.utils", "nn._reduction", "nn.attention.bias", "nn.parallel"]
    assert differences(EXPRESSIONS, globals(), modules) == []


def test_data_parallel_calls_its_module() -> None:
    layer = linear(T)
    wrapped = nn.DataParallel(layer)
    assert T.equal(wrapped(T.ones(2, 4)), layer(T.ones(2, 4)))
    assert set(wrapped.state_dict()) == {"module.weight", "module.bias"}
    with pytest.raises(ValueError, match="process group has not been initialized"):
        nn.parallel.DistributedDataParallel(layer)


def test_converted_normalisation_shares_parameters_and_statistics() -> None:
    plain = nn.BatchNorm2d(3)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(plain))
    assert isinstance(model[0], nn.SyncBatchNorm)
    assert model[0].weight is plain.weight
    assert model[0].running_mean is plain.running_mean


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_gradient_of_the_old_normalisation_is_that_of_its_values(size: int) -> None:
    layer = nn.CrossMapLRN2d(size, alpha=0.5, beta=0.7, k=2)
    x = T.randn(1, 5, 2, 2, dtype=T.float64, requires_grad=True)
    assert T.autograd.gradcheck(layer, (x,))


@pytest.mark.check
def test_prefixes_are_taken_from_names_and_metadata() -> None:
    state = nn.DataParallel(linear(T)).state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"]
    linear(T).load_state_dict(state)


def test_attention_needs_one_way_that_the_cpu_has() -> None:
    q = T.randn(1, 2, 4, 8)
    for way in SDPBackend:
        with sdpa_kernel(way):
            assert _cur_sdpa_kernel_backends() == ([] if way is SDPBackend.ERROR else [way])
            if way in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
                F.scaled_dot_product_attention(q, q, q)
            else:
                with pytest.raises(RuntimeError, match="No viable backend"):
                    F.scaled_dot_product_attention(q, q, q)
    assert len(_cur_sdpa_kernel_backends()) == 5


def test_attention_flags_are_those_of_backends_cuda() -> None:
    q = T.randn(1, 2, 4, 8)
    T.backends.cuda.enable_flash_sdp(False)
    T.backends.cuda.enable_math_sdp(False)
    try:
        with pytest.raises(RuntimeError, match="No viable backend"):
            F.scaled_dot_product_attention(q, q, q)
    finally:
        T.backends.cuda.enable_flash_sdp(True)
        T.backends.cuda.enable_math_sdp(True)
    F.scaled_dot_product_attention(q, q, q)


def test_causal_masks() -> None:
    q, k = T.randn(1, 2, 3, 4), T.randn(1, 2, 5, 4)
    mask = bias.causal_lower_right(3, 5)
    plain = T.ones(3, 5, dtype=T.bool).tril(2)
    assert type(mask + 0) is T.Tensor
    expected = F.scaled_dot_product_attention(q, k, k, attn_mask=plain)
    assert T.equal(F.scaled_dot_product_attention(q, k, k, attn_mask=mask), expected)
    with pytest.raises(ValueError, match="should not be used with causal=True"):
        F.scaled_dot_product_attention(q, k, k, attn_mask=mask, is_causal=True)


def test_none_keeps_its_place_in_lists_of_modules():
    relu = nn.ReLU()
    modules = nn.ModuleList([None, relu, None])
    assert list(modules) == [None, relu, None]
    assert len(modules) == 3
    first, second = modules[:2]
    assert first is None
    assert second is relu
    assert repr(modules) == "ModuleList(\n  (0): None\n  (1): ReLU()\n  (2): None\n)"
    modules.insert(0, None)
    modules.append(None)
    del modules[1]
    assert list(modules + [None]) == [None, relu, None, None, None]
    assert list(modules.children()) == [relu]
    assert list(nn.Sequential(relu, None)) == [relu, None]


def test_a_replica_shares_attributes_and_has_its_own_tables() -> None:
    module = nn.BatchNorm1d(3)
    module.note = [1]  # type: ignore[assignment]
    replica = module._replicate_for_data_parallel()
    assert type(replica) is nn.BatchNorm1d and replica.note is module.note
    assert replica._is_replica and list(replica.parameters()) == []
    assert replica.running_mean is module.running_mean
    replica.running_mean = T.ones(3)
    assert module.running_mean is not replica.running_mean
    outer = nn.Sequential(module)
    replica = outer._replicate_for_data_parallel()
    assert replica[0] is module
    replica[0] = nn.ReLU()
    assert outer[0] is module
