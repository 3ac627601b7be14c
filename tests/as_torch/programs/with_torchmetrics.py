"""Metrics of torchmetrics, whole and over batches."""

import torch
import torchmetrics as tm

torch.manual_seed(0)
scores = torch.rand(50, 5).softmax(-1)
labels = torch.randint(0, 5, (50,))
kind = {"task": "multiclass", "num_classes": 5}
for metric in (
    tm.Accuracy(**kind),
    tm.AUROC(**kind),
    tm.F1Score(average="macro", **kind),
    tm.ConfusionMatrix(**kind),
    tm.CalibrationError(**kind),
):
    for part in (slice(0, 20), slice(20, 50)):
        metric.update(scores[part], labels[part])
    print(type(metric).__name__, *(f"{v:.5f}" for v in metric.compute().view(-1).tolist()))
collection = tm.MetricCollection([tm.MeanSquaredError(), tm.MeanAbsoluteError(), tm.R2Score()])
values = collection(scores[:, 0], labels / 5)
print(*(f"{name} {values[name].item():.5f}" for name in sorted(values)))
