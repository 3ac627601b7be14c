"""Arrays of NumPy and tensors and modules of torch in services.

`tests/multiprocessing/test_adoption.py` has the same for queues.
"""

from __future__ import annotations

import importlib.util
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import service_programs as programs

import shmtensor as T
from shmtensor.errors import HandleError
from shmtensor.service import Service, _libraries


def attached(service: Service, value: Any, as_: Any, mode: str = "ro") -> Any:
    service.publish("value", value)
    return service.attach("value", mode, as_=as_)


@pytest.mark.check
def test_an_unknown_library_is_refused(service: Service) -> None:
    service.publish("value", 1)
    for call in (service.attach, service.latest, service.empty):
        with pytest.raises(ValueError, match="as_ must be one of"):
            call("value", as_="jax")


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_torch_that_is_not_installed_is_named(service: Service) -> None:
    service.publish("value", 1)
    with pytest.raises(ModuleNotFoundError, match="torch"):
        service.attach("value", as_="torch")


# --- NumPy ------------------------------------------------------------------------------------

_ARRAYS = {
    "float32": lambda: np.arange(6, dtype=np.float32).reshape(2, 3),
    "bool": lambda: np.array([True, False]),
    "complex": lambda: np.array([1 + 2j]),
    "uint16": lambda: np.array([65535], np.uint16),
    "scalar": lambda: np.array(2.5),
    "empty": lambda: np.zeros((0, 3), np.int8),
    "fortran": lambda: np.asfortranarray(np.arange(6).reshape(2, 3)),
    "part": lambda: np.arange(20).reshape(4, 5)[1:, ::2],
    "backwards": lambda: np.arange(5)[::-1],
    "broadcast": lambda: np.broadcast_to(np.arange(3), (2, 3)),
    "of other byte order": lambda: np.array([1, 258], ">i4"),
    "misaligned": lambda: np.zeros(3, [("a", np.int8), ("b", np.float64)])["b"],
    "times": lambda: np.array(["2020-01-01", "2021-05-06"], "M8[D]"),
    "texts": lambda: np.array([["a", "bcd"], ["é", ""]]),
    "structures": lambda: np.array([(1, (2.0, 3.0))], [("a", "<i4"), ("b", "<f8", (2,))]),
    "no texts": lambda: np.zeros((2, 0), "U5"),
}


@pytest.mark.parametrize("kind", _ARRAYS)
@pytest.mark.parametrize("is_read_only", [False, True])
def test_arrays_come_back(service: Service, kind: str, is_read_only: bool) -> None:
    array = _ARRAYS[kind]()
    if is_read_only:
        array.flags.writeable = False
    back = attached(service, {"a": [array]}, "numpy")["a"][0]
    assert type(back) is np.ndarray
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.shape == array.shape
    assert (back == array).all()
    assert not back.flags.writeable or not back.size


def test_an_array_is_a_tensor_to_who_asks_for_tensors(service: Service) -> None:
    back = attached(service, (np.arange(3.0), OrderedDict(b=np.ones(2, np.int32))), "shmtensor")
    assert T.equal(back[0], T.arange(3.0, dtype=T.float64))
    assert type(back[1]) is OrderedDict
    assert back[1]["b"].dtype == T.int32
    array = attached(service, T.arange(3.0), "numpy", "rw")
    array[0] = 5
    assert service.attach("value").tolist() == [5, 1, 2]


def test_dtypes_that_the_other_has_not_are_named(service: Service) -> None:
    service.publish("value", np.array(["text"]))
    with pytest.raises(TypeError, match=r"'value': .*'<U4' of numpy; attach it with as_='numpy'"):
        service.attach("value")
    service.publish("value", T.ones(2, dtype=T.bfloat16))
    with pytest.raises(TypeError, match="'value': NumPy has no dtype bfloat16"):
        service.attach("value", as_="numpy")


@pytest.mark.parametrize(
    "array",
    [np.array([object()]), np.ma.masked_array([1]), np.zeros(2, []), np.zeros(2, [("a", "O")])],
    ids=["objects", "masked", "no bytes", "structures with objects"],
)
def test_arrays_that_cannot_be_published(service: Service, array: Any) -> None:
    with pytest.raises(TypeError, match="expected arrays of numbers, texts or structures"):
        service.publish("value", array)


def test_arrays_over_one_memory_share_it_in_the_reader(service: Service) -> None:
    base = np.arange(10)
    left, right, other = attached(service, [base[:5], base[3:], base.copy()], "numpy", "rw")
    left[4] = 50
    assert right[1] == 50
    assert (base[4], other[4]) == (4, 4)


def test_an_array_in_the_services_memory_is_not_copied(service: Service) -> None:
    array = service.empty(3, 4, dtype=np.float32, as_="numpy")
    assert (array.dtype, array.shape) == (np.float32, (3, 4))
    array[:] = 1
    back = attached(service, array[1:, ::2], "numpy")
    array[1, 2] = 5
    assert back.tolist() == [[1, 5], [1, 1]]
    texts = service.empty((2,), dtype="U3", as_="numpy")
    texts[:] = "abc"
    back = attached(service, texts, "numpy")
    texts[1] = "x"
    assert back.tolist() == ["abc", "x"]


@pytest.mark.parametrize("dtype", [np.float32, np.dtype(np.float32), T.float32])
def test_dtypes_of_numpy_are_dtypes(service: Service, dtype: Any) -> None:
    assert service.empty(2, dtype=dtype).dtype is T.float32
    assert service.empty((2, 3), dtype=dtype, as_="numpy").dtype == np.float32
    assert service.empty([2], dtype=dtype, as_="numpy").shape == (2,)


def test_dtypes_that_are_refused(service: Service) -> None:
    assert service.empty(2, as_="numpy").dtype == np.float64
    with pytest.raises(TypeError, match=r"such as shmtensor.uint8, .* got 'float32'"):
        service.empty(2, dtype="float32")
    with pytest.raises(TypeError, match="objects cannot be in shared memory"):
        service.empty(2, dtype=object, as_="numpy")
    with pytest.raises(TypeError, match="NumPy has no dtype bfloat16"):
        service.empty(2, dtype=T.bfloat16, as_="numpy")
    with pytest.raises(ValueError, match="negative"):
        service.empty(-1)


_READER = """
import sys
import numpy as np
from shmtensor.service import Service, _libraries
array = Service(sys.argv[1]).attach("shared", "rw", as_="numpy")
array[0] = 7
assert "torch" not in sys.modules
print(array.sum())
"""


_PLAIN = """
import sys
from shmtensor.service import Service
service = Service(sys.argv[1])
with service.Queue("plain") as queue, service.Topic("news", history=1) as topic:
    queue.put([service.empty(2).fill_(3), "text"])
    tensor, text = queue.get()
    topic.publish({"tensor": tensor, "number": 1})
    service.publish("value", topic.latest())
value = service.attach("value")
print(value["tensor"].sum().item(), sorted({"numpy", "torch", "shmtensor.nn"} & set(sys.modules)))
"""


def test_programs_load_no_library_that_they_do_not_use(
    service: Service, run: type[programs.Program]
) -> None:
    assert run(_PLAIN, service._name).finish() == "6.0 []\n"


@pytest.mark.check
def test_another_program_writes_into_the_array(
    service: Service, run: type[programs.Program]
) -> None:
    array = service.empty(3, dtype=np.int64, as_="numpy")
    array[:] = 1
    service.publish("shared", array)
    assert run(_READER, service._name).finish() == "9\n"
    assert array[0] == 7


_TEXTS = [
    *("'|O'", "[('a', '|O')]", "[('a', [('b', '|O')])]", "('|O', (2,))", "[('a', '|O', (2, 2))]"),
    *("('<U2', (-1,))", "[('a', '<U2', (-1,))]", "('<U2', (2147483647, 2147483647))"),
    *("('<U2', (9223372036854775808,))", "[('a', '<U2'), ('a', '<U2')]", "'|S-1'", "'|V-1'"),
    *("'<U2147483648'", "'|S99999999999999999999'", "'U0'", "'<M8[parsecs]'", "'f8", "b''", "{}"),
    *("__import__('os')", "(" * 3000, "[" * 300 + "]" * 300, "''", "None", "0", "'\0'", "'\u00e9'"),
]


@pytest.mark.parametrize("text", _TEXTS)
def test_damaged_dtypes_are_damage(service: Service, text: str) -> None:
    from shmtensor.service import _encoding

    def make(nbytes: int) -> Any:
        return service._handle.new_storage(nbytes)

    value, dtype = np.array(["ab"]), repr("<U2")
    storages, structure = _encoding.encode(value, service._handle.owns, make)
    whole = _encoding.to_text({"kind": "value", "value": structure})
    assert _encoding.read(whole, storages).value.dtype == dtype
    structure[2] = text
    damaged = _encoding.to_text({"kind": "value", "value": structure})
    with pytest.raises(HandleError, match="damaged"):
        _encoding.read(damaged, storages)


# --- torch ------------------------------------------------------------------------------------


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize(
    "make",
    [
        lambda torch: torch.randn(3, 4).t(),
        lambda torch: torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        lambda torch: torch.randn(5)[::2],
        lambda torch: torch.ones(3, dtype=torch.bfloat16),
        lambda torch: torch.randn(3, dtype=torch.complex64).conj(),
        lambda torch: torch.tensor(2.5),
        lambda torch: torch.zeros(0, 3),
        lambda torch: torch.ones(2, requires_grad=True),
        lambda torch: torch.nn.Parameter(torch.ones(2), requires_grad=False),
        lambda torch: torch.ones(2, 3).to(torch.float8_e4m3fn),
    ],
)
def test_torch_tensors_come_back(service: Service, torch: Any, make: Any) -> None:
    tensor = make(torch)
    back = attached(service, {"a": [tensor]}, "torch")["a"][0]
    assert type(back) is type(tensor)
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert back.requires_grad == tensor.requires_grad
    wide = torch.complex128
    assert torch.equal(back.detach().to(wide), tensor.detach().resolve_conj().to(wide))


def test_libraries_read_each_others_values(service: Service, torch: Any) -> None:
    tensor = torch.arange(3.0, requires_grad=True)
    ours = attached(service, tensor, "shmtensor")
    assert type(ours) is T.Tensor
    assert ours.requires_grad
    assert attached(service, tensor, "numpy").tolist() == [0, 1, 2]
    assert attached(service, np.arange(3), "torch").tolist() == [0, 1, 2]
    assert isinstance(attached(service, T.nn.Parameter(T.ones(2)), "torch"), torch.nn.Parameter)


def test_torch_tensors_that_cannot_be_published(service: Service, torch: Any) -> None:
    with pytest.raises(RuntimeError, match="not a leaf"):
        service.publish("value", torch.ones(1, requires_grad=True) * 2)
    with pytest.raises(TypeError, match="expected dense tensors of the CPU"):
        service.publish("value", torch.ones(1, device="meta"))
    with pytest.raises(TypeError, match="expected torch's Tensor, got Own"):
        service.publish("value", torch.ones(1).as_subclass(type("Own", (torch.Tensor,), {})))


def test_torch_tensors_over_one_memory_share_it_in_the_reader(service: Service, torch: Any) -> None:
    base = torch.arange(10)
    left, right = attached(service, [base[:5], base.view(torch.int32)[6:]], "torch", "rw")
    left[4] = 50
    assert right[2] == 50
    assert base[4] == 4


def test_a_torch_tensor_in_the_services_memory_is_not_copied(service: Service, torch: Any) -> None:
    tensor = service.empty(3, 4, dtype=torch.float16, as_="torch")
    assert (tensor.dtype, tensor.shape) == (torch.float16, (3, 4))
    tensor.fill_(1)
    back = attached(service, tensor[1:, ::2], "torch")
    tensor[1, 2] = 5
    assert back.tolist() == [[1, 5], [1, 1]]
    assert service.empty(2, as_="torch").dtype is torch.get_default_dtype()
    assert service.empty(2, dtype=torch.int16).dtype is T.int16
    eighth = service.empty(2, dtype=torch.float8_e5m2, as_="torch")
    assert eighth.dtype is torch.float8_e5m2
    eighth.fill_(1)
    back = attached(service, eighth, "torch")
    eighth.fill_(2)
    assert back.tolist() == [2, 2]


def _torch_model(torch: Any) -> Any:
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3)
    )
    model[2].weight = model[0].weight
    return model.eval()


def test_torch_modules_are_published_and_attached(service: Service, torch: Any) -> None:
    model, x = _torch_model(torch), torch.ones(2, 3)
    version = service.publish("model", model)
    made, of_made = service.attach_module("model", as_="torch")
    fresh, of_fresh = service.attach_module("model", _torch_model(torch), mode="cow")
    assert of_made == of_fresh == version
    for back in (made, fresh):
        assert torch.equal(back(x), model(x))
        assert back[0].weight is back[2].weight
        assert isinstance(back[0].weight, torch.nn.Parameter)
        assert back[1].num_batches_tracked.dtype is torch.int64
    fresh(x).sum().backward()
    torch.optim.SGD(fresh.parameters(), lr=0.1).step()
    assert torch.equal(made(x), model(x))


def test_modules_of_one_library_take_the_others_weights(service: Service, torch: Any) -> None:
    model = torch.nn.Linear(3, 3)
    service.publish("model", model)
    ours, _ = service.attach_module("model", T.nn.Linear(3, 3))
    assert isinstance(ours.weight, T.nn.Parameter)
    assert ours.weight.tolist() == model.weight.tolist()
    service.publish("model", T.nn.Linear(3, 3))
    theirs, _ = service.attach_module("model", torch.nn.Linear(3, 3))
    assert isinstance(theirs.weight, torch.nn.Parameter)
    with pytest.raises(RuntimeError, match="expected a module of torch, got Linear of shmtensor"):
        service.attach_module("model", as_="torch")


@pytest.mark.parametrize(
    "text",
    [
        *("'O'", "''", "[]", "[[]]", "1", "None", "{'a': 1}", "b'<f4'", "'<f4' + 'x'", "-1j"),
        *("'V99999999999999'", "('<f4', (1099511627776,))", "'<M8[foo]'", "[('a',)]"),
        *("[('a', '<f4'), ('a', '<f4')]", "[('a', '<f4', -1)]", "[('a', [('b', '|O')])]"),
        *("(" * 200 + ")" * 200, "9" * 5000),
    ],
)
def test_dtype_that_a_stranger_wrote_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="no dtype of NumPy"):
        _libraries.numpy_dtype(text)
