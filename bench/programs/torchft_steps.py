"""torchft on the nodes of a run: torchft_steps.py STEPS NUMBERS COMPUTE_S [RANK:STEP:DOWN_S]

Every node is a replica with a manager and ProcessGroupGloo; the lighthouse is beside node 0's
replica. A step sleeps COMPUTE_S, averages NUMBERS gradients of 32 bits and commits. RANK is killed
at the begin of STEP, and starts again DOWN_S later. Prints what each node saw, as JSON.

Needs torchft, by --requirements torchft.txt. Run by `python3 -m bench torchft`.
"""

import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

PORT = 29600
IDLE_S = 3.0
"""Without steps at the end: what managers and lighthouse send meanwhile is control traffic."""


def sent_bytes() -> int:
    """By eth0."""
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("eth0:"))
    return int(line.partition(":")[2].split()[8])


def tell(what: str, **values: object) -> None:
    line = json.dumps({"what": what, "t": time.time(), **values})
    os.write(1, f"\ntorchft told {line}\n".encode())  # at once, on a line of its own


def train(steps: int, numbers: int, compute_s: float, kill_at: int) -> None:
    """`kill_at`: 0 for never."""
    import signal

    import torch
    import torch.distributed as dist
    from torchft import Manager, ProcessGroupGloo

    torch.set_num_threads(1)
    model = torch.nn.Parameter(torch.zeros(numbers))
    optimizer = torch.optim.SGD([model], lr=0.01, momentum=0.9)

    def load(state: dict[str, Any]) -> None:
        optimizer.load_state_dict(state["optimizer"])
        model.data.copy_(state["model"])

    name = f"node{os.environ['RANK']}"
    store = dist.TCPStore(  # type: ignore[attr-defined]
        name, 0, is_master=True, wait_for_workers=False
    )
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=30)),
        load_state_dict=load,
        state_dict=lambda: {"optimizer": optimizer.state_dict(), "model": model.data},
        min_replica_size=2,
        use_async_quorum=False,
        replica_id=f"replica_{os.environ['RANK']}",
        store_addr=name,
        store_port=store.port,
        rank=0,
        world_size=1,
        lighthouse_addr=f"http://node0:{PORT}",
        timeout=timedelta(seconds=30),
        quorum_timeout=timedelta(seconds=60),
    )
    while manager.current_step() < steps:
        if manager.current_step() + 1 == kill_at:
            tell("killed", step=kill_at, sent=sent_bytes())
            os.kill(os.getpid(), signal.SIGKILL)
        began = time.time()
        manager.start_quorum()
        time.sleep(compute_s)
        gradients = torch.full((numbers,), float(manager.current_step()))
        manager.allreduce(gradients).wait()
        model.grad = gradients
        done = manager.should_commit()
        if done:
            optimizer.step()
        tell(
            "step",
            step=manager.current_step(),
            committed=done,
            members=manager.num_participants(),
            step_s=round(time.time() - began, 6),
            sent=sent_bytes(),
        )
    time.sleep(IDLE_S / 3)
    before = sent_bytes()
    time.sleep(IDLE_S)
    tell("idle", sent_per_s=(sent_bytes() - before) / IDLE_S, sum=float(model.detach().sum()))
    time.sleep(IDLE_S / 3)
    os._exit(0)  # its threads go on


def keep() -> int:
    """Start the replica, and once more where it was killed."""
    rank, kill = int(os.environ["RANK"]), sys.argv[4] if len(sys.argv) > 4 else ""
    victim, step, down_s = map(float, (kill or "-1:0:0").split(":"))
    lighthouse = None
    if rank == 0:
        from torchft.coordination import LighthouseServer

        workers = int(os.environ["WORLD_SIZE"])
        lighthouse = LighthouseServer(
            bind=f"[::]:{PORT}", min_replicas=2, join_timeout_ms=workers * 500
        )
    while True:
        kill_at = str(int(step)) if rank == victim else "0"
        code = subprocess.run(
            [sys.executable, os.path.abspath(__file__), *sys.argv[1:4], "--replica", kill_at],
            check=False,
        ).returncode
        if code >= 0:
            break
        victim = -1
        time.sleep(down_s)
        tell("restarted")
    if lighthouse is not None:
        time.sleep(IDLE_S)  # others may be a little later
    return code


if __name__ == "__main__":
    if "--replica" in sys.argv:
        train(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[5]))
    sys.exit(keep())
