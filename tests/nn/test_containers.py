"""Containers of modules and parameters, by position and by name."""

from __future__ import annotations

from collections import OrderedDict

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
    assert list((parameters | nn.ParameterDict({"v": sh.ones(1)})).keys()) == ["note", "w", "v"]
    with pytest.raises(KeyError):
        parameters["v"]


def test_parameter_dict_sorts_the_names_of_a_plain_dict():
    """The order of the parameters decides whose optimizer state is whose."""
    pairs = [("b", sh.ones(1)), ("a", sh.ones(2))]
    assert list(nn.ParameterDict(dict(pairs)).keys()) == ["a", "b"]
    for ordered in (pairs, OrderedDict(pairs), nn.ParameterDict(pairs)):
        assert list(nn.ParameterDict(ordered).keys()) == ["b", "a"]
    values = nn.ParameterDict(pairs)
    assert [name for name, _ in values.named_parameters()] == ["b", "a"]
    assert list(values.copy().keys()) == ["b", "a"]
    assert list((values | {"z": 1, "y": 2}).keys()) == ["b", "a", "y", "z"]
    assert list(({"z": 1, "y": 2} | values).keys()) == ["z", "y", "b", "a"]
    values.update({"d": 1, "c": 2})
    assert list(values.keys()) == ["b", "a", "c", "d"]
    layers = nn.ModuleDict({"b": nn.ReLU(), "a": nn.ReLU()})
    assert list(layers.keys()) == ["b", "a"]


def test_sequential_is_repeated_and_extended_in_place():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    for twice in (net * 2, 2 * net):
        assert type(twice) is nn.Sequential
        assert [twice[i] for i in range(4)] == [net[0], net[1], net[0], net[1]]
    assert len(net) == 2
    same = net
    net *= 3
    assert net is same
    assert list(net._modules) == ["0", "1", "2", "3", "4", "5"]
    net += nn.Sequential(nn.Tanh())
    assert net is same
    assert isinstance(net[6], nn.Tanh)
    named = nn.Sequential(OrderedDict(first=nn.ReLU()))
    named += nn.Sequential(nn.Tanh())
    assert list(named._modules) == ["first", "1"]


@pytest.mark.parametrize(
    ("factor", "error"),
    [(0, ValueError), (-1, ValueError), (2.0, TypeError), ("2", TypeError), (None, TypeError)],
)
def test_sequential_is_repeated_a_positive_number_of_times(factor, error):
    net = nn.Sequential(nn.ReLU())
    for call in (lambda: net * factor, lambda: factor * net, lambda: net.__imul__(factor)):
        with pytest.raises(error, match=r"multiplication factor|unsupported operand"):
            call()
    with pytest.raises(ValueError, match="only objects of Sequential class"):
        net += [nn.ReLU()]


def test_parameter_containers_say_what_they_hold():
    values = nn.ParameterList([sh.ones(1), 3])
    assert repr(values) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [torch.float32 of size 1]\n"
        "    (1): Object of type: int\n"
        ")"
    )
    named = nn.ParameterDict({"a": sh.ones(2, 3), "b": "text"})
    assert repr(named) == (
        "ParameterDict(\n"
        f"    (a): Parameter containing: [{sh.ones(1).type()} of size 2x3]\n"
        "    (b): Object of type: str\n"
        ")"
    )
    assert repr(nn.ParameterList([3])) == "ParameterList(  (0): Object of type: int)"
    assert repr(nn.ParameterDict({"k": 3})) == "ParameterDict(  (k): Object of type: int)"
    assert nn.ParameterDict({"k": 3}).extra_repr() == "  (k): Object of type: int"
