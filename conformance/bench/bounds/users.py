"""One signed-in user."""

import os
import pathlib
import struct
import time

from conformance.bench.bounds import ntlm
from conformance.bench.bounds.attacker import MIB, Pushing, framed
from conformance.bench.bounds.case import FROZEN, USER, USER_MIB, case
from conformance.hostile.client import (
    CREATE, FLUSH, IOCTL, LOCK, READ, SESSION_SETUP, SET_INFO, SUCCESS, WRITE, Closed, Raw, create_body, create_context, ioctl_body, lock_body,
    read_body, set_info_body, setup_body, wrapped, write_body,
)
from conformance.loop_disk import LoopDisk

SESSIONS, SESSION_CONNECTIONS, SESSION_SECONDS = 65_536, 8, 60
OPENS, OPENS_AT_ONCE, OPEN_SECONDS = 131_072, 32, 60
COMPOUND_READS, COMPOUNDS = 7000, 4
READ_BYTES = 64 << 10
UNTAKEN_CONNECTIONS, UNTAKEN_EACH, UNTAKEN_LARGE_EACH = 100, 1000, 16
HALF_CONNECTIONS, FRAME_BYTES, HALF_BYTES = 200, 8 * MIB, 4 * MIB
COPIES, CHUNKS = 80, 16
LOCKS, LOCKS_AT_ONCE, WAITERS, UNLOCKS = 20_000, 32, 500, 20
EXCLUSIVE, UNLOCK, AT_ONCE = 0x02, 0x04, 0x10
STUCK_CONNECTIONS, STUCK_EACH = 4, 25
DESCRIPTOR_CONNECTIONS, DESCRIPTOR_CREATES, DESCRIPTOR_CHANGES, DESCRIPTOR_ENTRIES, ATTRIBUTES = 20, 400, 150, 8_000, 5_400
REQUEST_RESUME_KEY, COPYCHUNK = 0x00140078, 0x001440F2


def signed_in(connection):
    """One more session of this user on a connection; its status."""
    connection.session_id = 0
    answer = connection.call(SESSION_SETUP, setup_body(wrapped(ntlm.negotiate())))
    connection.session_id = answer.session_id
    token, _ = ntlm.authenticate(answer.body, os.environ["SMB_USER"], os.environ["SMB_PASSWORD"])
    return connection.call(SESSION_SETUP, setup_body(wrapped(token, NoCode))).status


class NoCode:
    """A sign-in that sends no code of the mechanisms that it offered."""
    complete = False


@case("sessions", f"{SESSIONS:,} sessions on {SESSION_CONNECTIONS} connections", USER, USER_MIB)
def _(attacker):
    connections = [attacker.keep(Raw(seconds=20)) for _ in range(SESSION_CONNECTIONS)]
    for connection in connections:
        connection.negotiate()
    made, until = 0, time.monotonic() + SESSION_SECONDS
    while connections and made < SESSIONS and time.monotonic() < until:
        for connection in list(connections):
            try:
                status = signed_in(connection)
            except (OSError, Closed):
                status = -1
            made += status == SUCCESS
            if status != SUCCESS:
                connections.remove(connection)
    attacker.say(f"{made:,} sessions")


def opens(attacker):
    made, until, refused = 0, time.monotonic() + OPEN_SECONDS, None
    while made < OPENS and refused is None and time.monotonic() < until:
        user, of_session = attacker.user(OPENS_AT_ONCE), 0
        while refused is None and of_session < 65_000 and made < OPENS and time.monotonic() < until:
            for number in range(OPENS_AT_ONCE):
                user.send(CREATE, create_body(f"open-{number}"))
            for _ in range(OPENS_AT_ONCE):
                status = user.receive().status
                made, of_session = made + (status == SUCCESS), of_session + (status == SUCCESS)
                refused = refused or (status if status != SUCCESS else None)
    attacker.say(f"{made:,} opens, then {'no more was asked for' if refused is None else f'{refused:#010x}'}")


@case("opens", "opens until they are refused", USER, USER_MIB)
def _(attacker):
    opens(attacker)


@case("opens-descriptors", "opens until they are refused, where the server may have 1,024 descriptors", USER, USER_MIB, descriptors=1024)
def _(attacker):
    opens(attacker)


def compound_of_reads(user, file, count):
    """One frame of READs of 64 KiB, signed one by one."""
    body = read_body(file, READ_BYTES)
    padding = bytes(-(64 + len(body)) % 8)
    parts = []
    for number in range(count):
        is_last = number == count - 1
        message = user.message(READ, body, sign=False, credits=1, flags=0x8, next_command=0 if is_last else 64 + len(body) + len(padding))
        parts.append(user.signed(message + (b"" if is_last else padding)))
    return framed(b"".join(parts))


@case("compounds", f"{COMPOUNDS} compounds of {COMPOUND_READS:,} READs of 64 KiB", USER, USER_MIB)
def _(attacker):
    pushing = Pushing()
    for _ in range(COMPOUNDS):
        user = attacker.user(COMPOUND_READS + 64)
        pushing.add(user, compound_of_reads(user, attacker.written(user, "compound", MIB), COMPOUND_READS))
    pushing.run(20)
    attacker.say(f"{pushing.sent / MIB:.1f} MiB of requests taken, {pushing.ended} connections ended by the server")


def ask_and_take_nothing(attacker, length, each):
    pushing = Pushing()
    charge = length // 65536
    for number in range(UNTAKEN_CONNECTIONS):
        user = attacker.user(each * charge)
        file = attacker.written(user, "untaken", FRAME_BYTES) if number == 0 else user.open("untaken")
        requests = [framed(user.message(READ, read_body(file, length, offset=place * length % FRAME_BYTES), charge=charge, credits=1))
                    for place in range(each)]
        pushing.add(user, b"".join(requests))
    pushing.run(20)
    attacker.say(f"{pushing.sent / MIB:.1f} MiB of requests taken, {pushing.ended} connections ended by the server")


@case("untaken", f"{UNTAKEN_EACH:,} READs of 64 KiB on each of {UNTAKEN_CONNECTIONS} connections, whose answers nobody takes", USER, USER_MIB)
def _(attacker):
    ask_and_take_nothing(attacker, READ_BYTES, UNTAKEN_EACH)


@case("untaken-large", f"{UNTAKEN_LARGE_EACH} READs of 8 MiB on each of {UNTAKEN_CONNECTIONS} connections, whose answers nobody takes", USER,
      USER_MIB)
def _(attacker):
    ask_and_take_nothing(attacker, FRAME_BYTES, UNTAKEN_LARGE_EACH)


@case("half-writes", f"half of a WRITE of 8 MiB on each of {HALF_CONNECTIONS} connections", USER, USER_MIB)
def _(attacker):
    pushing = Pushing()
    for _ in range(HALF_CONNECTIONS):
        user = attacker.user(256)
        request = user.message(WRITE, write_body(user.open("half"), b"", length=FRAME_BYTES), charge=128, sign=False)
        pushing.add(user, framed(request + bytes(HALF_BYTES), len(request) + FRAME_BYTES))
    pushing.run(40)
    attacker.say(f"{pushing.sent / MIB:,.0f} MiB taken, {pushing.ended} connections ended by the server")


def long_descriptor():
    """A self-relative descriptor (MS-DTYP 2.4.6) of 64 KiB: entries of a type that nobody knows, as short as there are, and one that lets everybody
    do everything, all passed on."""
    unknown = struct.pack("<BBHI", 21, 3, 8, 0) * DESCRIPTOR_ENTRIES
    everybody = struct.pack("<BBHI", 0, 3, 20, 0x1F01FF) + bytes([1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0])
    entries = unknown + everybody
    dacl = struct.pack("<BBHHH", 2, 0, 8 + len(entries), DESCRIPTOR_ENTRIES + 1, 0) + entries
    return struct.pack("<BBHIIII", 1, 0, 0x9004, 0, 0, 0, 20) + dacl


def long_attributes():
    """FILE_FULL_EA_INFORMATION (MS-FSCC 2.4.16) of 64 KiB with names of one letter, most of them again and again."""
    return b"".join(struct.pack("<IBBH", 12 if number + 1 < ATTRIBUTES else 0, 0, 1, 1) + bytes([65 + number % 26, 0, 49, 0]) for number in range(ATTRIBUTES))


def dacl_body(file, descriptor):
    """SET_INFO of the list alone."""
    body = bytearray(set_info_body(file, 0, descriptor, kind=3))
    struct.pack_into("<I", body, 12, 4)
    return bytes(body)


def push(attacker, each, seconds, body):
    pushing = Pushing()
    for number in range(DESCRIPTOR_CONNECTIONS):
        user = attacker.user(each)
        pushing.add(user, b"".join(framed(user.message(*body(user, number * each + place), credits=1)) for place in range(each)))
    pushing.run(seconds)
    attacker.say(f"{pushing.sent / MIB:.1f} MiB of requests taken, {pushing.ended} connections ended by the server")


@case("descriptors-asked", f"{DESCRIPTOR_CREATES} CREATEs on each of {DESCRIPTOR_CONNECTIONS} connections, by a descriptor of {DESCRIPTOR_ENTRIES:,} entries",
      USER, USER_MIB)
def _(attacker):
    user = attacker.user()
    attacker.expect(user.call(SET_INFO, dacl_body(user.open("described", access=0x1F01FF), long_descriptor())).status == SUCCESS, "the descriptor is set")
    maximal = create_body("described", access=0x80, disposition=1, contexts=create_context(b"MxAc", b""), oplock=9)
    push(attacker, DESCRIPTOR_CREATES, 20, lambda _user, _number: (CREATE, maximal))


@case("descriptors-made", f"{DESCRIPTOR_CHANGES} CREATEs on each of {DESCRIPTOR_CONNECTIONS} connections, of files with such a descriptor", USER, USER_MIB)
def _(attacker):
    described = create_context(b"SecD", long_descriptor())
    push(attacker, DESCRIPTOR_CHANGES, 20, lambda _user, number: (CREATE, create_body(f"made-{number}", contexts=described)))


@case("descriptors-set", f"{DESCRIPTOR_CHANGES} such descriptors set on each of {DESCRIPTOR_CONNECTIONS} connections", USER, USER_MIB)
def _(attacker):
    descriptor, files = long_descriptor(), {}

    def body(user, _number):
        file = files.get(user) or files.setdefault(user, user.open("described", access=0x1F01FF))
        return SET_INFO, dacl_body(file, descriptor)

    push(attacker, DESCRIPTOR_CHANGES, 20, body)


@case("attributes-made", f"{DESCRIPTOR_CHANGES} CREATEs on each of {DESCRIPTOR_CONNECTIONS} connections, each with {ATTRIBUTES:,} extended attributes", USER,
      USER_MIB)
def _(attacker):
    listed = create_context(b"ExtA", long_attributes())
    push(attacker, DESCRIPTOR_CHANGES, 20, lambda _user, number: (CREATE, create_body(f"listed-{number}", contexts=listed)))


@case("copies", f"{COPIES} copies of 16 MiB that the server makes", USER, USER_MIB, held_seconds=0)
def _(attacker):
    user = attacker.user(512)
    source, target = attacker.written(user, "copied", CHUNKS * MIB), user.open("copy")
    key = user.call(IOCTL, ioctl_body(REQUEST_RESUME_KEY, file_id=source)).body[48:72]
    chunks = b"".join(struct.pack("<QQII", number * MIB, number * MIB, MIB, 0) for number in range(CHUNKS))
    body = ioctl_body(COPYCHUNK, key + struct.pack("<II", CHUNKS, 0) + chunks, file_id=target)
    for _ in range(COPIES):
        user.send(IOCTL, body, credits=1)


@case("locks", f"{LOCKS:,} locks with {WAITERS} waiters, of which {UNLOCKS} times {LOCKS_AT_ONCE} are given back", USER, USER_MIB)
def _(attacker):
    holder, waiter = attacker.user(1024), attacker.user(1024)
    held, wanted = holder.open("locked"), waiter.open("locked")
    refused = 0
    for first in range(0, LOCKS, LOCKS_AT_ONCE):
        locks = [(2 * number, 1, EXCLUSIVE | AT_ONCE) for number in range(first, first + LOCKS_AT_ONCE)]
        refused += holder.call(LOCK, lock_body(held, locks)).status != SUCCESS
    for number in range(WAITERS):
        waiter.send(LOCK, lock_body(wanted, [(2 * (LOCKS - 1 - number), 1, EXCLUSIVE)]), credits=1)
    time.sleep(1)
    began = time.monotonic()
    for number in range(UNLOCKS):
        holder.call(LOCK, lock_body(held, [(2 * (LOCKS_AT_ONCE * number + each), 1, UNLOCK) for each in range(LOCKS_AT_ONCE)]))
    attacker.say(f"{refused} requests for locks refused, giving {LOCKS_AT_ONCE} back takes {1000 * (time.monotonic() - began) / UNLOCKS:.1f} ms")


@case("frozen", f"{STUCK_CONNECTIONS * STUCK_EACH} requests on a share whose disk is frozen", USER, USER_MIB, frozen=True, on_tmpfs=False,
      held_seconds=8)
def _(attacker):
    os.environ["SMB_SHARE"] = FROZEN
    users = [attacker.user(128) for _ in range(STUCK_CONNECTIONS)]
    files = [user.open(f"stuck-{number}") for number, user in enumerate(users)]
    for user, file in zip(users, files):
        assert user.call(WRITE, write_body(file, bytes(4096))).status == SUCCESS
    LoopDisk(pathlib.Path(os.environ["BOUNDS_FROZEN"]), None).freeze()
    for user, file in zip(users, files):
        for number in range(STUCK_EACH):
            match number % 3:
                case 0: user.send(WRITE, write_body(file, bytes(4096), offset=4096 * number), credits=1)
                case 1: user.send(CREATE, create_body(f"new-{user.session_id}-{number}"), credits=1)
                case 2: user.send(FLUSH, struct.pack("<HHI", 24, 0, 0) + file, credits=1)
