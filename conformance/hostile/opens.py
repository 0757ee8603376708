"""What clients may ask of an open file, asked wrongly: leases, locks, handles that outlive a connection, notifications."""

import os
import struct
import time

from conformance.hostile.case import (
    ANY_ERROR, FILE_CLOSED, INVALID_LOCK_RANGE, INVALID_PARAMETER, OBJECT_NAME_NOT_FOUND, case, resident_bytes,
)
from conformance.hostile.client import (
    CHANGE_NOTIFY, CLOSE, CLOSED, CREATE, ECHO, ECHO_BODY, LOCK, OPLOCK_BREAK, SUCCESS, Closed, client, close_body,
    create_body, create_context, lock_body,
)
from conformance.hostile.requests import FOLDER, MAX, MIB, notify_body

LEASE, OPLOCK_BATCH = 0xFF, 9
READ_WRITE_HANDLE, READ_HANDLE = 7, 3
AT_ONCE = 0x12  # an exclusive lock that fails rather than waits
# A client has 35 seconds to answer a break; and some more, for the machine's sake.
BREAK_SECONDS = 45


def leased(name, key, state=READ_WRITE_HANDLE, **how):
    """A CREATE that asks for a lease, MS-SMB2 2.2.13.2.8."""
    context = create_context(b"RqLs", key + struct.pack("<IIQ", state, 0, 0))
    return create_body(name, contexts=context, oplock=LEASE, **how)


def lease_acknowledgement(key, state=READ_HANDLE):
    """A Lease Break Acknowledgment, MS-SMB2 2.2.24.2."""
    return struct.pack("<HHI", 36, 0, 0) + key + struct.pack("<IQ", state, 0)


def reconnect(file_id, guid):
    """The create contexts of a durable handle's second version that comes back, MS-SMB2 2.2.13.2.12."""
    return create_context(b"DH2C", file_id + guid + struct.pack("<I", 0))


@case("a lease acknowledgement when nothing breaks", ANY_ERROR)
def _():
    with client() as raw:
        key = os.urandom(16)
        raw.call(CREATE, leased("leased", key))
        return raw.call(OPLOCK_BREAK, lease_acknowledgement(key)).status


@case("a lease acknowledgement after the close", OBJECT_NAME_NOT_FOUND)
def _():
    with client() as raw:
        key = os.urandom(16)
        file = raw.call(CREATE, leased("leased", key)).body[64:80]
        raw.call(CLOSE, close_body(file))
        return raw.call(OPLOCK_BREAK, lease_acknowledgement(key)).status


@case("an oplock acknowledgement after the close", FILE_CLOSED)
def _():
    with client() as raw:
        file = raw.open("leased", oplock=OPLOCK_BATCH)
        raw.call(CLOSE, close_body(file))
        return raw.call(OPLOCK_BREAK, struct.pack("<HBBI", 24, 1, 0, 0) + file).status


@case("another client's lease acknowledged", ANY_ERROR)
def _():
    with client() as owner, client() as other:
        key = os.urandom(16)
        owner.call(CREATE, leased("leased", key))
        return other.call(OPLOCK_BREAK, lease_acknowledgement(key)).status


@case("one lease key for two files", INVALID_PARAMETER)
def _():
    with client() as raw:
        key = os.urandom(16)
        raw.call(CREATE, leased("leased", key))
        return raw.call(CREATE, leased("leased-too", key)).status


@case("a client that never acknowledges a break holds another up for 35 seconds and no longer", SUCCESS)
def _():
    with client() as silent, client() as other:
        silent.call(CREATE, leased("never-acknowledged", os.urandom(16)))
        other.socket.settimeout(BREAK_SECONDS)
        began = time.monotonic()
        status = other.call(CREATE, create_body("never-acknowledged")).status
        waited = time.monotonic() - began
        return status if 30 < waited < BREAK_SECONDS else f"it waited {waited:.1f} s"


@case("a lock whose range wraps around", INVALID_LOCK_RANGE)
def _():
    with client() as raw:
        return raw.call(LOCK, lock_body(raw.open("hundred"), [(0, 10, AT_ONCE), (MAX, 2, AT_ONCE)])).status


@case("10,000 locks in one request", SUCCESS, ANY_ERROR)
def _():
    with client() as raw:
        file = raw.open("many-locks")
        raw.call(ECHO, ECHO_BODY, credits=64)
        return raw.call(LOCK, lock_body(file, [(number * 2, 1, AT_ONCE) for number in range(10_000)]), charge=4).status


@case("durable handles that somebody else would like to have", OBJECT_NAME_NOT_FOUND)
def _():
    with client() as owner:
        request = struct.pack("<IIQ", 0, 0, 0) + bytes(range(16))
        answer = owner.call(CREATE, create_body("durable", contexts=create_context(b"DH2Q", request), oplock=OPLOCK_BATCH))
        file = answer.body[64:80]
    for guid, file_id in ((os.urandom(16), file), (bytes(range(16)), os.urandom(16)), (bytes(16), bytes(16))):
        with client() as thief:
            status = thief.call(CREATE, create_body("durable", contexts=reconnect(file_id, guid))).status
            if status != OBJECT_NAME_NOT_FOUND:
                return status
    with client() as owner:
        owner.call(CLOSE, close_body(owner.open("durable")))
    return OBJECT_NAME_NOT_FOUND


@case("20,000 notify requests on one folder", SUCCESS, CLOSED)
def _():
    before = resident_bytes()
    with client() as raw:
        folder = raw.open("watched-folder", options=FOLDER)
        raw.call(ECHO, ECHO_BODY, credits=8192)
        try:
            for _ in range(20_000):
                raw.send(CHANGE_NOTIFY, notify_body(folder))
        except Closed:
            return CLOSED
        finally:
            growth = resident_bytes() - before
    return SUCCESS if growth < 64 * MIB else f"the server grew by {growth // MIB} MiB"


@case("2,000 leases broken at once", SUCCESS)
def _():
    with client() as holder, client() as other:
        files = [holder.call(CREATE, leased(f"held-{number}", os.urandom(16), READ_HANDLE)) for number in range(2000)]
        if any(answer.status != SUCCESS for answer in files):
            return "a lease was refused"
        for number in range(2000):
            answer = other.call(CREATE, create_body(f"held-{number}", disposition=5))
            if answer.status != SUCCESS:
                return answer.status
            other.call(CLOSE, close_body(answer.body[64:80]))
        return SUCCESS
