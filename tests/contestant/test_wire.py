"""Framing of messages: what goes in comes out, and whatever else a peer sends is a WireError."""

import json
import os
import socket
import struct
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contestant import wire
from harness.spec.candidate import MAX_SOURCE_BYTES

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
messages = st.dictionaries(st.text(), values, max_size=5)


@pytest.fixture
def pair():
    ends = socket.socketpair()
    ends[0].settimeout(60)  # what would wait for ever fails
    yield ends
    for end in ends:
        end.close()


class Dribble:
    """A socket whose recv returns at most `step` bytes: a stream has no message boundaries."""

    def __init__(self, sock, step):
        self.sock, self.step = sock, step

    def recv(self, count):
        return self.sock.recv(min(count, self.step))

    def fileno(self):
        return self.sock.fileno()


def answer_to(data: bytes, receive=wire.receive):
    """What `receive` makes of a peer that sends `data` and closes."""
    ours, theirs = socket.socketpair()
    with ours:
        writer = threading.Thread(target=send_all, args=(theirs, data))
        writer.start()
        try:
            return receive(ours)
        finally:
            ours.close()
            writer.join()


def send_all(sock, data):
    with sock:
        try:
            sock.sendall(data)
        except ConnectionError:
            return  # the reader has had enough


# Round trips


@given(st.lists(messages, min_size=1, max_size=4), st.integers(1, 9))
@settings(max_examples=40)
def test_messages_arrive_whole_and_in_order(sent, step):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for message in sent:
            wire.send(theirs, message)
        assert [wire.receive(Dribble(ours, step)) for _ in sent] == sent


@given(messages)
def test_the_format_is_a_big_endian_length_and_json(message):
    data = wire.encode(message)
    assert struct.unpack(">I", data[:4])[0] == len(data) - 4
    assert json.loads(data[4:].decode("utf-8")) == message


@given(messages, st.booleans())
@settings(max_examples=30)
def test_both_receivers_read_the_same(message, with_deadline):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire.send(theirs, message, deadline=time.monotonic() + 60 if with_deadline else None)
        wire.send(theirs, message)
        assert wire.receive(ours, time.monotonic() + 60) == message
        assert wire.receive_with_fds(ours) == (message, [])


def test_a_message_larger_than_the_socket_buffer(pair):
    message = {"text": "é" * 1_500_000}
    sender = threading.Thread(target=wire.send, args=(pair[1], message, (), time.monotonic() + 60))
    sender.start()
    assert wire.receive(pair[0], time.monotonic() + 60) == message
    sender.join()


# Broken peers


@given(messages, st.data())
@settings(max_examples=50)
def test_a_truncated_message_is_an_error_and_an_end_between_messages_is_closed(message, data):
    whole = wire.encode(message)
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(wire.WireError) as raised:
        answer_to(part)
    assert isinstance(raised.value, wire.WireClosed) == (part == b"")


@pytest.mark.parametrize("receive", [wire.receive, lambda sock: wire.receive_with_fds(sock)[0]])
@given(data=st.binary(max_size=40) | st.binary(max_size=30).map(lambda b: struct.pack(">I", len(b)) + b))
@settings(max_examples=60)
def test_garbage_gives_a_wire_error_or_is_a_message(receive, data):
    try:
        message = answer_to(data, receive)
    except wire.WireError:
        return
    assert message == json.loads(data[4: 4 + struct.unpack(">I", data[:4])[0]])


@pytest.mark.parametrize("body", [
    b"", b"[]", b"1", b"null", b'"text"', b"{", b"{}{}", b"\xff\xfe", b'{"a":\xff}', b"{'a': 1}", b"[" * 100_000,
    b'{"a":' * 100_000, b'{"a":' + b"9" * 5_000 + b"}" + b"x",
])
def test_what_is_no_json_object(body):
    with pytest.raises(wire.WireError):
        wire.decode(body)


@pytest.mark.parametrize("receive", [wire.receive, wire.receive_with_fds])
@pytest.mark.parametrize("length", [wire.MAX_MESSAGE + 1, 2**32 - 1])
def test_an_oversized_length_is_refused_before_anything_is_read(pair, receive, length):
    pair[1].sendall(struct.pack(">I", length))
    with pytest.raises(wire.WireError):  # else it would wait for the body for ever
        receive(pair[0])


def test_the_limit_is_the_callers(pair):
    wire.send(pair[1], {"text": "x" * 100})
    with pytest.raises(wire.WireError, match="limit is 50"):
        wire.receive(pair[0], limit=50)


def test_nothing_oversized_is_sent():
    with pytest.raises(wire.WireError, match="over the limit"):
        wire.encode({"text": "x" * wire.MAX_MESSAGE})
    assert len(wire.encode({"": "x" * (wire.MAX_MESSAGE - 7)})) == wire.MAX_MESSAGE + 4


@pytest.mark.parametrize("receive", [wire.receive, wire.receive_with_fds])
def test_a_peer_that_closes_without_reading_what_it_was_sent(pair, receive):
    wire.send(pair[0], {"unread": True})
    pair[1].close()  # the kernel now reports a reset connection instead of its end
    with pytest.raises(wire.WireClosed):
        receive(pair[0])


# Deadlines


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x08{\"a\""])
@pytest.mark.parametrize("seconds", [0.02, -1.0])
def test_silence_ends_at_the_deadline(pair, sent, seconds):
    pair[1].sendall(sent)
    with pytest.raises(wire.WireTimeout):
        wire.receive(pair[0], time.monotonic() + seconds)


def test_a_peer_that_does_not_read_cannot_hold_the_sender(pair):
    with pytest.raises(wire.WireTimeout):
        wire.send(pair[0], {"text": "x" * 4_000_000}, deadline=time.monotonic() + 0.05)


# Descriptors


@pytest.mark.parametrize("count", [1, 3, 8])
def test_descriptors_pass_in_order(pair, count):
    pipes = [os.pipe() for _ in range(count)]
    wire.send(pair[1], {"text": "x" * 100_000}, [write for _, write in pipes])
    message, fds = wire.receive_with_fds(pair[0])
    assert message == {"text": "x" * 100_000} and len(fds) == count
    for number, fd in enumerate(fds):
        os.write(fd, bytes([number]))
    wire.close_all([write for _, write in pipes] + fds)
    assert [os.read(read, 9) for read, _ in pipes] == [bytes([number]) for number in range(count)]
    assert all(os.read(read, 1) == b"" for read, _ in pipes)  # every copy was closed
    wire.close_all([read for read, _ in pipes])


def test_a_receiver_that_wants_no_descriptors_keeps_none(pair):
    read, write = os.pipe()
    wire.send(pair[1], {"a": 1}, [write])
    os.close(write)
    assert wire.receive(pair[0]) == {"a": 1}
    assert os.read(read, 1) == b""  # nobody holds the other end any more
    os.close(read)


def test_close_all_passes_over_what_is_closed():
    read, write = os.pipe()
    os.close(read)
    wire.close_all([read, write])
    with pytest.raises(OSError):
        os.fstat(write)


# Text


def test_the_longest_source_fits_whatever_its_letters():
    for letter in ("x", "é", "核", "🂡"):
        assert wire.decode(wire.encode({"source": letter * MAX_SOURCE_BYTES})[4:])["source"][-1] == letter


def test_half_a_character_does_not_stop_a_message(pair):
    wire.send(pair[1], {"message": "before \ud800 after"})
    assert wire.receive(pair[0]) == {"message": "before ? after"}
