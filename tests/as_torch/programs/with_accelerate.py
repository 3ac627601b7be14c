"""accelerate: prepare, accumulate, clip, save and load."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(32, 4)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), 8, shuffle=True
)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for _ in range(3):
    total = 0.0
    for a, b in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(a), b)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        total += accelerator.gather(loss.detach()).item()
    print(f"{total:.6f}", f"{schedule.get_last_lr()[0]:.6f}")
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    before = [p.clone() for p in model.parameters()]
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    accelerator.load_state(folder)
print(
    all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)),
    accelerator.device,
)
