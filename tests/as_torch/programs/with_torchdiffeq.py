"""torchdiffeq: solvers, and the adjoint method for a network."""

import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)
a = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], dtype=torch.float64)
start, times = torch.tensor([[2.0, 0.0]], dtype=torch.float64), torch.linspace(0, 1, 40).double()
true = odeint(lambda t, y: y**3 @ a, start, times, method="dopri5")
print(f"{true.abs().sum().item():.6f}")
for method in ("midpoint", "rk4", "bosh3", "dopri8"):
    print(method, f"{odeint(lambda t, y: y**3 @ a, start, times, method=method).sum().item():.6f}")


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 2)
        ).double()

    def forward(self, t, y):
        return self.net(y**3)


field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=1e-2)
for _ in range(5):
    loss = (odeint_adjoint(field, start, times) - true).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
when, _ = odeint_event(
    lambda t, y: torch.stack([y[1], -torch.ones_like(y[1])]),
    torch.tensor([1.0, 0.0]),
    torch.tensor(0.0),
    event_fn=lambda t, y: y[0],
)
print(f"{when.item():.5f}")
