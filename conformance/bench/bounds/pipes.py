"""One signed-in user, and the pipes of `IPC$`."""

import struct
import uuid

from conformance.bench.bounds.case import USER, USER_MIB, case
from conformance.hostile.client import CLOSE, CREATE, IOCTL, SUCCESS, WRITE, close_body, create_body, ioctl_body, write_body

PIPES, CALLS_EACH = 400, 3
LOOKUP_CONNECTIONS, SIDS = 4, 1_000
TRANSCEIVE = 0x0011C017
FRAGMENT_BYTES, HEADER_BYTES = 4280, 24
BIND, REQUEST, FIRST, LAST = 11, 0, 1, 2
OPEN_POLICY2, LOOKUP_SIDS = 44, 15
MAXIMUM_ALLOWED = 0x02000000
BUFFER_OVERFLOW = 0x80000005


def syntax(name, version):
    return uuid.UUID(name).bytes_le + struct.pack("<I", version)


LSARPC, NDR = syntax("12345778-1234-abcd-ef00-0123456789ab", 0), syntax("8a885d04-1ceb-11c9-9fe8-08002b104860", 2)


def pdu(kind, flags, body):
    return struct.pack("<BBBBIHHI", 5, 0, kind, flags, 0x10, 16 + len(body), 0, 1) + body


def call(operation, stub):
    """A call in as many fragments as it takes."""
    room = (FRAGMENT_BYTES - HEADER_BYTES) // 8 * 8
    parts = [stub[at:at + room] for at in range(0, len(stub), room)]
    flags = [(FIRST if number == 0 else 0) | (LAST if number == len(parts) - 1 else 0) for number in range(len(parts))]
    return b"".join(pdu(REQUEST, flag, struct.pack("<IHH", len(part), 0, operation) + part) for flag, part in zip(flags, parts, strict=True))


def asked(connection, pipe, message, output=FRAGMENT_BYTES):
    """Writes to a pipe and reads what is answered, as far as there is room for it."""
    answer = connection.call(IOCTL, ioctl_body(TRANSCEIVE, message, pipe, output=output), charge=max(1, -(-len(message) // 65536)), credits=64)
    offset, length = struct.unpack_from("<II", answer.body, 32)
    return answer.body[offset - 64:offset - 64 + length]


def opened(connection, group=0):
    """A pipe that is bound to `lsarpc`, and its association's group."""
    answer = connection.call(CREATE, create_body("lsarpc", disposition=1))
    assert answer.status == SUCCESS, f"CREATE: {answer.status:#x}"
    pipe = answer.body[64:80]
    contexts = struct.pack("<BBHHBB", 1, 0, 0, 0, 1, 0) + LSARPC + NDR
    answer = asked(connection, pipe, pdu(BIND, FIRST | LAST, struct.pack("<HHI", FRAGMENT_BYTES, FRAGMENT_BYTES, group) + contexts))
    return pipe, struct.unpack_from("<I", answer, 20)[0]


def lookup(connection, pipe):
    """A call for the names of as many SIDs as may be, the longest there are."""
    answer = asked(connection, pipe, call(OPEN_POLICY2, struct.pack("<IIIIIIII", 0, 24, 0, 0, 0, 0, 0, MAXIMUM_ALLOWED)))
    sid = struct.pack("<IBB", 15, 1, 15) + (99).to_bytes(6, "big") + b"\xff" * 60
    stub = answer[24:44] + struct.pack("<III", SIDS, 1, SIDS) + struct.pack("<I", 1) * SIDS + sid * SIDS
    return call(LOOKUP_SIDS, stub + struct.pack("<IIHHI", 0, 0, 1, 0, 0))


def talking(attacker):
    """A signed-in connection with `IPC$`."""
    connection = attacker.user(1_024)
    answer = connection.tree_connect("IPC$")
    assert answer.status == SUCCESS, f"TREE_CONNECT: {answer.status:#x}"
    return connection


@case("unread-pipes", f"lookups of {SIDS:,} SIDs on {PIPES} pipes, whose answers nobody reads", USER, USER_MIB)
def _(attacker):
    connection, taken, refused = talking(attacker), 0, 0
    first, group = opened(connection)
    message = lookup(connection, first)
    for _ in range(PIPES):
        try:
            pipe, _ = opened(connection, group)
        except (AssertionError, struct.error):
            refused += 1
            continue
        for _ in range(CALLS_EACH):
            status = connection.call(WRITE, write_body(pipe, message), charge=2, credits=64).status
            taken, refused = taken + (status == SUCCESS), refused + (status != SUCCESS)
    attacker.say(f"{taken:,} WRITEs taken, {refused:,} refused")
    attacker.expect(taken > 0 and refused > 0, "the end of what pipes may hold")


@case("lookups", f"lookups of {SIDS:,} SIDs on {LOOKUP_CONNECTIONS} connections, one after the other", USER, USER_MIB)
def _(attacker):
    connections = [talking(attacker) for _ in range(LOOKUP_CONNECTIONS)]
    groups = [opened(connection) for connection in connections]
    messages = [lookup(connection, pipe) for connection, (pipe, _) in zip(connections, groups, strict=True)]

    def once():
        """One lookup on each connection, of which little is read: a pipe that is closed forgets the rest."""
        pipes = [opened(connection, group)[0] for connection, (_, group) in zip(connections, groups, strict=True)]
        for connection, pipe, message in zip(connections, pipes, messages, strict=True):
            connection.send(IOCTL, ioctl_body(TRANSCEIVE, message, pipe, output=1024), charge=2, credits=64)
        statuses = [connection.receive().status for connection in connections]
        for connection, pipe in zip(connections, pipes, strict=True):
            connection.call(CLOSE, close_body(pipe))
        return statuses

    attacker.expect(all(status == BUFFER_OVERFLOW for status in once()), "answers")
    attacker.meanwhile = once
