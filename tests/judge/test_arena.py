"""Sealed memory: whoever holds the descriptor can do nothing the seals forbid, whatever else he tries."""

import ctypes
import errno
import fcntl
import mmap
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.arena import Arena, align

SIZE = 3 * mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PUNCH_HOLE, KEEP_SIZE = 2, 1


@pytest.fixture(params=[False, True], ids=["inputs", "outputs"])
def arena(request):
    arena = Arena(SIZE, contestants_may_write=request.param)
    arena.writable = request.param
    yield arena
    arena.close()


@pytest.fixture
def inputs():
    arena = Arena(SIZE, contestants_may_write=False)
    arena.view[:] = b"j" * SIZE
    yield arena
    arena.close()


def error_of(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return error.errno
    return None


def map_again(fd, protection, kind=mmap.MAP_SHARED):
    """(address, errno) of a raw mmap."""
    ctypes.set_errno(0)
    address = libc.mmap(None, SIZE, protection, kind, fd, 0)
    return address, ctypes.get_errno()


# Size


def test_the_size_is_whole_pages():
    for wanted, size in ((0, mmap.PAGESIZE), (1, mmap.PAGESIZE), (mmap.PAGESIZE + 1, 2 * mmap.PAGESIZE)):
        arena = Arena(wanted, contestants_may_write=True)
        assert arena.size == size == os.fstat(arena.fd).st_size == len(arena.view)
        arena.close()


@pytest.mark.parametrize("size", [0, SIZE - 1, SIZE + 1, 2 * SIZE])
def test_nobody_changes_the_size(arena, size):
    assert error_of(os.ftruncate, arena.fd, size) == errno.EPERM
    assert os.fstat(arena.fd).st_size == SIZE


def test_writing_behind_the_end_does_not_grow_it(arena):
    assert error_of(os.pwrite, arena.fd, b"x", SIZE) == errno.EPERM
    assert error_of(os.posix_fallocate, arena.fd, SIZE, 1) == errno.EPERM
    assert os.fstat(arena.fd).st_size == SIZE


def test_the_seals_are_final(arena):
    for seal in (1, 2, 4, 8, 16):
        assert error_of(fcntl.fcntl, arena.fd, 1033, seal) == errno.EPERM


# Content of inputs


def test_inputs_are_the_judges_to_write(inputs):
    inputs.view[7:9] = b"ok"
    assert os.pread(inputs.fd, 2, 7) == b"ok"  # through its own mapping the judge still writes


def test_inputs_cannot_be_written(inputs):
    reopened = os.open(f"/proc/self/fd/{inputs.fd}", os.O_RDWR)
    for fd in (inputs.fd, reopened, os.dup(inputs.fd)):
        assert error_of(os.pwrite, fd, b"x", 0) == errno.EPERM
        assert error_of(os.write, fd, b"x") == errno.EPERM
        assert map_again(fd, mmap.PROT_READ | mmap.PROT_WRITE)[1] == errno.EPERM
    hole = libc.fallocate(inputs.fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(SIZE))
    assert hole == -1 and ctypes.get_errno() == errno.EPERM
    with open("/etc/hostname", "rb") as source:
        assert error_of(os.sendfile, inputs.fd, source.fileno(), 0, 1) == errno.EPERM
    assert bytes(inputs.view) == b"j" * SIZE


def test_a_readable_mapping_cannot_be_made_writable(inputs):
    address, _ = map_again(inputs.fd, mmap.PROT_READ)
    assert libc.mprotect(address, SIZE, mmap.PROT_READ | mmap.PROT_WRITE) == -1
    assert ctypes.get_errno() == errno.EACCES
    assert ctypes.string_at(address, 4) == b"jjjj"
    libc.munmap(ctypes.c_void_p(address), SIZE)


def test_a_private_copy_changes_nothing_for_others(inputs):
    address, error = map_again(inputs.fd, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE)
    assert error == 0
    ctypes.memset(address, 120, SIZE)
    assert bytes(inputs.view) == b"j" * SIZE
    libc.munmap(ctypes.c_void_p(address), SIZE)


def test_outputs_can_be_written_by_who_is_to_write_them():
    arena = Arena(SIZE, contestants_may_write=True)
    address, error = map_again(arena.fd, mmap.PROT_READ | mmap.PROT_WRITE)
    assert error == 0
    ctypes.memset(address, 120, 5)
    assert bytes(arena.view[:6]) == b"xxxxx\0"
    libc.munmap(ctypes.c_void_p(address), SIZE)
    arena.close()


def test_a_contestant_cannot_touch_its_inputs(judge, ask):
    """The same from inside: it finds the descriptor it was given, and the answers of its opponent stay right."""
    source = """
import ctypes, errno, fcntl, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
def kernel(x, factor=2.0):
    return x * factor + 1
for name in os.listdir("/proc/self/fd"):
    try:
        fd, link = int(name), os.readlink("/proc/self/fd/" + name)
    except OSError:
        continue
    if "gauntlet-inputs" not in link:
        continue
    got = []
    for attempt in (lambda: os.pwrite(fd, b"x" * 4096, 0), lambda: os.ftruncate(fd, 0),
                    lambda: os.ftruncate(fd, 1 << 40), lambda: mmap.mmap(fd, 4096),
                    lambda: fcntl.fcntl(fd, 1033, 8), lambda: os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_TRUNC)):
        try:
            attempt()
            got.append("done")
        except OSError as error:
            got.append(errno.errorcode[error.errno])
    address = libc.mmap(None, 4096, 1, 1, fd, 0)
    libc.mprotect(ctypes.c_void_p(address), 4096, 3)
    got.append(errno.errorcode[ctypes.get_errno()])
    print("GOT", *got)
"""
    result = ask(source)
    assert result.status == "ok", result.message
    lines = [line for line in result.output_tail.splitlines() if line.startswith("GOT")]
    assert lines and all("done" not in line.split() for line in lines), lines


# Tensors over it


def test_a_tensor_is_the_memory_itself(arena):
    tensor = arena.tensor(torch.float32, (2, 3), 128)
    tensor.copy_(torch.arange(6.0).view(2, 3))
    assert torch.frombuffer(arena.map, dtype=torch.float32, count=6, offset=128).tolist() == [0, 1, 2, 3, 4, 5]
    assert arena.tensor(torch.float32, (0, 3), 128).shape == (0, 3)
    assert arena.tensor(torch.int64, (), 64).shape == ()


def test_closing_twice_leaves_other_descriptors_alone(inputs):
    number = inputs.fd
    inputs.close()
    other = os.open("/dev/null", os.O_RDONLY)
    assert other == number  # the lowest free number: a second close would hit it
    inputs.close()
    os.fstat(other)
    os.close(other)


@given(st.integers(0, 2**40), st.sampled_from([1, 64, 4096]))
def test_align_is_the_least_multiple_not_below(offset, to):
    found = align(offset, to)
    assert found % to == 0 and offset <= found < offset + to
