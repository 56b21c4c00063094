"""Length-prefixed JSON over a Unix socket, with file descriptors beside a message. Stdlib only: both sides use it.

A message is 4 bytes of big-endian length and that many bytes of UTF-8 JSON (an object). Nothing is ever unpickled.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
import time

MAX_MESSAGE = 8 * 2**20
_HEADER = struct.Struct(">I")


class WireError(Exception):
    """The peer broke the framing: closed in mid-message, an oversized length, bytes that are no JSON object."""


class WireClosed(WireError):
    """The peer closed the socket between two messages."""


class WireTimeout(WireError):
    """Nothing complete arrived before the deadline."""


def encode(message: dict) -> bytes:
    """The bytes of a message; WireError when it is larger than MAX_MESSAGE."""
    # Not escaped to ASCII: that would make six bytes of a letter, and of a source that is allowed a message that is not.
    body = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
    if len(body) > MAX_MESSAGE:
        raise WireError(f"a message of {len(body)} bytes is over the limit of {MAX_MESSAGE}")
    return _HEADER.pack(len(body)) + body


def send(sock: socket.socket, message: dict, fds: list[int] = (), deadline: float | None = None) -> None:
    """Send one message, its descriptors with the first byte. deadline: of time.monotonic(); None waits for ever."""
    data = encode(message)
    if fds:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        sent = sock.sendmsg([data], rights)
        data = data[sent:]
    while data:
        _wait(sock, select.POLLOUT, deadline)
        data = data[sock.send(data, socket.MSG_DONTWAIT if deadline is not None else 0):]


def receive(sock: socket.socket, deadline: float | None = None, limit: int = MAX_MESSAGE) -> dict:
    """One message. Raises WireClosed, WireTimeout or WireError; never anything else for what the peer sends."""
    header = _exactly(sock, _HEADER.size, deadline, first=True)
    (length,) = _HEADER.unpack(header)
    if length > limit:
        raise WireError(f"the peer announced a message of {length} bytes; the limit is {limit}")
    return decode(_exactly(sock, length, deadline))


def receive_with_fds(sock: socket.socket, most: int = 64, deadline: float | None = None) -> tuple[dict, list[int]]:
    """One message and the descriptors that came with it (for trusted sockets). Raises as `receive` does."""
    fds = array.array("i")
    _wait(sock, select.POLLIN, deadline)
    try:
        data, ancillary, _flags, _address = sock.recvmsg(_HEADER.size, socket.CMSG_LEN(most * fds.itemsize))
    except ConnectionError:
        raise WireClosed("closed") from None
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    if not data:
        raise WireClosed("closed")
    data += _exactly(sock, _HEADER.size - len(data), deadline) if len(data) < _HEADER.size else b""
    (length,) = _HEADER.unpack(data)
    if length > MAX_MESSAGE:
        raise WireError("oversized message")
    return decode(_exactly(sock, length, deadline)), list(fds)


def decode(body: bytes) -> dict:
    """The JSON object in `body`; WireError for anything else, deeply nested or not UTF-8 included."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError(f"a message that is no JSON: {type(error).__name__}") from None
    if not isinstance(message, dict):
        raise WireError("a message that is no JSON object")
    return message


def _exactly(sock: socket.socket, count: int, deadline: float | None, first: bool = False) -> bytes:
    parts = []
    while count:
        if deadline is not None:
            _wait(sock, select.POLLIN, deadline)
        try:
            part = sock.recv(min(count, 1 << 20))
        except ConnectionError:
            part = b""
        if not part:
            if first and not parts:
                raise WireClosed("the peer closed the socket")
            raise WireError("the peer closed the socket in the middle of a message")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _wait(sock: socket.socket, events: int, deadline: float | None) -> None:
    if deadline is None:
        return
    poll = select.poll()
    poll.register(sock, events)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1e3):
        raise WireTimeout("no answer before the deadline")


def close_all(fds: list[int]) -> None:
    """Close descriptors, ignoring those already closed."""
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            continue
