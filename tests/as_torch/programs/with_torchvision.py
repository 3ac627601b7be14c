"""torchvision: transforms of images and tensors, models, and its compiled operators."""

import numpy as np
import torch
from PIL import Image
from torchvision import models, ops, transforms, tv_tensors, utils
from torchvision.transforms import v2


def show(name, value):
    value = torch.as_tensor(value).double()
    print(name, tuple(value.shape), f"{value.mean().item():.6f} {value.std().item():.6f}")


y, x = np.mgrid[0:60, 0:80]
pixels = np.stack([np.sin(x / 9) * 100 + 120, np.cos(y / 7) * 90 + 130, (x * y) % 256], -1)
picture = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
image = transforms.ToTensor()(picture)
for name, transform in {
    "resize": transforms.Resize(40),
    "crop": transforms.CenterCrop(32),
    "resized crop": transforms.RandomResizedCrop(32),
    "rotation": transforms.RandomRotation(30),
    "affine": transforms.RandomAffine(10, (0.1, 0.1), (0.8, 1.2), 5),
    "jitter": transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
    "blur": transforms.GaussianBlur(5),
    "erasing": transforms.RandomErasing(p=1.0),
    "normalize": transforms.Normalize((0.5,) * 3, (0.2,) * 3),
}.items():
    torch.manual_seed(1)
    show(name, transform(image))
    if name not in ("erasing", "normalize"):
        torch.manual_seed(1)
        show(f"{name} of a picture", transforms.functional.to_tensor(transform(picture)))

torch.manual_seed(2)
boxes = tv_tensors.BoundingBoxes(
    [[10, 10, 40, 50], [20, 5, 60, 30]], format="XYXY", canvas_size=(60, 80)
)
both = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Resize((45, 60)), v2.RandomAffine(20)])
moved, moved_boxes = both(tv_tensors.Image(image), boxes)
show("image and boxes", moved)
print(type(moved).__name__, type(moved_boxes).__name__, moved_boxes.tolist())
show("grid", utils.make_grid(torch.rand(5, 3, 8, 8)))

print(ops.box_iou(boxes, boxes + 5).tolist())
for make in (models.resnet18, models.mobilenet_v3_small, models.vit_b_16):
    torch.manual_seed(0)
    model = make(num_classes=10, **({"image_size": 32} if make is models.vit_b_16 else {}))
    model.eval()  # without the statistics of a batch of two
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    batch, labels = torch.randn(2, 3, 32, 32), torch.randint(10, (2,))
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(make.__name__, f"{loss.item():.6f}")
