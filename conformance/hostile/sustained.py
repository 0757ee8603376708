"""Clients that take more than their share: of connections, handles, memory or patience."""

import struct
import time

from conformance.hostile.case import alive, case, resident_bytes
from conformance.hostile.client import (
    CHANGE_NOTIFY, CREATE, ECHO, ECHO_BODY, LOCK, MORE_PROCESSING_REQUIRED, READ, SESSION_SETUP, SIGNED, SUCCESS, WRITE,
    Closed, Raw, client, create_body, lock_body, read_body, setup_body, write_body,
)
from conformance.hostile.requests import FOLDER, notify_body

MIB = 1 << 20
GROWTH_BYTES_MAX = 512 * MIB
# What allocators keep for themselves; 8 KiB for each bind would be more.
BINDS_GROWTH_BYTES_MAX = 8 * MIB
# The largest WRITE, of so many connections at a time; each waits its turn behind those that have to be ended.
LARGEST = 8 * MIB
STANDING = 30
STANDING_SECONDS_MAX = 40
BIND = 1  # SMB2_SESSION_FLAG_BINDING


@case("1,000 connections that never say a word", SUCCESS)
def _():
    opened = []
    try:
        for _ in range(1000):
            opened.append(Raw(seconds=5))
    except OSError:
        pass  # a server may have a limit
    for raw in opened:
        raw.socket.close()
    return SUCCESS if len(opened) > 20 else f"only {len(opened)} connections"


def refused_binds(victim, count):
    """Binds to another's session: to none, unsigned, wrongly signed, each on a connection of its own."""
    token = b"NTLMSSP\0" + struct.pack("<II", 1, 0x80201) + bytes(16)
    for number in range(count):
        with Raw() as thief:
            thief.negotiate()
            thief.session_id = victim.session_id + (number % 3 == 0)
            signed = number % 3 == 2
            try:
                answer = thief.call(SESSION_SETUP, setup_body(token, flags=BIND), flags=SIGNED if signed else 0,
                                    signature=bytes(range(16)) if signed else bytes(16))
            except Closed:
                continue
            if answer.status in (SUCCESS, MORE_PROCESSING_REQUIRED):
                return f"bind {number} went on with {answer.status:#010x}"
    return None


@case("1,000 binds to another's session cost no memory that stays", SUCCESS)
def _():
    with client() as victim:
        went_on = refused_binds(victim, 200)
        before = resident_bytes()
        went_on = went_on or refused_binds(victim, 1000)
        grown = resident_bytes() - before
        if went_on or grown > BINDS_GROWTH_BYTES_MAX:
            return went_on or f"grew by {grown // MIB} MiB"
        return SUCCESS if alive(victim) else "the victim's session is gone"


@case("300 clients that go away with requests in flight", SUCCESS)
def _():
    for number in range(300):
        raw = client() if number % 10 == 0 else Raw()
        if raw.session_id:
            file = raw.open("in-flight")
            folder = raw.open("in-flight-folder", options=FOLDER)
            raw.send(CHANGE_NOTIFY, notify_body(folder))
            for _ in range(20):
                raw.send(WRITE, write_body(file, bytes(65536)))
                raw.send(READ, read_body(file, 65536))
        raw.socket.close()
    return SUCCESS


@case("a client that asks for reads and never takes the answers", SUCCESS)
def _():
    before = resident_bytes()
    with client() as raw:
        file = raw.open("never-taken")
        for offset in range(0, 8 * MIB, 65536):
            raw.call(WRITE, write_body(file, bytes(65536), offset=offset))
        raw.socket.settimeout(2)
        try:
            for number in range(4000):
                raw.send(READ, read_body(file, 65536, offset=number % 100 * 65536))
        except (TimeoutError, Closed):
            pass
        time.sleep(1)
        growth = resident_bytes() - before
        return SUCCESS if growth < GROWTH_BYTES_MAX else f"the server grew by {growth // MIB} MiB"


@case("30 connections that stand still near the end of the largest WRITE keep nobody of their user waiting", SUCCESS)
def _():
    standing = [client() for _ in range(STANDING)]
    try:
        for raw in standing:
            message = raw.message(WRITE, write_body(bytes(16), bytes(LARGEST)), charge=LARGEST // 65536)
            raw.send_bytes(struct.pack(">I", len(message)) + message[:LARGEST * 7 // 8])
        with client() as other:
            other.socket.settimeout(STANDING_SECONDS_MAX)
            file = other.open("while-others-stand")
            for _ in range(4):
                other.call(ECHO, ECHO_BODY, credits=512)
            for _ in range(3):
                answer = other.call(WRITE, write_body(file, bytes(LARGEST)), charge=LARGEST // 65536, credits=512)
                if answer.status != SUCCESS:
                    return answer.status
            return SUCCESS
    except TimeoutError:
        return "a WRITE that is not answered"
    finally:
        for raw in standing:
            raw.socket.close()


@case("a client that waits for 200 locks and goes away", SUCCESS)
def _():
    with client() as holder, client() as waiter:
        held, wanted = holder.open("waited-for"), waiter.open("waited-for")
        holder.call(LOCK, lock_body(held, [(0, 10, 0x12)]))
        waiter.call(ECHO, ECHO_BODY, credits=1024)
        try:
            for _ in range(200):
                waiter.send(LOCK, lock_body(wanted, [(0, 10, 0x02)]))
        except Closed:
            pass
    return SUCCESS


@case("2,000 handles opened and left behind", SUCCESS)
def _():
    with client() as raw:
        for number in range(2000):
            try:
                raw.call(CREATE, create_body(f"left-{number % 50}"))
            except Closed:
                break
    return SUCCESS


@case("a write that stops in the middle holds nothing up", SUCCESS)
def _():
    with client() as raw, client() as other:
        file = raw.open("half-written")
        message = raw.message(WRITE, write_body(file, bytes(65536)))
        raw.send_bytes(struct.pack(">I", len(message)) + message[:1000])
        answer = other.call(READ, read_body(other.open("half-written"), 10))
        return SUCCESS if answer.command == READ else "no answer to a READ"
