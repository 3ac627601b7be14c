"""A convolutional network on handwritten digits: data loader, schedule, evaluation, checkpoint."""

import argparse
import io

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from sklearn.datasets import load_digits
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def train(model, device, loader, optimizer):
    model.train()
    for batch, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if batch % 10 == 0:
            print(f"loss {loss.item():.5f}")


@torch.no_grad()
def test(model, device, loader):
    model.eval()
    loss, correct = 0.0, 0
    for data, target in loader:
        output = model(data.to(device))
        loss += F.nll_loss(output, target, reduction="sum").item()
        correct += output.argmax(dim=1, keepdim=True).eq(target.view_as(output[:, :1])).sum().item()
    print(f"test {loss / len(loader.dataset):.5f} {correct / len(loader.dataset):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    data = TensorDataset(x, torch.as_tensor(labels))
    train_set, test_set = random_split(data, [1500, 297])
    loader = DataLoader(train_set, batch_size=50, shuffle=True, num_workers=1)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for _ in range(args.epochs):
        train(model, device, loader, optimizer)
        test(model, device, DataLoader(test_set, batch_size=100))
        scheduler.step()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = Net()
    again.load_state_dict(torch.load(file))
    test(again, device, DataLoader(test_set, batch_size=100))


if __name__ == "__main__":
    main()
