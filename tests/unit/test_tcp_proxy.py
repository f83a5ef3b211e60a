"""The TCP proxy forwards every byte, and closes where its target does not listen."""

from __future__ import annotations

import asyncio
import socket

from cluster.links.tcp_proxy import listen


def port_of(server: asyncio.Server) -> int:
    """The IPv4 port; IPv6 has another."""
    (listener,) = [s for s in server.sockets if s.family == socket.AF_INET]
    port: int = listener.getsockname()[1]
    return port


async def ask(port: int, question: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(question)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def through_the_proxy(question: bytes) -> bytes:
    async def reverse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read())[::-1])
        writer.close()

    server = await asyncio.start_server(reverse, "127.0.0.1", 0)
    proxy = await listen(0, "127.0.0.1", port_of(server))
    answer = await ask(port_of(proxy), question)
    proxy.close()
    server.close()
    return answer


def test_request_and_answer_arrive_unchanged() -> None:
    question = bytes(range(256)) * 4096
    assert asyncio.run(through_the_proxy(question)) == question[::-1]


def test_the_connection_closes_where_the_target_does_not_listen() -> None:
    async def connect(target: int) -> bytes:
        proxy = await listen(0, "127.0.0.1", target)
        answer = await ask(port_of(proxy), b"")
        proxy.close()
        return answer

    with socket.socket() as taken:  # bound and not listening, so that no other program does
        taken.bind(("127.0.0.1", 0))
        assert asyncio.run(connect(taken.getsockname()[1])) == b""
