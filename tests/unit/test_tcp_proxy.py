"""A connection that is passed on carries the same bytes, and closes where nobody is."""

from __future__ import annotations

import asyncio
import socket

from cluster.links.tcp_proxy import listen


def port_of(server: asyncio.Server) -> int:
    """At 127.0.0.1; another was taken for IPv6."""
    (here,) = [one for one in server.sockets if one.family == socket.AF_INET]
    port: int = here.getsockname()[1]
    return port


async def ask(port: int, question: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(question)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def through_the_door(question: bytes) -> bytes:
    async def reverse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read())[::-1])
        writer.close()

    server = await asyncio.start_server(reverse, "127.0.0.1", 0)
    passing = await listen(0, "127.0.0.1", port_of(server))
    answer = await ask(port_of(passing), question)
    passing.close()
    server.close()
    return answer


def test_what_is_asked_arrives_and_so_does_the_answer() -> None:
    question = bytes(range(256)) * 4096
    assert asyncio.run(through_the_door(question)) == question[::-1]


def test_where_nobody_is_the_connection_closes() -> None:
    async def knock(nobody: int) -> bytes:
        passing = await listen(0, "127.0.0.1", nobody)
        answer = await ask(port_of(passing), b"")
        passing.close()
        return answer

    with socket.socket() as taken:  # by one that does not listen, so that nobody else will
        taken.bind(("127.0.0.1", 0))
        assert asyncio.run(knock(taken.getsockname()[1])) == b""
