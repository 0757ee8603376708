"""One signed-in user whose requests wait: of each kind the densest there is, whose parts would take many times as much as the request does,
on a share whose disk is frozen and whose threads are all taken."""

import os
import pathlib
import struct

from conformance.bench.bounds.attacker import MIB, Pushing, framed
from conformance.bench.bounds.case import FROZEN, USER, USER_MIB, case
from conformance.bench.bounds.users import COPYCHUNK, REQUEST_RESUME_KEY, dacl_body, long_attributes, long_descriptor
from conformance.hostile.client import (
    CHANGE_NOTIFY, CREATE, IOCTL, LOCK, QUERY_DIRECTORY, QUERY_INFO, SET_INFO, SUCCESS, WRITE, create_body, create_context, ioctl_body,
    lock_body, query_directory_body, query_info_body, set_info_body, write_body,
)
from conformance.loop_disk import LoopDisk

CONNECTIONS, EACH, STUCK_EACH = 20, 300, 20
LIST_BYTES = 64 << 10
LARGE = 8 * MIB
FULL_EA, RENAME, LINK = 15, 10, 11
SET_ZERO_DATA, TRIM = 0x000980C8, 0x00098208
EXCLUSIVE_AT_ONCE = 0x12
# What a file is named by as the source of a copy.
KEYS = {}


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


KINDS = {
    "create-deep": ("CREATEs of paths of 16,000 names", lambda file, number: (CREATE, create_body(deep(32_000)))),
    "create-contexts": ("CREATEs with 64 contexts", lambda file, number: (CREATE, create_body(f"new-{number}", contexts=contexts(64)))),
    "create-descriptor": ("CREATEs with a descriptor of 8,000 entries",
                          lambda file, number: (CREATE, create_body(f"new-{number}", contexts=create_context(b"SecD", long_descriptor())))),
    "create-attributes": ("CREATEs with 5,400 extended attributes",
                          lambda file, number: (CREATE, create_body(f"new-{number}", contexts=create_context(b"ExtA", long_attributes())))),
    "rename": ("renames to paths of 2,000 names", lambda file, number: (SET_INFO, set_info_body(file, RENAME, new_name(deep(4_000))))),
    "link": ("links with names of 250 letters", lambda file, number: (SET_INFO, set_info_body(file, LINK, new_name(f"{number:250}")))),
    "set-descriptor": ("descriptors of 8,000 entries set", lambda file, number: (SET_INFO, dacl_body(file, long_descriptor()))),
    "set-attributes": ("lists of 5,400 extended attributes set", lambda file, number: (SET_INFO, set_info_body(file, FULL_EA, long_attributes()))),
    "query-attributes": ("extended attributes asked for by 8,000 names", lambda file, number: (QUERY_INFO, query_info_body(
        file, information_class=FULL_EA, input_offset=64 + 40, input_length=LIST_BYTES, data=names_asked_for()))),
    "directory": ("searches by patterns of 120 stars", lambda file, number: (QUERY_DIRECTORY, query_directory_body(file, "*?" * 120))),
    "copy": ("copies of 256 pieces", lambda file, number: (IOCTL, ioctl_body(COPYCHUNK, KEYS[file] + struct.pack("<II", 256, 0) + 256 * struct.pack(
        "<QQII", 0, 0, 4096, 0), file_id=file))),
    "trim": ("trims of 4,000 ranges", lambda file, number: (IOCTL, ioctl_body(TRIM, struct.pack("<II", 0, 4_000) + 4_000 * struct.pack("<QQ", 0, 4096),
                                                                              file_id=file))),
    "zero": ("ranges to be zeroed", lambda file, number: (IOCTL, ioctl_body(SET_ZERO_DATA, struct.pack("<QQ", 0, MIB), file_id=file))),
    "locks": ("LOCKs of 2,700 ranges", lambda file, number: (LOCK, lock_body(file, [(10_000 * number + each, 1, EXCLUSIVE_AT_ONCE) for each in range(2_700)]))),
    "notify": ("watches with room for 8 MiB", lambda file, number: (CHANGE_NOTIFY, struct.pack("<HHI", 32, 1, LARGE) + file + struct.pack("<II", 0xFFF, 0))),
    "write": ("WRITEs of 1 MiB", lambda file, number: (WRITE, write_body(file, bytes(MIB), offset=MIB * number))),
}


def attack(request, in_directory, asks_for_much):
    def attacking(attacker):
        os.environ["SMB_SHARE"] = FROZEN
        users = [attacker.user(EACH * (128 if asks_for_much else 16)) for _ in range(CONNECTIONS)]
        stuck = [user.open(f"stuck-{number}") for number, user in enumerate(users)]
        files = [user.open("", options=1, access=0x1F01FF & ~0x10000) if in_directory else user.open(f"file-{number}", access=0x1F01FF)
                 for number, user in enumerate(users)]
        for user, file in [*zip(users, stuck), *zip(users, [] if in_directory else files)]:
            assert user.call(WRITE, write_body(file, bytes(4096))).status == SUCCESS
        for user, file in zip(users, files):
            KEYS[file] = user.call(IOCTL, ioctl_body(REQUEST_RESUME_KEY, file_id=file)).body[48:72]
        LoopDisk(pathlib.Path(os.environ["BOUNDS_FROZEN"]), None).freeze()
        pushing = Pushing()
        for user, file, held in zip(users, files, stuck):
            wait = [framed(user.message(WRITE, write_body(held, bytes(4096), offset=4096 * number), credits=1)) for number in range(STUCK_EACH)]
            _, body = request(file, 0)
            room = LARGE if asks_for_much else len(body)
            charge = max(1, -(-room // 65536))
            dense = [framed(user.message(*request(file, number), charge=charge, credits=1)) for number in range(many(len(body)))]
            pushing.add(user, b"".join(wait + dense))
        pushing.run(30)
        attacker.say(f"{pushing.sent / MIB:.1f} MiB of requests taken, {pushing.ended} connections ended by the server")
    return attacking


for name, (title, request) in KINDS.items():
    case(f"waiting-{name}", f"{title}, as many as are taken, which wait for a frozen disk", USER, USER_MIB, frozen=True, on_tmpfs=False,
         seconds=150, held_seconds=4)(attack(request, name in ("directory", "notify"), name == "notify"))
