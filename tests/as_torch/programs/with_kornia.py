"""kornia: filters, geometry, colours and augmentations with derivatives."""

import kornia
import torch

torch.manual_seed(0)
image = torch.rand(1, 3, 24, 32)


def show(name, value):
    print(name, tuple(value.shape), f"{value.double().mean().item():.5f}")


show("gray", kornia.color.rgb_to_grayscale(image))
show("hsv", kornia.color.rgb_to_hsv(image))
show("lab", kornia.color.rgb_to_lab(image))
show("blur", kornia.filters.gaussian_blur2d(image, (5, 5), (1.5, 1.5)))
show("sobel", kornia.filters.sobel(image))
show("canny", kornia.filters.canny(image)[1])
show("median", kornia.filters.median_blur(image, (3, 3)))
show("dilation", kornia.morphology.dilation(image, torch.ones(3, 3)))
show("rotate", kornia.geometry.rotate(image, torch.tensor([30.0])))
corners = torch.tensor([[[0.0, 0], [31, 0], [31, 23], [0, 23]]])
moved = corners + torch.tensor([[[2.0, 1], [-1, 2], [-3, -2], [1, -1]]])
matrix = kornia.geometry.get_perspective_transform(corners, moved)
show("perspective", kornia.geometry.warp_perspective(image, matrix, (24, 32)))
show("harris", kornia.feature.harris_response(kornia.color.rgb_to_grayscale(image)))
print(f"{kornia.metrics.psnr(image, image * 0.9, 1.0).item():.5f}")
print(f"{kornia.losses.ssim_loss(image, image * 0.9, 5).item():.5f}")
angle = torch.tensor([5.0], requires_grad=True)
kornia.geometry.rotate(image, angle).square().sum().backward()
print(f"{angle.grad.item():.4f}")
torch.manual_seed(1)
augment = kornia.augmentation.AugmentationSequential(
    kornia.augmentation.RandomHorizontalFlip(p=1.0),
    kornia.augmentation.RandomAffine(10.0, p=1.0),
    kornia.augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
)
show("augmented", augment(image))
