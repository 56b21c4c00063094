"""The judge's end of the gate through which a contestant asks for every new process and program (seccomp_unotify(2)).

Open while it builds and warms up; closed before its first timed block. The kernel then refuses (ENOSYS), and nothing in
the contestant can open it again: that needs this descriptor.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select

_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV and _SEND
_CONTINUE = 1


class _Notification(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("pid", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("data", ctypes.c_uint8 * 64)]


class _Response(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("value", ctypes.c_int64), ("error", ctypes.c_int32),
                ("flags", ctypes.c_uint32)]


class Gate:
    """`descriptor` of the filter, owned by this object; `asked` counts what was let through."""

    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        os.set_inheritable(descriptor, False)
        self.asked = 0

    def fileno(self) -> int:
        """The descriptor to poll for reading; -1 when the gate is closed."""
        return self.descriptor

    def let_through(self) -> None:
        """Answer one request, which `poll` has shown to be there."""
        request = _Notification()
        try:
            fcntl.ioctl(self.descriptor, _RECEIVE, request)
            fcntl.ioctl(self.descriptor, _SEND, _Response(request.id, 0, 0, _CONTINUE))
            self.asked += 1
        except OSError:
            return  # whoever asked has ended meanwhile, or was interrupted and asks again

    def let_all_through(self) -> None:
        """Answer whatever is being asked for now."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while any(event & select.POLLIN for _, event in poll.poll(0)):
            self.let_through()

    def close(self) -> None:
        """From now on the kernel refuses; can be called again."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
