"""Containers of modules and parameters, by position and by name."""

from __future__ import annotations

import pytest

import shmtensor as sh
from shmtensor import nn


@pytest.mark.check
def test_sequential_behaves_as_a_list():
    net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    assert len(net) == 3
    assert isinstance(net[-1], nn.Sigmoid)
    assert isinstance(net[:2], nn.Sequential)
    del net[1]
    assert list(net._modules) == ["0", "1"]
    net.insert(1, nn.GELU()).append(nn.Identity())
    assert [type(m).__name__ for m in net] == ["ReLU", "GELU", "Sigmoid", "Identity"]
    assert len(net + nn.Sequential(nn.ReLU())) == 5
    with pytest.raises(IndexError, match="index 7 is out of range"):
        net[7]


@pytest.mark.check
def test_parameter_list_makes_parameters():
    values = nn.ParameterList([sh.zeros(2), nn.Parameter(sh.ones(1))])
    values.append(sh.zeros(3))
    assert len(values) == len(list(values.parameters())) == 3
    assert all(isinstance(v, nn.Parameter) for v in values)
    assert "(0): Parameter containing: [" in repr(values)


def test_module_dict_and_parameter_dict():
    modules = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(2, 3)})
    modules.update([("c", nn.Tanh())])
    assert list(modules) == ["a", "b", "c"] and "b" in modules and len(modules) == 3
    assert [n for n, _ in modules.named_parameters()] == ["b.weight", "b.bias"]
    assert isinstance(modules.pop("a"), nn.ReLU) and "a" not in modules
    with pytest.raises(ValueError, match="has length 1; 2 is required"):
        modules.update([("x",)])
    parameters = nn.ParameterDict({"w": sh.ones(2), "note": "text"})
    assert isinstance(parameters["w"], nn.Parameter) and parameters.get("v", 7) == 7
    assert [n for n, _ in parameters.named_parameters()] == ["w"]
    assert list((parameters | nn.ParameterDict({"v": sh.ones(1)})).keys()) == ["w", "note", "v"]
    with pytest.raises(KeyError):
        parameters["v"]
