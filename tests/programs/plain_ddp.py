"""A plain DistributedDataParallel script, as PyTorch's tutorials write it."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of the model")
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(250, args.size // 1000, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(rank)
    for _ in range(args.steps):
        inputs = torch.randn(8, 250)
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"rank {rank} of {world}: loss {loss.item():.4f}, local rank {os.environ['LOCAL_RANK']}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
