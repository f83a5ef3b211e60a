"""An all-reduce in half precision that adds what rounding lost to the next round's tensor."""

import torch
import torch.distributed as dist


def exchange(tensor, round):
    whole = tensor + round.memory.get("lost", 0)
    half = whole.half()
    round.memory["lost"] = whole - half
    rows = [torch.empty_like(half) for _ in range(round.workers)]
    dist.all_gather(rows, half)
    tensor.copy_(torch.stack(rows).float().mean(0))


def messages(round, setting):
    """Gloo's all_gather is a ring: every worker passes on N-1 tensors of half the size."""
    n, size = round.workers, setting.model_bytes / 2
    return [(rank, (rank + 1) % n, size, step) for step in range(n - 1) for rank in range(n)]
