"""Gather and scatter of gradients as first courses write it: rank 0 averages, and sends back."""

import sys

import torch
import torch.distributed as dist
from torch import nn


def average_gradients(model: nn.Module, rank: int, world: int) -> None:
    for parameter in model.parameters():
        gradient = parameter.grad
        assert gradient is not None
        if rank == 0:
            gathered = [torch.zeros_like(gradient) for _ in range(world)]
            dist.gather(gradient, gathered, dst=0)
            mean = torch.stack(gathered).mean(dim=0)
            dist.scatter(gradient, [mean] * world, src=0)
        else:
            dist.gather(gradient, dst=0)
            dist.scatter(gradient, src=0)


def main() -> None:
    size, steps = int(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Linear(250, size // 1000, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(rank)
    for _ in range(steps):
        loss = model(torch.randn(8, 250)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model, rank, world)
        optimizer.step()
    print(f"rank {rank}: loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
