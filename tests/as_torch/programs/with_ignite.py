"""pytorch-ignite and captum: a run of an engine with metrics and handlers, and attributions."""

import warnings

import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    InputXGradient,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    Occlusion,
    Saliency,
)
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import CosineAnnealingScheduler, EMAHandler
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, Precision, Recall, RunningAverage
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
x = torch.randn(400, 10)
y = (x[:, 0] > 0).long()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 32, shuffle=True)
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
loss = nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, optimizer, loss)
metrics = {
    "accuracy": Accuracy(),
    "loss": Loss(loss),
    "table": ConfusionMatrix(2),
    "precision": Precision(),
    "recall": Recall(average=True),
}
evaluator = create_supervised_evaluator(model, metrics)
RunningAverage(output_transform=lambda value: value).attach(trainer, "average")
schedule = CosineAnnealingScheduler(optimizer, "lr", 1e-2, 1e-3, 50)
trainer.add_event_handler(Events.ITERATION_STARTED, schedule)
averages = EMAHandler(model)
averages.attach(trainer)


@trainer.on(Events.EPOCH_COMPLETED)
def measure(engine):
    evaluator.run(loader)
    print(f"{engine.state.metrics['average']:.5f}", f"{optimizer.param_groups[0]['lr']:.5f}")
    for name, value in evaluator.state.metrics.items():
        print(name, *torch.as_tensor(value).reshape(-1).tolist())


trainer.run(loader, 3)
print(f"{averages.ema_model(x).sum().item():.4f}")

image = torch.randn(2, 1, 8, 8)
net = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10)
)
for kind in (Saliency, InputXGradient, DeepLift, IntegratedGradients, FeatureAblation):
    print(kind.__name__, f"{kind(net).attribute(image, target=3).sum().item():.4f}")
print(f"{Occlusion(net).attribute(image, (1, 3, 3), target=1).sum().item():.4f}")
print(f"{LayerConductance(net, net[0]).attribute(image, target=1).sum().item():.4f}")
print(f"{LayerGradCam(net, net[0]).attribute(image, target=1).sum().item():.4f}")
