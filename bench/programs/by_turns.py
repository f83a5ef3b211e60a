"""Trains by turns with and without the counting of a program's calls: by_turns.py TURNS STEPS.

Each turn is two interpreters, one after the other on every node. `python -I` reads no PYTHONPATH,
so that nothing of gradwire is imported. Prints [[seconds a step, without], ...] on node 0.
"""

import json
import os
import subprocess
import sys
import time

STEPS_OF_WARM_UP = 20


def train(steps: int) -> float:
    """Seconds of a step."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(250, 500), nn.Linear(500, 250)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps + STEPS_OF_WARM_UP):
        if step == STEPS_OF_WARM_UP:
            dist.barrier()
            started = time.perf_counter()
        loss = model(torch.randn(64, 250)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seconds = (time.perf_counter() - started) / steps
    dist.barrier()
    dist.destroy_process_group()
    return seconds


def seconds_of(flags: list[str], steps: str, port: int) -> float:
    environment = {**os.environ, "MASTER_PORT": str(port)}
    command = [sys.executable, *flags, os.path.abspath(__file__), steps]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    if len(sys.argv) == 2:
        print(train(int(sys.argv[1])))
        return
    turns, steps = int(sys.argv[1]), sys.argv[2]
    port = int(os.environ["MASTER_PORT"])
    found = []
    for turn in range(turns):
        pair = {}
        for place, flags in enumerate([[], ["-I"]] if turn % 2 else [["-I"], []]):
            pair[bool(flags)] = seconds_of(flags, steps, port + 1 + 2 * turn + place)
        found.append([pair[False], pair[True]])
    if os.environ["RANK"] == "0":
        print("seconds", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
