"""Tensors of other libraries: what meets ours by mistake is named, what is given is taken over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T


class Foreign:
    """A tensor of a library that exchanges memory and answers calls as torch's does."""

    def __init__(self, tensor: T.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call the function as it was called."""
        return func(*args, **(kwargs or {}))


def add(x: Any, y: Any) -> Any:
    """A function of such a library: it asks whatever answers."""
    return x.__torch_function__(add, (type(x),), (x, y), {})


F = Foreign(T.arange(3.0))


@pytest.mark.check
@pytest.mark.parametrize("make", [T.tensor, T.as_tensor, T.asarray])
def test_values_of_another_library_are_taken(make: Callable[..., T.Tensor]) -> None:
    made = make(F)
    assert made.tolist() == [0.0, 1.0, 2.0]
    assert (made.data_ptr() == F.tensor.data_ptr()) == (make is not T.tensor)
    assert make(F, dtype=T.float64).dtype is T.float64
    assert make(F, device="meta").is_meta


def test_values_of_another_library_in_asarray() -> None:
    assert T.asarray(F, copy=True).data_ptr() != F.tensor.data_ptr()
    assert T.asarray(F, copy=False).data_ptr() == F.tensor.data_ptr()
    with pytest.raises(ValueError, match="can't alias"):
        T.asarray(F, dtype=T.float64, copy=False)
    assert T.ones(1).new_tensor(F).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: T.add(T.ones(3), F),
        lambda: T.add(F, T.ones(3)),
        lambda: T.ones(3).add_(F),
        lambda: T.ones(3).copy_(F),
        lambda: T.stack([F, F]),
        lambda: T.nn.Linear(3, 1)(F),
        lambda: T.where(F, 1, 2),
        lambda: T.ones(3)[F],
        lambda: T.ones(3).__setitem__(0, F),
        lambda: add(T.ones(3), 1),
        lambda: add(T.nn.Parameter(T.ones(3)), 1),
    ],
)
def test_an_operand_of_another_library_is_an_error_that_helps(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"from_dlpack\(\)"):
        call()


def test_a_function_may_ask_again_for_other_arguments() -> None:
    def count(*, x: Any, n: int) -> Any:
        if n == 0:
            return x
        return x.__torch_function__(count, (type(x),), (), {"x": x, "n": n - 1})

    assert count(x=T.nn.Parameter(T.ones(2)), n=3).tolist() == [1.0, 1.0]


def test_a_function_in_python_is_not_asked_about_without_end() -> None:
    def double(x: Any) -> Any:
        if T.overrides.has_torch_function((x,)):
            return T.overrides.handle_torch_function(double, (x,), x)
        return x * 2

    for _ in range(2):
        with pytest.raises(TypeError, match=r"no implementation found for .*double"):
            double(F)
    assert double(T.ones(1)).tolist() == [2.0]


@pytest.mark.check
def test_an_operator_leaves_other_libraries_to_answer() -> None:
    class Answers(Foreign):
        def __radd__(self, other: Any) -> str:
            return "answered"

    assert T.ones(3) + Answers(T.ones(3)) == "answered"
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+"):
        T.ones(3) + F
    assert T.ones(3).__add__(F) is NotImplemented


def test_a_sequence_of_foreign_tensors_has_no_dtype() -> None:
    with pytest.raises(RuntimeError, match=r"Could not infer dtype of Foreign \(from_dlpack\(\)"):
        T.tensor([F])


def test_torch_constants_are_told_from_ours() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"torch\.float32 is of another package; shmtensor has its"):
        T.zeros(3, dtype=torch.float32)
    with pytest.raises(TypeError, match="of another package"):
        T.tensor(3, dtype=torch.float32)
    with pytest.raises(TypeError, match="of another package"):
        T.ones(3, device=torch.device("cpu"))
    with pytest.raises(TypeError, match="of another package"):
        T.ones(3).to(torch.float32)


def test_torch_tensors_and_ours_in_one_call() -> None:
    torch = pytest.importorskip("torch")
    theirs, ours = torch.ones(3), T.ones(3)
    for call in (
        lambda: ours + theirs,
        lambda: theirs + ours,
        lambda: ours @ theirs,
        lambda: torch.add(ours, 1),
        lambda: torch.add(input=ours, other=1),
        lambda: torch.nn.Linear(3, 1)(ours),
        lambda: torch.stack([ours]),
        lambda: T.nn.Linear(3, 1)(theirs),
        lambda: ours[torch.tensor([0])],
    ):
        with pytest.raises(TypeError):
            call()
    assert T.tensor(theirs).tolist() == [1.0] * 3
    assert T.as_tensor(theirs).data_ptr() == theirs.data_ptr()
    assert torch.as_tensor(T.from_dlpack(theirs)).tolist() == [1.0] * 3


# --- devices that are not here ----------------------------------------------------------------


def test_an_absent_device_is_an_object_until_it_is_used() -> None:
    cuda = T.device("cuda", 1)
    assert (cuda.type, cuda.index, str(cuda)) == ("cuda", 1, "cuda:1")
    assert repr(T.device("cuda")) == "device(type='cuda')"
    assert T.device("cuda:1") == cuda != T.device("cuda")
    assert hash(T.device("cuda:1")) == hash(cuda)
    assert T.device(cuda) is cuda
    assert T.ones(1).device != T.device("cuda")
    assert {T.device(kind).type for kind in ("mps", "xpu", "xla", "hpu")} == {
        "mps",
        "xpu",
        "xla",
        "hpu",
    }


@pytest.mark.parametrize("device", ["cuda", "cuda:0", T.device("cuda")])
@pytest.mark.parametrize(
    "use",
    [
        lambda device: T.ones(2, device=device),
        lambda device: T.tensor([1], device=device),
        lambda device: T.as_tensor([1], device=device),
        lambda device: T.ones(2).to(device),
        lambda device: T.ones(2).to(device=device),
        lambda device: T.nn.Linear(1, 1, device=device),
        lambda device: T.nn.Linear(1, 1).to(device),
        lambda device: T.empty_like(T.ones(2), device=device),
        lambda device: T.UntypedStorage(3, device=device),
        lambda device: T.set_default_device(device),
    ],
)
def test_the_use_of_an_absent_device_is_an_error(use: Callable[[Any], Any], device: Any) -> None:
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        use(device)


def test_the_use_of_other_devices_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match="from the 'MPS' backend"):
        T.ones(2, device="mps")
    with pytest.raises(RuntimeError, match="Cannot access accelerator device"):
        T.ones(2, device=0)
    with pytest.raises(RuntimeError, match="Cannot access accelerator device"):
        T.device(0)
    with pytest.raises(RuntimeError, match="device type at start of device string: nowhere"):
        T.device("nowhere")
    with pytest.raises(AssertionError), T.device("cuda"):
        pass
