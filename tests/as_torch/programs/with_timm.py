"""timm: a ResNet and a ViT train, with its optimizers, schedules and losses."""

import timm
import timm.loss
import timm.optim
import timm.scheduler
import torch

for name, options in (("resnet18", {}), ("vit_tiny_patch16_224", {"img_size": 48})):
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10, **options).train()
    optimizer = timm.optim.create_optimizer_v2(model, "adamw", lr=1e-4, weight_decay=0.05)
    schedule, _ = timm.scheduler.create_scheduler_v2(optimizer, num_epochs=4)
    loss_of = timm.loss.LabelSmoothingCrossEntropy()
    x, y = torch.randn(4, 3, 48, 48), torch.randint(10, (4,))
    for step in range(3):
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step(step + 1)
        print(name, f"{loss.item():.6f}", flush=True)
    model.eval()
    with torch.no_grad():
        print(name, f"{model(x).abs().mean().item():.6f}", model.num_features)
features = timm.create_model("resnet18", features_only=True)(x)
print(*[tuple(part.shape) for part in features])
