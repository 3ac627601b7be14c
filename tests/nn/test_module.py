"""Module: registration, walking, calling, hooks, printing.

State dictionaries are in test_state_dict.py, layers in test_layers.py.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict

import pytest

import shmtensor
from shmtensor import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False))
        self.register_buffer("mean", shmtensor.zeros(3))
        self.register_buffer("scratch", shmtensor.ones(1), persistent=False)
        self.scale = nn.Parameter(shmtensor.ones(2))

    def forward(self, x):
        return self.second(self.first(x - self.mean)) * self.scale


@pytest.mark.check
def test_assigned_parts_are_registered_by_kind():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "scale",
        "first.weight",
        "first.bias",
        "second.1.weight",
    ]
    assert [n for n, _ in net.named_buffers()] == ["mean", "scratch"]
    assert [n for n, _ in net.named_children()] == ["first", "second"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second", "second.0", "second.1"]
    assert len(list(net.modules())) == 5
    twice = nn.Sequential(net.first, net.first)
    assert [len(list(twice.modules(remove_duplicate=d))) for d in (True, False)] == [2, 3]


def test_shared_parameter_is_yielded_once():
    net = nn.Module()
    net.a = nn.Linear(2, 2)
    net.b = nn.Linear(2, 2)
    net.b.weight = net.a.weight
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4


def test_parameter_is_leaf_tensor_sharing_memory():
    data = shmtensor.zeros(2)
    parameter = nn.Parameter(data)
    data[0] = 5
    assert isinstance(parameter, shmtensor.Tensor)
    assert parameter.requires_grad
    assert parameter.is_leaf
    assert parameter.tolist() == [5.0, 0.0]
    assert repr(nn.Parameter(shmtensor.zeros(2))) == (
        "Parameter containing:\ntensor([0., 0.], requires_grad=True)"
    )


def test_parameter_of_integers_is_refused():
    with pytest.raises(RuntimeError, match="floating point"):
        nn.Parameter(shmtensor.zeros(2, dtype=shmtensor.int64))


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda m: m.register_parameter("a.b", None), KeyError, "t contain"),
        (lambda m: m.register_parameter("", None), KeyError, "t be empty"),
        (lambda m: m.register_parameter("training", None), KeyError, "already exists"),
        (lambda m: m.register_parameter(1, None), TypeError, "should be a string. Got int"),
        (lambda m: m.register_parameter("x", 3), TypeError, "cannot assign 'int' object"),
        (lambda m: m.register_buffer("b", 1), TypeError, "cannot assign 'int' object to buffer"),
        (lambda m: m.add_module("a.b", None), KeyError, "got: a.b"),
        (lambda m: m.add_module("x", 1), TypeError, "int is not a Module subclass"),
        (lambda m: setattr(m, "scale", 1), TypeError, "as parameter 'scale'"),
        (lambda m: setattr(m, "first", 1), TypeError, "as child module 'first'"),
        (lambda m: setattr(m, "mean", 1), TypeError, "as buffer 'mean'"),
        (lambda m: m.absent, AttributeError, "'Net' object has no attribute 'absent'"),
        (lambda m: m.get_submodule("first.x"), AttributeError, "Linear has no attribute `x`"),
        (lambda m: m.get_parameter("first"), AttributeError, "`first` is not an nn.Parameter"),
        (lambda m: m.train(1), ValueError, "expected to be boolean"),
        (lambda m: m.to(shmtensor.int32), TypeError, "only accepts floating point"),
    ],
)
def test_wrong_use_raises_with_the_values(call, kind, text):
    with pytest.raises(kind, match=text):
        call(Net())


def test_assignment_before_init_is_refused():
    class Early(nn.Module):
        def __init__(self) -> None:
            self.x = nn.Parameter(shmtensor.zeros(1))

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()


def test_module_without_forward_says_its_name():
    class Bare(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match=r"Module \[Bare\] is missing the required"):
        Bare()(1)


def test_attribute_changes_kind():
    net = Net()
    del net.scale
    assert not hasattr(net, "scale")
    net.mean = None
    assert [n for n, _ in net.named_buffers()] == ["scratch"]
    net.note = "plain"
    net.note = nn.Parameter(shmtensor.zeros(1))
    assert "note" in dict(net.named_parameters())
    net.first = None
    assert [n for n, _ in net.named_children()] == ["second"]


def test_train_and_eval_reach_every_module():
    net = Net().eval()
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())


def test_zero_grad_drops_or_clears():
    net = Net()
    net(shmtensor.ones(1, 3)).sum().backward()
    grad = net.scale.grad
    assert grad is not None
    net.zero_grad(set_to_none=False)
    assert net.scale.grad is grad or net.scale.grad.data_ptr() == grad.data_ptr()
    assert net.scale.grad.tolist() == [0.0, 0.0]
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_casts_change_floating_state_only():
    net = Net()
    net.register_buffer("count", shmtensor.zeros(1, dtype=shmtensor.int64))
    identity = id(net.scale)
    net.double()
    assert net.first.weight.dtype == shmtensor.float64
    assert net.count.dtype == shmtensor.int64
    assert id(net.scale) == identity
    net.to(shmtensor.float32)
    assert net.scale.dtype == shmtensor.float32


def test_share_memory_shares_parameters_buffers_and_gradients():
    net = Net()
    net(shmtensor.ones(1, 3)).sum().backward()
    before = net.first.weight.tolist()
    assert net.share_memory() is net
    assert all(p.is_shared() and p.grad.is_shared() for p in net.parameters())
    assert all(b.is_shared() for b in net.buffers())
    assert net.first.weight.tolist() == before


def test_apply_visits_children_first():
    seen = []
    Net().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


def test_requires_grad_reaches_every_parameter():
    net = Net().requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


@pytest.mark.check
def test_repr_shows_the_tree():
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (second): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=4, out_features=2, bias=False)\n"
        "  )\n"
        ")"
    )


def test_deepcopy_and_pickle_keep_values_and_aliases():
    net = Net()
    net.alias = net.first.weight
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin.alias is twin.first.weight
        assert twin.alias is not net.alias
        assert twin.first.weight.tolist() == net.first.weight.tolist()
        x = shmtensor.ones(2, 3)
        assert twin(x).tolist() == net(x).tolist()


def test_forward_hooks_change_arguments_and_result_in_order():
    layer = nn.Identity()
    order = []

    def pre(module, args):
        order.append("pre")
        return (args[0] + 1,)

    def post(module, args, output):
        order.append("post")
        return output * 10

    first = layer.register_forward_pre_hook(pre)
    second = layer.register_forward_hook(post)
    assert layer(shmtensor.ones(1)).item() == 20.0
    first.remove()
    assert layer(shmtensor.ones(1)).item() == 10.0
    second.remove()
    second.remove()
    assert layer(shmtensor.ones(1)).item() == 1.0
    assert order == ["pre", "post", "post"]


def test_forward_hooks_see_keywords_and_run_on_errors():
    class Scaled(nn.Module):
        def forward(self, x, *, by):
            if by == 0:
                raise ValueError("no")
            return x * by

    layer = Scaled()
    layer.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"by": kwargs["by"] * 2}), with_kwargs=True
    )
    assert layer(shmtensor.ones(1), by=2).item() == 4.0
    seen = []
    layer.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(ValueError, match="no"):
        layer(shmtensor.ones(1), by=0)
    assert seen == [None]


def test_backward_hooks_see_and_replace_gradients():
    layer = nn.Linear(2, 1, bias=False)
    seen = []

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 2,)

    handle = layer.register_full_backward_hook(hook)
    x = shmtensor.ones(1, 2, requires_grad=True)
    (layer(x) * 3).sum().backward()
    plain = [3 * v for v in layer.weight.tolist()[0]]
    assert seen[0][0][0] == pytest.approx(plain)
    assert seen[0][1] == [[3.0]]
    assert x.grad.tolist()[0] == pytest.approx([2 * v for v in plain])
    handle.remove()
    layer(x.detach()).sum().backward()
    assert len(seen) == 1


def test_backward_pre_hook_replaces_the_gradient_of_the_output():
    layer = nn.Identity()
    layer.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 5,))
    x = shmtensor.ones(1, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.item() == 5.0


def test_to_empty_gives_a_meta_module_memory() -> None:
    module = nn.Sequential(nn.Linear(2, 3, device="meta"), nn.BatchNorm1d(3, device="meta"))
    module[0].weight.requires_grad_(False)
    assert module.to_empty(device="cpu") is module
    assert {value.device.type for value in module.state_dict().values()} == {"cpu"}
    assert all(isinstance(parameter, nn.Parameter) for parameter in module.parameters())
    assert not module[0].weight.requires_grad
    assert module[0].bias.requires_grad
    module[0].reset_parameters()
    assert module.to("meta")[0].weight.is_meta
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        module.to("cpu")


def test_arguments_that_no_class_takes_are_named():
    class Part(nn.Module):
        def __init__(self, **options):
            super().__init__(**options)

    with pytest.raises(
        TypeError, match=r"Part.__init__\(\) got an unexpected keyword argument 'a'"
    ):
        Part(a=1)
    with pytest.raises(TypeError, match=r"takes 1 positional argument but 2 were given"):
        nn.Module(1)


def test_arguments_go_on_to_the_next_base_where_a_class_says_so():
    class Other:
        def __init__(self, n):
            self.n = n

    class Both(nn.Module, Other):
        call_super_init = True

        def __init__(self):
            super().__init__(3)

    assert Both().n == 3


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("cpu", True), {}),
        ((None, True), {}),
        (([],), {}),
        (("cpu", shmtensor.ones(1)), {}),
        (({},), {"non_blocking": True}),
        ((), {"other": shmtensor.ones(1)}),
        ((), {"memory_format": 3}),
        ((), {"non_blocking": 1}),
    ],
)
def test_to_refuses_other_arguments(args, kwargs):
    with pytest.raises(TypeError, match=r"to\(\) received an invalid combination of arguments"):
        nn.Linear(2, 2).to(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs"), [(("cpu",), {"copy": True}), ((shmtensor.float64, True, False), {})]
)
def test_to_cannot_copy_a_module(args, kwargs):
    with pytest.raises(RuntimeError, match=r"\.to\(\) does not accept copy argument"):
        nn.Linear(2, 2).to(*args, **kwargs)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (shmtensor.DoubleTensor, shmtensor.float64),
        ("torch.HalfTensor", shmtensor.float16),
        (shmtensor.bfloat16, shmtensor.bfloat16),
    ],
)
def test_type_takes_what_tensors_take(kind, dtype):
    module = nn.Linear(2, 2)
    assert module.type(kind) is module
    assert {p.dtype for p in module.parameters()} == {dtype}


def test_type_refuses_other_words_and_whole_numbers():
    with pytest.raises(ValueError, match="invalid type: 'float'"):
        nn.Linear(2, 2).type("float")
    with pytest.raises(RuntimeError):
        nn.Linear(2, 2).type(shmtensor.LongTensor)


# --- registration --------------------------------------------------------------------------------


def test_hooks_of_registration_see_assigned_modules_and_buffers() -> None:
    seen: list[tuple[str, object]] = []
    hooks = nn.modules.module
    handles = [
        hooks.register_module_module_registration_hook(lambda m, n, v: seen.append((n, v))),
        hooks.register_module_buffer_registration_hook(lambda m, n, v: seen.append((n, v))),
    ]
    try:
        module = nn.Module()
        module.child = child = nn.ReLU()
        module.child = None
        module.register_buffer("count", None)
        module.count = count = shmtensor.zeros(1)
    finally:
        for handle in handles:
            handle.remove()
    assert [name for name, _ in seen] == ["child", "child", "count", "count"]
    assert seen[0][1] is child and seen[1][1] is None and seen[3][1] is count


def test_a_hook_of_registration_replaces_an_assigned_module() -> None:
    other = nn.Tanh()
    handle = nn.modules.module.register_module_module_registration_hook(lambda m, n, v: other)
    try:
        module = nn.Module()
        module.child = nn.ReLU()
    finally:
        handle.remove()
    assert module.child is other


def test_assigned_buffers_go_through_register_buffer() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []
            self.register_buffer("first", None)
            self.names.clear()

        def register_buffer(self, name, tensor):
            self.names.append(name)
            super().register_buffer(name, tensor)

    module = Own()
    module.first = shmtensor.zeros(1)
    module.second = nn.Buffer(shmtensor.zeros(1))
    assert module.names == ["first", "second"]
    with pytest.raises(RuntimeError, match="Registering a non-persistent buffer on a Module sub"):
        module.third = nn.Buffer(shmtensor.zeros(1), persistent=False)


def test_a_buffer_takes_the_place_of_no_other_attribute() -> None:
    module = nn.Module()
    module.plain = 1
    with pytest.raises(KeyError, match="attribute 'plain' already exists"):
        module.plain = nn.Buffer(shmtensor.zeros(1))
    module.count = nn.Buffer(shmtensor.zeros(1), persistent=False)
    module.count = shmtensor.ones(1)  # which stays as it was registered
    assert list(module.state_dict()) == []
    module.count = nn.Buffer(shmtensor.zeros(1))
    assert list(module.state_dict()) == ["count"]


def test_register_module_calls_add_module() -> None:
    class Own(nn.Module):
        def add_module(self, name, module):
            super().add_module(f"own_{name}", module)

    module = Own()
    module.register_module("a", nn.ReLU())
    assert [name for name, _ in module.named_children()] == ["own_a"]


def test_set_submodule_replaces_modules_only() -> None:
    module = nn.Sequential(nn.Linear(1, 1))
    with pytest.raises(AttributeError, match=r"^`weight` is not an nn\.Module$"):
        module.set_submodule("0.weight", nn.ReLU())
    with pytest.raises(AttributeError, match=r"^`training` is not an nn\.Module$"):
        module.set_submodule("training", nn.ReLU())
    with pytest.raises(ValueError, match=r"^`module` is not an nn\.Module, found "):
        module.set_submodule("missing.0", 1)
    with pytest.raises(AttributeError, match=r"^Sequential has no attribute `1`$"):
        module.set_submodule("1", nn.ReLU(), strict=True)
    module.set_submodule("1", nn.ReLU())
    assert isinstance(module[1], nn.ReLU)


def test_leaving_meta_is_refused_with_the_way_out() -> None:
    module = nn.Linear(1, 1, device="meta")
    with pytest.raises(NotImplementedError, match=r"Please use .*nn\.Module\.to_empty\(\) instead"):
        module.to("cpu")


def test_gradients_of_replicas_are_not_there_to_be_dropped() -> None:
    replica = nn.Linear(1, 1)._replicate_for_data_parallel()
    with pytest.warns(UserWarning, match=r"Calling \.zero_grad\(\) from a module created with"):
        replica.zero_grad()


def test_a_buffer_is_a_tensor_with_a_mark() -> None:
    data = shmtensor.arange(3.0)
    buffer = nn.Buffer(data, persistent=False)
    assert type(buffer) is shmtensor.Tensor and isinstance(buffer, nn.Buffer)
    assert buffer.data_ptr() == data.data_ptr() and buffer.persistent is False
    assert type(buffer + 1) is shmtensor.Tensor and not isinstance(buffer + 1, nn.Buffer)
    assert type(nn.Buffer(nn.Parameter(data))) is shmtensor.Tensor
    for copied in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        assert isinstance(copied, nn.Buffer) and copied.persistent is False
    file = io.BytesIO()
    shmtensor.save({"count": nn.Buffer(data)}, file)
    file.seek(0)
    loaded = shmtensor.load(file)["count"]
    assert isinstance(loaded, nn.Buffer) and loaded.tolist() == [0.0, 1.0, 2.0]


def test_only_the_empty_name_is_the_module_itself() -> None:
    module = nn.Linear(1, 1)
    assert module.get_submodule("") is module
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'split'"):
        module.get_submodule(None)


def test_conversions_see_the_parameters_and_keep_their_gradients() -> None:
    module, seen = nn.Linear(1, 1), []
    module(shmtensor.ones(1, 1)).sum().backward()
    module._apply(lambda tensor: seen.append((type(tensor), tensor.requires_grad)) or tensor)
    of_one = [(nn.Parameter, True), (shmtensor.Tensor, False)]
    assert seen == of_one * 2
    weight, grad = module.weight, module.weight.grad
    module.double()
    assert module.weight is weight and weight.grad is grad
    assert grad.dtype == weight.dtype == shmtensor.float64 and weight.grad_fn is None


def test_values_of_other_types_are_named_in_full() -> None:
    module = nn.Module()
    module.register_parameter("weight", None)
    name = f"{__name__}.test_values_of_other_types_are_named_in_full.<locals>.Own"

    class Own:
        pass

    with pytest.raises(TypeError, match=r"^cannot assign '\w+\.nn\.modules\.activation\.ReLU' as"):
        module.weight = nn.ReLU()
    with pytest.raises(TypeError, match=r"^collections\.OrderedDict is not a Module subclass$"):
        nn.Sequential(OrderedDict(), nn.ReLU())
    with pytest.raises(TypeError) as error:
        module.register_buffer("count", Own())
    assert str(error.value).startswith(f"cannot assign '{name}' object to buffer 'count'")
    with pytest.raises(TypeError, match=r"one of the params is \w+\.nn\.modules\.linear\.Linear$"):
        shmtensor.optim.SGD([nn.Linear(1, 1)], lr=0.1)


def test_parameters_are_of_fractions() -> None:
    for change in (lambda: nn.Linear(1, 1).type(shmtensor.int64), set_integers):
        with pytest.raises(RuntimeError, match="data set to a tensor that requires gradients must"):
            change()


def set_integers() -> None:
    nn.Parameter(shmtensor.ones(1)).data = shmtensor.ones(1, dtype=shmtensor.int64)


def test_synchronised_normalisation_has_channels() -> None:
    with pytest.raises(ValueError, match="SyncBatchNorm number of input channels should be non-z"):
        nn.SyncBatchNorm(0)(shmtensor.ones(3, 0))


def test_arguments_of_to_are_listed_as_they_were_given() -> None:
    for args, kwargs, text in (
        (("cpu",), {"device": "cpu"}, "got (str, device=str), but"),
        ((), {"dtype": "float32"}, "got (dtype=str, ), but"),
    ):
        with pytest.raises(TypeError) as error:
            nn.Linear(1, 1).to(*args, **kwargs)
        assert text in str(error.value)
