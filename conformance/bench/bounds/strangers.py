"""Those who can connect and have no account."""

import os
import struct

from conformance.bench.bounds import ntlm
from conformance.bench.bounds.attacker import MIB, Pushing, framed
from conformance.bench.bounds.case import STRANGERS, STRANGERS_MIB, case
from conformance.hostile.client import SESSION_SETUP, Closed, setup_body, wrapped

SIGN_INS = 3000
SILENT = 1000
BEGUN_CONNECTIONS, BEGUN_EACH, TOKEN_BYTES = 40, 64, 64 << 10
BEGUN_SMALL_CONNECTIONS = 300
NAMES, NAME_CHARACTERS = 1500, 30_000
HALF_FRAMES, FRAME_BYTES, HALF_BYTES = 1000, 8 * MIB, 4 * MIB
# A response as long as that of others; whatever the challenge, it is wrong.
WRONG = bytes(16) + struct.pack("<BBHIQ", 1, 1, 0, 0, 0) + bytes(8) + bytes(4) + bytes(8)


def begun(connection, length=32):
    """A sign-in's first leg; its session."""
    connection.session_id = 0
    answer = connection.call(SESSION_SETUP, setup_body(wrapped(ntlm.negotiate(length))))
    connection.session_id = answer.session_id
    return answer.session_id


def last_leg(name):
    # Whatever stands for the login here only says that this is not the first token, and is complete without a code of its own.
    return setup_body(wrapped(ntlm.message(name, WRONG), WITHOUT_CODE))


class WITHOUT_CODE:
    complete = False


def wrong_sign_ins(attacker, everywhere):
    sent = 0
    for _ in range(SIGN_INS):
        try:
            with attacker.stranger(everywhere) as stranger:
                stranger.negotiate()
                begun(stranger)
                stranger.send(SESSION_SETUP, last_leg(os.environ["SMB_USER"]))
                sent += 1
        except (OSError, Closed):
            continue
    attacker.say(f"{sent:,} wrong sign-ins")


@case("sign-ins", f"{SIGN_INS:,} wrong sign-ins, their clients gone at once, from one address", STRANGERS, STRANGERS_MIB)
def _(attacker):
    wrong_sign_ins(attacker, everywhere=False)


@case("sign-ins-everywhere", f"{SIGN_INS:,} wrong sign-ins, their clients gone at once, each from another address", STRANGERS,
      STRANGERS_MIB)
def _(attacker):
    wrong_sign_ins(attacker, everywhere=True)


def silent(attacker, everywhere):
    for _ in range(SILENT):
        try:
            attacker.keep(attacker.stranger(everywhere, seconds=5))
        except OSError:
            break
    attacker.say(f"{len(attacker.kept):,} connections")


@case("silent", f"{SILENT:,} connections that say nothing, where the server may have 1,024 descriptors, from one address", STRANGERS,
      STRANGERS_MIB, descriptors=1024)
def _(attacker):
    silent(attacker, everywhere=False)


@case("silent-everywhere", f"{SILENT:,} connections that say nothing, where the server may have 1,024 descriptors, each from another address",
      STRANGERS, STRANGERS_MIB, descriptors=1024)
def _(attacker):
    silent(attacker, everywhere=True)


def begin_many(attacker, connections, each, length):
    legs = refused = 0
    for _ in range(connections):
        try:
            stranger = attacker.keep(attacker.stranger())
            stranger.negotiate()
            for _ in range(each):
                is_begun = bool(begun(stranger, length))
                legs, refused = legs + is_begun, refused + (not is_begun)
        except (OSError, Closed):
            refused += 1
    attacker.say(f"{legs:,} begun, {refused:,} refused or closed")


@case("begun", f"{BEGUN_EACH} sign-ins begun with tokens of 64 KiB, on each of {BEGUN_CONNECTIONS} connections", STRANGERS, STRANGERS_MIB)
def _(attacker):
    # The token's length has 16 bits, and SPNEGO's own bytes belong to it.
    begin_many(attacker, BEGUN_CONNECTIONS, BEGUN_EACH, TOKEN_BYTES - 256)


@case("begun-small", f"{BEGUN_EACH} sign-ins begun with tokens of 4 KiB, on each of {BEGUN_SMALL_CONNECTIONS} connections", STRANGERS,
      STRANGERS_MIB)
def _(attacker):
    begin_many(attacker, BEGUN_SMALL_CONNECTIONS, BEGUN_EACH, 4096)


@case("names", f"wrong sign-ins with {NAMES:,} names of 90 KB", STRANGERS, STRANGERS_MIB)
def _(attacker):
    sent = 0
    for number in range(NAMES):
        name = f"{number:06}" + "字" * (NAME_CHARACTERS - 6)
        try:
            with attacker.stranger() as stranger:
                stranger.negotiate()
                begun(stranger)
                stranger.send(SESSION_SETUP, last_leg(name))
                sent += 1
        except (OSError, Closed):
            continue
    attacker.say(f"{sent:,} names")


def half_sent(attacker, after_negotiate, frame_bytes=FRAME_BYTES, sent_bytes=HALF_BYTES):
    pushing = Pushing()
    # Enough of a header that the server knows which request is to come.
    begins = b"\xfeSMB" + struct.pack("<HHIHH", 64, 1, 0, SESSION_SETUP if after_negotiate else 0, 1)
    part = framed(begins + bytes(sent_bytes - len(begins)), frame_bytes)
    for _ in range(HALF_FRAMES):
        try:
            stranger = attacker.keep(attacker.stranger())
            if after_negotiate:
                stranger.negotiate()
            pushing.add(stranger, part)
        except (OSError, Closed):
            continue
    pushing.run(30)
    attacker.say(f"{len(attacker.kept):,} connections, {pushing.sent / MIB:,.0f} MiB taken, {pushing.ended:,} ended by the server")


@case("half-frames", f"{HALF_FRAMES:,} connections, each with half of a frame of 8 MiB", STRANGERS, STRANGERS_MIB)
def _(attacker):
    half_sent(attacker, after_negotiate=False)


@case("half-frames-negotiated", f"{HALF_FRAMES:,} connections that negotiated, each with half of a frame of 8 MiB", STRANGERS, STRANGERS_MIB)
def _(attacker):
    half_sent(attacker, after_negotiate=True)


@case("late-frames", f"{HALF_FRAMES:,} connections, each with a frame of 128 KiB but for its last byte", STRANGERS, STRANGERS_MIB)
def _(attacker):
    half_sent(attacker, after_negotiate=True, frame_bytes=128 << 10, sent_bytes=(128 << 10) - 1)
