"""Processes that send each other bytes over plain sockets, and print what they sent.

Rank r sends (r + 1) x SIZE bytes to every other rank, over a connection of its own for each part.
"""

import os
import socket
import sys
import threading
import time

PORT = 5000
PARTS = 4


def serve(listener: socket.socket, connections: int) -> None:
    for _ in range(connections):
        connection, _ = listener.accept()
        with connection:
            while connection.recv(1 << 20):
                pass


def send(host: str, size: int) -> None:
    while True:
        try:
            connection = socket.create_connection((host, PORT))
            break
        except OSError:
            time.sleep(0.05)
    with connection:
        connection.sendall(bytes(size))


def main() -> None:
    size, rank, world = int(sys.argv[1]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    listener = socket.create_server(("", PORT))
    server = threading.Thread(target=serve, args=(listener, PARTS * (world - 1)))
    server.start()
    for other in range(world):
        if other != rank:
            for _ in range(PARTS):
                send(f"node{other}", (rank + 1) * size // PARTS)
            print(f"sent {rank} {other} {(rank + 1) * size}")
    server.join()


if __name__ == "__main__":
    main()
