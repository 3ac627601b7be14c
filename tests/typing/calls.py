"""Calls as programs write them: test_calls.py runs them, and ``make types`` checks their types."""

from __future__ import annotations

import shmtensor as torch
import shmtensor.multiprocessing as mp
import shmtensor.nn.functional as F
from shmtensor import Tensor, fft, linalg, nn, special


def make() -> Tensor:
    torch.manual_seed(0)
    print(torch.zeros(2, 3), torch.zeros((2, 3), dtype=torch.int32))
    print(torch.zeros([2, 3], shared=True), torch.zeros(size=(2, 3)))
    print(torch.full((2, 2), 3.0), torch.ones(2, dtype=float))
    print(torch.arange(0, 10, 2, dtype=torch.float32), torch.linspace(0, 1, 5))
    print(torch.randint(0, 10, (3,)), torch.randint(10, (3,)))
    torch.normal(0.0, 1.0, (2, 2)).new_zeros(2, 3).new_tensor([1, 2])
    torch.multinomial(torch.ones(3), 2)
    torch.from_numpy(torch.ones(3).numpy())
    print(torch.Tensor([1.0, 2.0]), torch.Tensor(2, 2))
    print(torch.FloatTensor([1.0]), torch.LongTensor([1]))
    return torch.randn(3, 4, device="cpu")


def calculate(x: Tensor) -> None:
    total: float = x.sum().item()
    print(total, 2 * x - x / 3 + x**2 // 2 % 2 - 1 / (x + 1), 1 - x, -x, abs(x), x @ x.T, x == 1)
    print(~(x > 0), len(x), float(x.sum()), int(x.sum()), [row.sum() for row in x])
    print(x.sum(0), x.sum(dim=1, keepdim=True).sum(axis=1, keepdims=False))
    print(x.sum(0, keepdims=True), torch.sum(x, (0, 1)), torch.sum(input=x, axis=0))
    torch.max(x, dim=1).indices.add(torch.max(x, 1, keepdims=True)[1])
    torch.max(x, x)
    values, places = torch.topk(x, 2)
    print(values, places, x.sort(descending=True).values, torch.sort(x, dim=0)[1])
    torch.add(x, x, alpha=2, out=torch.empty(3, 4))
    torch.add(x, 1, out=torch.empty(3, 4))
    torch.sum(x, dim=[0, 1], out=torch.empty(()))
    torch.where(x > 0, x, 0.0).clamp(min=0).clamp(0, 1)
    print(x.std(dim=0, unbiased=False), torch.var(x, axis=0, correction=0))
    torch.softmax(x, axis=0).log_softmax(-1)
    print(torch.logsumexp(x, dim=1, keepdim=True), torch.median(x, dim=1).values)
    torch.einsum("ij,kj->ik", x, x).addmm(x, x.T, beta=0.5)
    print(torch.tensordot(x, x, dims=2), torch.cdist(x, x, p=1.0))
    same: bool = torch.equal(x, x) and torch.allclose(x, x, rtol=1e-3)
    print(same, torch.isclose(x, x).all(dim=1), x.argmax(dim=1), torch.any(x > 0, axis=0))
    x.clone().mul_(2).add_(1).fill_(1).zero_().copy_(x)


def move(x: Tensor) -> None:
    x.view(4, 3).view((4, 3)).view(size=(2, 6)).reshape(-1)
    x.permute(1, 0).permute((1, 0)).transpose(0, 1).unsqueeze(0).squeeze(dim=0).flatten()
    print(torch.cat([x, x], dim=1), torch.concat((x, x), axis=1), torch.hstack([x, x]))
    torch.stack([x, x], 0).mT.expand(2, 4, 3).repeat(2, 1, 1)
    x[0] = x[1] + x[x > 0].sum() + x[..., None][:, 1:3].sum()
    x[0, 0] = 5
    print(x.split(2)[0], torch.chunk(x, 2, dim=1)[0].sum(), torch.split(x, [1, 2])[0].sum())
    print(x.gather(1, torch.zeros(3, 1, dtype=torch.int64)), torch.take_along_dim(x, x.long() * 0))
    x.scatter(1, torch.zeros(3, 1, dtype=torch.int64), 1.0).masked_fill(x > 0, 0)
    print(torch.roll(x, shifts=(1, 2), dims=(0, 1)), x.roll(1, 0), torch.flip(x, [0]))
    rows, columns = torch.nonzero(x, as_tuple=True)
    found, counts = torch.unique(rows, return_counts=True)
    print(rows, columns, found, counts, torch.meshgrid(rows, columns, indexing="ij")[0])
    x.to(torch.float64).to("cpu", non_blocking=True).to("meta", torch.int8)
    x.to(dtype=float, copy=True).to(x).to(None, torch.int8).float().cpu()
    x.float(memory_format=torch.contiguous_format).type(torch.float64)
    size: int = x.size(0) + x.size()[1] + x.shape[0] + x.stride(0) + x.storage_offset() + x.ndim
    print(size, x.tolist(), x.dtype.itemsize, x.is_floating_point(), torch.finfo(x.dtype).eps)


def libraries(x: Tensor) -> None:
    u, s, v = linalg.svd(x)
    print(u, s, v, linalg.qr(x).Q, linalg.eigh(torch.eye(3)).eigenvalues, linalg.norm(x, ord=2))
    print(linalg.solve(torch.eye(3), torch.ones(3)), linalg.vector_norm(x.T, axis=0))
    print(fft.fft(x, n=8, dim=-1, norm="ortho").real, special.erf(x), special.logsumexp(x, 0))
    print(F.softmax(F.relu(x), dim=-1), F.layer_norm(x, (4,)), F.dropout(x, p=0.1))
    F.cross_entropy(x, torch.tensor([0, 1, 2]))
    F.conv2d(torch.ones(1, 1, 5, 5), torch.ones(1, 1, 3, 3), padding="same")
    F.interpolate(torch.ones(1, 1, 4, 4), scale_factor=2, mode="bilinear")


def train(x: Tensor) -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    w = torch.randn(3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(w.exp().sum(), w)
    with torch.no_grad():
        w.sub_(gradient)


def put(queue: mp.Queue, x: Tensor) -> None:
    queue.put(x)


def share(x: Tensor) -> None:
    queue = mp.Queue()
    queue.put_many([x.share_memory_(), mp.lend(x)])
    print(queue.get_many(2, 1.0), queue.fileno())
    process = mp.get_context("fork").Process(target=put, args=(queue, x))
    process.start()
    print(queue.get(timeout=60))
    process.join()
    mp.spawn(print, args=(), nprocs=1, start_method="fork")


def main() -> None:
    for part in (calculate, move, libraries, train, share):
        part(make())


if __name__ == "__main__":
    main()
