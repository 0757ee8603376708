"""What a case is: a name, what it does, and every answer that is right for it."""

import contextlib
import dataclasses
import os
import time
import typing

from conformance.hostile.client import (
    CLOSED, ECHO, ECHO_BODY, READ, SILENT, SUCCESS, WRITE, Closed, client, read_body, write_body,
)

# Statuses by their names in MS-ERREF 2.3.1.
INVALID_PARAMETER = 0xC000000D
ACCESS_DENIED = 0xC0000022
USER_SESSION_DELETED = 0xC0000203
NETWORK_NAME_DELETED = 0xC00000C9
FILE_CLOSED = 0xC0000128
LOGON_FAILURE = 0xC000006D
NOT_SUPPORTED = 0xC00000BB
REQUEST_NOT_ACCEPTED = 0xC00000D0
INVALID_DEVICE_REQUEST = 0xC0000010
INFO_LENGTH_MISMATCH = 0xC0000004
INVALID_INFO_CLASS = 0xC0000003
BUFFER_TOO_SMALL = 0xC0000023
BUFFER_OVERFLOW = 0x80000005
NO_MORE_FILES = 0x80000006
NO_SUCH_FILE = 0xC000000F
OBJECT_NAME_INVALID = 0xC0000033
OBJECT_NAME_NOT_FOUND = 0xC0000034
OBJECT_PATH_NOT_FOUND = 0xC000003A
OBJECT_PATH_SYNTAX_BAD = 0xC000003B
OBJECT_PATH_INVALID = 0xC0000039
INVALID_LOCK_RANGE = 0xC00001A1
LOCK_NOT_GRANTED = 0xC0000055
RANGE_NOT_LOCKED = 0xC000007E
NO_PREAUTH_OVERLAP = 0xC05D0000
DISK_FULL = 0xC000007F
END_OF_FILE = 0xC0000011
STOPPED_ON_SYMLINK = 0x8000002D
INVALID_OPLOCK_PROTOCOL = 0xC00000E3
INVALID_DEVICE_STATE = 0xC0000184
INSUFFICIENT_RESOURCES = 0xC000009A
EA_LIST_INCONSISTENT = 0x80000014
INVALID_SECURITY_DESCR = 0xC0000079
INVALID_BUFFER_SIZE = 0xC0000206
NOT_FOUND = 0xC0000225
ILLEGAL_CHARACTER = 0xC0000161
NAMES = {value: name for name, value in list(globals().items()) if name.isupper() and isinstance(value, int)}

# A right answer may be any refusal, where the specification leaves it open which.
ANY_ERROR = "any error"
BYSTANDER_SECONDS = 15


@dataclasses.dataclass
class Case:
    name: str
    run: typing.Callable
    expected: tuple


_cases: list = []


def case(name, *expected):
    """Registers a function as a case: it returns what it saw, a status or CLOSED, or lets Closed out."""
    def register(function):
        _cases.append(Case(name, function, expected))
        return function
    return register


def all_cases():
    return list(_cases)


def seen_by(item):
    """What the server did about a case."""
    try:
        return item.run()
    except Closed:
        return CLOSED
    except TimeoutError:
        return SILENT


def right(item, seen):
    return seen in item.expected or (ANY_ERROR in item.expected and isinstance(seen, int) and seen & 0xC0000000 >= 0x80000000)


def told(seen):
    return f"{NAMES.get(seen, '')} {seen:#010x}".strip() if isinstance(seen, int) else str(seen)


class Bystander:
    """A client like any other, on a connection of its own: it must not notice what the cases do."""

    def __init__(self):
        self.client = client()
        self.file = self.client.open("bystander")
        self.round = 0

    def works(self):
        """Writes and reads back, in time; then a new client logs in."""
        began = time.monotonic()
        self.round += 1
        data = f"round {self.round}".encode()
        self._expect(self.client.call(WRITE, write_body(self.file, data)).status == SUCCESS, "its write failed")
        answer = self.client.call(READ, read_body(self.file, len(data)))
        self._expect(answer.status == SUCCESS and answer.body[16:] == data, "it read something else")
        with contextlib.closing(client().socket):
            pass
        self._expect(time.monotonic() - began < BYSTANDER_SECONDS, f"it waited {time.monotonic() - began:.1f} s")

    @staticmethod
    def _expect(condition, what):
        if not condition:
            raise AssertionError(f"the bystander noticed: {what}")


def resident_bytes():
    """Memory of the server process."""
    with open(f"/proc/{os.environ['SMB_PID']}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def alive(raw):
    """Whether the connection still answers an ECHO."""
    return raw.call(ECHO, ECHO_BODY).status == SUCCESS
