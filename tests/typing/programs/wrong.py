"""Calls that type checkers refuse, each with the kind of the error. The program never runs.

tools/check_typing.py compares.
"""

from __future__ import annotations

import shmtensor as torch
import shmtensor.multiprocessing as mp
from shmtensor import Tensor, nn, optim
from shmtensor.utils.data import DataLoader, Dataset


class Numbers(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


def refused(x: Tensor, model: nn.Linear) -> None:
    torch.zeros("3")  # error: arg-type
    torch.zeros(3, dtype="float32")  # error: call-overload
    torch.add(x)  # error: call-overload
    torch.add(x, "1")  # error: call-overload
    torch.cat(x, dims=0)  # error: call-overload
    torch.manual_seed("0")  # error: arg-type
    x.sum(dim="rows")  # error: arg-type
    x.reshape(2.5)  # error: call-overload
    x["a"]  # error: index
    x[0] = "a"  # error: assignment
    x.sizes(0)  # error: attr-defined
    x.dtype = torch.float64  # error: misc
    x.requires_grad = 1  # error: assignment
    x.grad.sum()  # error: union-attr
    x.to(3.5)  # error: call-overload
    torch.max(x, 0).value  # error: attr-defined
    torch.optim.AdamV(model.parameters())  # error: attr-defined
    optim.SGD(model.parameters(), rate=0.1)  # error: call-arg
    nn.Linear("4", 2)  # error: arg-type
    model("input")  # error: arg-type
    model(x, x)  # error: call-arg
    text: str = model(x)  # error: assignment
    print(text, torch.no_such_name)  # error: attr-defined
    DataLoader(3)  # error: arg-type
    loader: DataLoader[str] = DataLoader(Numbers())  # error: arg-type
    print(loader)
    mp.Queue("4")  # error: arg-type
    mp.get_context("spawn").Queue(adopt=3)  # error: arg-type
    mp.Queue().put_many(3)  # error: arg-type
    numbers: mp.Queue[int] = mp.Queue()
    numbers.put("one")  # error: arg-type
    words: str = numbers.get()  # error: assignment
    print(words)
    torch.device(1.5)  # error: arg-type
    torch.float32.size  # error: attr-defined
