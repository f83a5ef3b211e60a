"""Forwards TCP connections into an internal network, whose ports Docker cannot publish:

python -m cluster.links.tcp_proxy 8080=master:8080 4040=driver:4040
"""

import asyncio
import contextlib
import sys
from asyncio import StreamReader, StreamWriter

CHUNK_BYTES = 65536


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    """Copy until the sender closes its side, or a connection breaks."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


async def listen(port: int, target_host: str, target_port: int) -> asyncio.Server:
    """A server on `port` that forwards every connection; closes it where the target refuses."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                answers, requests = await asyncio.open_connection(target_host, target_port)
            except OSError:
                return
            with contextlib.closing(requests):
                await asyncio.gather(_copy(reader, requests), _copy(answers, writer))

    return await asyncio.start_server(serve, port=port)


async def main(rules: list[str]) -> None:
    servers = []
    for rule in rules:
        port, _, target = rule.partition("=")
        host, _, target_port = target.partition(":")
        servers.append(await listen(int(port), host, int(target_port)))
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
