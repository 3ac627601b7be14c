"""tensordict: nested batches of tensors, stacking, functional modules."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

torch.manual_seed(0)
data = TensorDict({"a": torch.randn(4, 3), "b": {"c": torch.arange(8).view(4, 2)}}, batch_size=[4])
print(data["b", "c"].tolist(), data.shape, data[1:3]["a"].shape)
both = torch.stack([data, data.clone()])
print(both.shape, both["a"].shape, torch.cat([data, data]).shape)
print(data.apply(lambda t: t + 1)["b", "c"].sum().item(), data.reshape(2, 2)["b", "c"].shape)
model = TensorDictSequential(
    TensorDictModule(torch.nn.Linear(3, 5), in_keys=["a"], out_keys=["h"]),
    TensorDictModule(torch.nn.ReLU(), in_keys=["h"], out_keys=["h"]),
    TensorDictModule(torch.nn.Linear(5, 1), in_keys=["h"], out_keys=["y"]),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(data.clone())["y"].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
parameters = TensorDict.from_module(model)
print(len(parameters.flatten_keys()))
with parameters.data.apply(torch.zeros_like).to_module(model):
    print(model(data.clone())["y"].abs().sum().item())
