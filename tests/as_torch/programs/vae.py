"""A variational autoencoder, and a generator and a discriminator that learn against each other."""

import torch
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc21 = nn.Linear(32, 4)
        self.fc22 = nn.Linear(32, 4)
        self.fc3 = nn.Linear(4, 32)
        self.fc4 = nn.Linear(32, 64)

    def forward(self, x):
        h = F.relu(self.fc1(x.view(-1, 64)))
        mu, logvar = self.fc21(h), self.fc22(h)
        std = torch.exp(0.5 * logvar)
        z = mu + torch.randn_like(std) * std
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def train_vae(images):
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(20):
        recon, mu, logvar = model(images)
        bce = F.binary_cross_entropy(recon, images.view(-1, 64), reduction="sum")
        loss = bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"vae {loss.item() / len(images):.4f}")


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        torch.nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        torch.nn.init.normal_(m.weight, 1.0, 0.02)
        torch.nn.init.zeros_(m.bias)


def train_gan(images):
    generator = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    discriminator = nn.Sequential(
        nn.Conv2d(1, 16, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(16, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
    )
    generator.apply(weights_init)
    discriminator.apply(weights_init)
    criterion = nn.BCELoss()
    optim_d = optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optim_g = optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    label = torch.full((len(images),), 1.0)
    for _ in range(5):
        discriminator.zero_grad()
        err_real = criterion(discriminator(images).view(-1).squeeze(), label.fill_(1))
        err_real.backward()
        fake = generator(torch.randn(len(images), 8, 1, 1))
        err_fake = criterion(discriminator(fake.detach()).view(-1), label.fill_(0))
        err_fake.backward()
        optim_d.step()
        generator.zero_grad()
        err_g = criterion(discriminator(fake).view(-1), label.fill_(1))
        err_g.backward()
        optim_g.step()
        print(f"gan {err_real.item() + err_fake.item():.4f} {err_g.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    pictures = (torch.rand(32, 1, 8, 8) > 0.5).float()
    train_vae(pictures)
    train_gan(pictures * 2 - 1)
