"""Says whether a port of the host can be reached from a node, and sends 3 MB: reaches.py PORT."""

import socket
import sys

import torch.distributed as dist

try:
    with socket.create_connection(("host.docker.internal", int(sys.argv[1])), timeout=10) as host:
        host.sendall(bytes(3_000_000))
    print("the host answers")
except OSError:
    print("there is no way out")
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
