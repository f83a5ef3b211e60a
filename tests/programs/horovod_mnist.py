"""Horovod's usual script for MNIST, with digits that are drawn at random."""

import argparse

import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(320, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        x = functional.relu(self.fc1(x.view(-1, 320)))
        return functional.log_softmax(self.fc2(x), dim=1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--samples", type=int, default=640)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    images, labels = torch.randn(args.samples, 1, 28, 28), torch.randint(10, (args.samples,))
    data = TensorDataset(images, labels)
    sampler: DistributedSampler[TensorDataset] = DistributedSampler(
        data, num_replicas=hvd.size(), rank=hvd.rank()
    )
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    size = sum(parameter.nbytes for parameter in model.parameters())
    for batch, (inputs, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = functional.nll_loss(model(inputs), target)
        loss.backward()
        optimizer.step()
        if batch % 5 == 0 and hvd.rank() == 0:
            print(f"batch {batch}: loss {loss.item():.4f}")
    if hvd.rank() == 0:
        print(f"model {size} bytes, {len(loader)} batches")


if __name__ == "__main__":
    main()
