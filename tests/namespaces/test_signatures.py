"""Public functions, classes and methods take torch's arguments: names, order, kinds, defaults."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

MODULES = """
    amp amp.autocast_mode amp.grad_scaler distributions distributions.constraints
    distributions.kl distributions.transforms nn nn.attention nn.attention.bias
    nn.attention.flex_attention nn.init nn.functional nn.utils nn.utils.parametrizations
    nn.utils.parametrize nn.utils.prune nn.utils.rnn nn.utils.stateless optim optim.lr_scheduler
    optim.optimizer optim.swa_utils signal.windows testing utils.data
""".split()

# What differs, and why.
KNOWN = {
    "nn.Transformer": "the default is the name of the function that is torch's",
    "nn.TransformerDecoderLayer": "likewise",
    "nn.TransformerEncoderLayer": "likewise",
    "nn.RNNBase.forward": "the arguments of those that torch's base class leaves open",
    "nn.Container": "torch's is never called",
    "nn.parallel.DistributedDataParallel": "refused as a whole",
    "nn.functional.boolean_dispatch": "takes less: nothing here compiles it",
    "utils.data.DataLoader": "takes the library of its batches",
    "utils.data.random_split": "the default generators are objects of each library",
}
KNOWN_METHODS = {"share_memory": "of optimisers, takes the exact mode"}
# torch's own are wrappers whose arguments cannot be seen.
OPEN = inspect.signature(lambda *args, **kwargs: None)


def default_text(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return "none"
    text = re.sub(r"shmtensor\.|torch\.|<class '|'>| at 0x[0-9a-f]+", "", repr(parameter.default))
    return "strided" if text in ("None", "strided") and parameter.name == "layout" else text


def parameters(function: Any) -> list[tuple[str, Any, str]] | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    if [p.kind for p in signature.parameters.values()] == [
        p.kind for p in OPEN.parameters.values()
    ]:
        return None
    return [(p.name, p.kind, default_text(p)) for p in signature.parameters.values()]


def public(module: Any) -> list[str]:
    return sorted(getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"])


def methods(kind: type) -> Iterator[str]:
    """Methods that torch wrote in Python; tensors' are elsewhere."""
    for name in dir(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), None)
        if owner is None or not owner.__module__.startswith("torch") or name.startswith("_"):
            continue
        if issubclass(owner, torch.Tensor) or not inspect.isfunction(getattr(kind, name)):
            continue
        yield name


def pairs(module: str) -> Iterator[tuple[str, Any, Any]]:
    theirs = importlib.import_module(f"torch.{module}")
    ours = importlib.import_module(f"shmtensor.{module}")
    for name in public(theirs):
        its, mine = getattr(theirs, name), getattr(ours, name, None)
        if not callable(its) or mine is None or not its.__module__.startswith("torch"):
            continue
        yield f"{module}.{name}", its, mine
        if inspect.isclass(its):
            for method in methods(its):
                if hasattr(mine, method):
                    yield f"{module}.{name}.{method}", getattr(its, method), getattr(mine, method)


@pytest.mark.parametrize("module", MODULES)
def test_arguments_are_torch_s(module: str) -> None:
    different = []
    for name, its, mine in pairs(module):
        expected, found = parameters(its), parameters(mine)
        known = name in KNOWN or name.rpartition(".")[2] in KNOWN_METHODS
        if expected is None or found is None or known or expected == found:
            continue
        if its is torch.nn.Module.forward:  # raises, whatever it is called with
            continue
        different.append((name, expected, found))
    assert different == []
