"""A connection that is passed on carries the same bytes, and closes where nobody is."""

from __future__ import annotations

import asyncio
import socket

from cluster.pass_on import listen


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
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
    door = free_port()
    passing = await listen(door, "127.0.0.1", server.sockets[0].getsockname()[1])
    answer = await asyncio.wait_for(ask(door, question), 10)
    passing.close()
    server.close()
    return answer


def test_what_is_asked_arrives_and_so_does_the_answer() -> None:
    question = bytes(range(256)) * 4096
    assert asyncio.run(through_the_door(question)) == question[::-1]


def test_where_nobody_is_the_connection_closes() -> None:
    async def knock() -> bytes:
        door = free_port()
        passing = await listen(door, "127.0.0.1", free_port())
        answer = await asyncio.wait_for(ask(door, b""), 10)
        passing.close()
        return answer

    assert asyncio.run(knock()) == b""
