"""One signed-in user whose requests wait: of each kind the densest there is, whose parts would take many times as much as the request does,
on a share whose disk is frozen and whose threads are all taken; and of some kinds, whose work takes long, on a disk that works."""

import dataclasses
import os
import pathlib
import struct
import time
from collections.abc import Callable

from conformance.bench.bounds.attacker import MIB, Pushing, framed
from conformance.bench.bounds.case import FROZEN, USER, USER_MIB, case
from conformance.bench.bounds.users import (
    COPYCHUNK, FRAME_BYTES, REQUEST_RESUME_KEY, UNTAKEN_LARGE_EACH, ask_and_take_nothing, dacl_body, long_attributes, long_descriptor,
)
from conformance.hostile.client import (
    CHANGE_NOTIFY, CREATE, ECHO, ECHO_BODY, IOCTL, LOCK, QUERY_DIRECTORY, QUERY_INFO, SET_INFO, SUCCESS, WRITE, create_body, create_context, ioctl_body,
    lock_body, query_directory_body, query_info_body, set_info_body, write_body,
)
from conformance.loop_disk import LoopDisk

EACH, STUCK_EACH = 300, 20
LIST_BYTES = 64 << 10
LARGE = 8 * MIB
FULL_EA, RENAME, LINK = 15, 10, 11
SET_ZERO_DATA, TRIM = 0x000980C8, 0x00098208
EXCLUSIVE_AT_ONCE = 0x12
# What a file is named by as the source of a copy.
KEYS: dict[bytes, bytes] = {}


def many(request_bytes):
    """How many of such requests: less of large ones, for what is sent would take minutes."""
    return max(EACH * LIST_BYTES // max(request_bytes, LIST_BYTES), 16)


def new_name(name):
    """FILE_RENAME_INFORMATION and FILE_LINK_INFORMATION, MS-FSCC 2.4.42.2 and 2.4.28.2."""
    raw = name.encode("utf-16-le")
    return struct.pack("<B7sQI", 0, bytes(7), 0, len(raw)) + raw


def contexts(count):
    """So many contexts of a name that nobody knows."""
    return b"".join(create_context(b"None", bytes(976), next_offset=1000 if number + 1 < count else 0) for number in range(count))


def names_asked_for():
    """FILE_GET_EA_INFORMATION, MS-FSCC 2.4.16.1, with names of one letter."""
    count = LIST_BYTES // 8
    return b"".join(struct.pack("<IB", 8 if number + 1 < count else 0, 1) + bytes([65 + number % 26, 0, 0]) for number in range(count))


def deep(length):
    return "\\".join("d" * (length // 2))


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of request."""

    title: str
    request: Callable  # of a file and a number: a command and a body
    of_directory: bool = False
    asks_for_much: bool = False
    connections: int = 20
    each: int = 0  # on a connection; 0: as many as `many` says
    alone: bool = False  # an ECHO behind each, so that none goes with others

    @property
    def credits(self):
        return self.each * (1 + self.alone) + 100 if self.each else EACH * (128 if self.asks_for_much else 16)


KINDS = {
    "create-deep": Kind("CREATEs of paths of 16,000 names", lambda file, number: (CREATE, create_body(deep(32_000)))),
    "create-contexts": Kind("CREATEs with 64 contexts", lambda file, number: (CREATE, create_body(f"new-{number}", contexts=contexts(64)))),
    "create-descriptor": Kind("CREATEs with a descriptor of 8,000 entries",
                          lambda file, number: (CREATE, create_body(f"new-{number}", contexts=create_context(b"SecD", long_descriptor())))),
    "create-attributes": Kind("CREATEs with 5,400 extended attributes",
                          lambda file, number: (CREATE, create_body(f"new-{number}", contexts=create_context(b"ExtA", long_attributes())))),
    "rename": Kind("renames to paths of 2,000 names", lambda file, number: (SET_INFO, set_info_body(file, RENAME, new_name(deep(4_000))))),
    "link": Kind("links with names of 250 letters", lambda file, number: (SET_INFO, set_info_body(file, LINK, new_name(f"{number:250}")))),
    "set-descriptor": Kind("descriptors of 8,000 entries set", lambda file, number: (SET_INFO, dacl_body(file, long_descriptor()))),
    "set-attributes": Kind("lists of 5,400 extended attributes set", lambda file, number: (SET_INFO, set_info_body(file, FULL_EA, long_attributes()))),
    "query-attributes": Kind("extended attributes asked for by 8,000 names", lambda file, number: (QUERY_INFO, query_info_body(
        file, information_class=FULL_EA, input_offset=64 + 40, input_length=LIST_BYTES, data=names_asked_for()))),
    "directory": Kind("searches by patterns of 120 stars", lambda file, number: (QUERY_DIRECTORY, query_directory_body(file, "*?" * 120)), of_directory=True),
    "copy": Kind("copies of 256 pieces", lambda file, number: (IOCTL, ioctl_body(COPYCHUNK, KEYS[file] + struct.pack("<II", 256, 0) + 256 * struct.pack(
        "<QQII", 0, 0, 4096, 0), file_id=file))),
    "trim": Kind("trims of 4,000 ranges", lambda file, number: (IOCTL, ioctl_body(TRIM, struct.pack("<II", 0, 4_000) + 4_000 * struct.pack("<QQ", 0, 4096),
                                                                              file_id=file))),
    "zero": Kind("ranges to be zeroed", lambda file, number: (IOCTL, ioctl_body(SET_ZERO_DATA, struct.pack("<QQ", 0, MIB), file_id=file))),
    "locks": Kind("LOCKs of 2,700 ranges", lambda file, number: (LOCK, lock_body(file, [(10_000 * number + each, 1, EXCLUSIVE_AT_ONCE) for each in range(2_700)]))),
    "notify": Kind("watches with room for 8 MiB", lambda file, number: (CHANGE_NOTIFY, struct.pack("<HHI", 32, 1, LARGE) + file + struct.pack("<II", 0xFFF, 0)),
                   of_directory=True, asks_for_much=True),
    "write": Kind("WRITEs of 1 MiB", lambda file, number: (WRITE, write_body(file, bytes(MIB), offset=MIB * number))),
    "byte": Kind("WRITEs of a byte on 150 connections", lambda file, number: (WRITE, write_body(file, b"x", offset=number)), connections=150, each=7_900),
    "byte-alone": Kind("WRITEs of a byte on 700 connections, each by itself", lambda file, number: (WRITE, write_body(file, b"x", offset=number)),
                       connections=700, each=1_000, alone=True),
}


# What takes long where nothing has to be waited for.
BUSY = ("set-attributes", "set-descriptor", "trim", "copy", "create-deep")


def prepared(attacker, kind):
    """Connections of one user, each with a file of its own that has data."""
    users = [attacker.user(kind.credits) for _ in range(kind.connections)]
    files = [user.open("", options=1, access=0x1F01FF & ~0x10000) if kind.of_directory else user.open(f"file-{number}", access=0x1F01FF)
             for number, user in enumerate(users)]
    for user, file in zip(users, files):
        assert kind.of_directory or user.call(WRITE, write_body(file, bytes(4096))).status == SUCCESS
        KEYS[file] = user.call(IOCTL, ioctl_body(REQUEST_RESUME_KEY, file_id=file)).body[48:72]
    return list(zip(users, files))


def attack(kind):
    def attacking(attacker):
        os.environ["SMB_SHARE"] = FROZEN
        clients = prepared_to_wait(attacker, kind)
        LoopDisk(pathlib.Path(os.environ["BOUNDS_FROZEN"]), None).freeze()
        pushing = Pushing()
        for user, file, stuck in clients:
            pushing.add(user, dense_behind(kind, user, file, stuck))
        pushing.run(30)
        attacker.say(f"{pushing.sent / MIB:.1f} MiB of requests taken, {pushing.ended} connections ended by the server")
    return attacking


def prepared_to_wait(attacker, kind):
    """The same with another file each, to be written to while the disk is frozen."""
    clients = [(user, file, user.open(f"stuck-{number}")) for number, (user, file) in enumerate(prepared(attacker, kind))]
    for user, _, stuck in clients:
        assert user.call(WRITE, write_body(stuck, bytes(4096))).status == SUCCESS
    return clients


def dense_behind(kind, user, file, stuck):
    """All requests of a kind on one connection, behind those that take the threads."""
    wait = [framed(user.message(WRITE, write_body(stuck, bytes(4096), offset=4096 * number), credits=1)) for number in range(STUCK_EACH)]
    return b"".join(wait) + dense(kind, user, file)


def attack_at_work(kind):
    def attacking(attacker):
        pushing, clients = Pushing(), prepared(attacker, kind)
        for user, file in clients:
            pushing.add(user, dense(kind, user, file))
        # What is left is pushed while others measure.
        pushing.run(1)
        attacker.meanwhile = lambda: pushing.run(1)
        attacker.say(f"{pushing.sent / MIB:.1f} MiB of requests taken in the first second")
    return attacking


def dense(kind, user, file):
    """All requests of a kind on one connection."""
    _, body = kind.request(file, 0)
    charge = max(1, -(-(LARGE if kind.asks_for_much else len(body)) // 65536))
    requests = []
    for number in range(kind.each or many(len(body))):
        requests.append(framed(user.message(*kind.request(file, number), charge=charge, credits=1)))
        if kind.alone:
            requests.append(framed(user.message(ECHO, ECHO_BODY, credits=1)))
    return b"".join(requests)


for name, kind in KINDS.items():
    case(f"waiting-{name}", f"{kind.title}, as many as are taken, which wait for a frozen disk", USER, USER_MIB, frozen=True, on_tmpfs=False,
         seconds=150, held_seconds=8)(attack(kind))

for name in BUSY:
    case(f"busy-{name}", f"{KINDS[name].title}, as many as are taken, on a disk that works", USER, USER_MIB, on_tmpfs=False, seconds=150)(
        attack_at_work(KINDS[name]))


@case("one-after-another", "descriptors that wait for a frozen disk, until it works again, and then READs of 8 MiB whose answers nobody takes", USER,
      USER_MIB, frozen=True, on_tmpfs=False, seconds=200)
def _(attacker):
    attack(KINDS["set-descriptor"])(attacker)
    time.sleep(3)
    for connection in attacker.kept:
        connection.socket.close()
    LoopDisk(pathlib.Path(os.environ["BOUNDS_FROZEN"]), None).thaw()
    ask_and_take_nothing(attacker, FRAME_BYTES, UNTAKEN_LARGE_EACH)
