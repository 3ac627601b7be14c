"""Programs under torch's name and programs without it exchange classes, dtypes and modules."""

from __future__ import annotations

import pytest
import service_programs as programs

import shmtensor as T
from shmtensor import nn
from shmtensor.service import Service

_THEIRS = """
import shmtensor.as_torch, sys
import torch
from shmtensor import service
there = service.Service(sys.argv[1])
back, forth = there.Queue("back"), there.Queue("forth")
values = [
    torch.float32, torch.strided, torch.channels_last, torch.Size([2]), torch.device("cpu"),
    torch.nn.ReLU, torch.nn.functional.relu, torch.add, torch.einsum, torch.nn.Linear(2, 1),
    torch.nn.Parameter(torch.ones(2)), {"dtype": torch.int8, "t": torch.ones(1)},
]
for value in values:
    forth.put(value)
got = [back.get(timeout=60) for _ in values]
assert got[:9] == values[:9], got
assert type(got[9]) is torch.nn.Linear and type(got[10]) is torch.nn.Parameter
assert got[11]["dtype"] is torch.int8
"""


@pytest.mark.check
def test_messages_are_understood_in_both_directions(
    service: Service, run: type[programs.Program]
) -> None:
    user = run(_THEIRS, service._name)
    back, forth = service.Queue("back"), service.Queue("forth")
    got = [forth.get(timeout=programs.WAIT_S) for _ in range(12)]
    assert got[:5] == [T.float32, T.strided, T.channels_last, T.Size([2]), T.device("cpu")]
    assert got[5:9] == [nn.ReLU, nn.functional.relu, T.add, T.einsum]
    assert type(got[9]) is nn.Linear and type(got[10]) is nn.Parameter
    assert got[11]["dtype"] is T.int8 and got[11]["t"].item() == 1.0
    for value in got:
        back.put(value)
    user.finish()
