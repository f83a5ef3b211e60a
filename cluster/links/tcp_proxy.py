"""Passes TCP connections on: the one door into a network that has no way in or out.

python -m cluster.links.tcp_proxy 8080=master:8080 4040=driver:4040
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio import StreamReader, StreamWriter

CHUNK_BYTES = 65536


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    """Until the sender is done, or one of them is gone."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


async def listen(port: int, host: str, target: int) -> asyncio.Server:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                there = await asyncio.open_connection(host, target)
            except OSError:
                return  # nobody there yet: a caller sees the connection closed
            with contextlib.closing(there[1]):
                await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))

    return await asyncio.start_server(serve, port=port)


async def main(doors: list[str]) -> None:
    servers = []
    for door in doors:
        port, _, there = door.partition("=")
        host, _, target = there.partition(":")
        servers.append(await listen(int(port), host, int(target)))
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
