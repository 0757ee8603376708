"""Those who can connect and have no account."""

import itertools
import os
import struct

from conformance.bench.bounds import ntlm
from conformance.bench.bounds.attacker import MIB, Pushing, framed
from conformance.bench.bounds.case import STRANGERS, STRANGERS_MIB, case
from conformance.hostile.client import SESSION_SETUP, Closed, setup_body, wrapped

SIGN_INS = 3000
SILENT = 1000
BEGUN_CONNECTIONS, BEGUN_EACH, TOKEN_BYTES = 300, 64, 1 << 10
NAMES, NAME_CHARACTERS = 1500, 30_000
HALF_FRAMES, FRAME_BYTES, HALF_BYTES = 1000, 8 * MIB, 4 * MIB
# The longest frame that somebody may send who has not signed in.
LATE_FRAME_BYTES = 64 + 24 + 65_535
BEGUN_FRAMES, BEGUN_BYTES, FEW_NETWORKS = 3000, 17 << 10, 4
# What most attempts are, where some may fail for what the server does against them.
MOST = 0.9
CONNECTS = 6000
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
    attacker.expect(sent >= MOST * SIGN_INS, f"most sign-ins: {sent:,}")


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
    attacker.expect(len(attacker.kept) == SILENT, f"most connections: {len(attacker.kept):,}")


@case("silent", f"{SILENT:,} connections that say nothing, where the server may have 1,024 descriptors, from one address", STRANGERS,
      STRANGERS_MIB, descriptors=1024)
def _(attacker):
    silent(attacker, everywhere=False)


@case("silent-everywhere", f"{SILENT:,} connections that say nothing, where the server may have 1,024 descriptors, each from another address",
      STRANGERS, STRANGERS_MIB, descriptors=1024)
def _(attacker):
    silent(attacker, everywhere=True)


def begin_many(attacker, length):
    legs = refused = 0
    for _ in range(BEGUN_CONNECTIONS):
        try:
            stranger = attacker.keep(attacker.stranger())
            stranger.negotiate()
            for _ in range(BEGUN_EACH):
                is_begun = bool(begun(stranger, length))
                legs, refused = legs + is_begun, refused + (not is_begun)
        except (OSError, Closed):
            refused += 1
    alive = attacker.left()
    attacker.say(f"{legs:,} begun, {refused:,} refused or closed, {alive} connections left")
    attacker.expect(legs >= MOST * BEGUN_CONNECTIONS * BEGUN_EACH, f"most sign-ins: {legs:,} begun")
    attacker.expect(alive >= BEGUN_CONNECTIONS / 3, f"being let to hold them: {alive} connections left")


@case("begun", f"{BEGUN_EACH} sign-ins begun with tokens of 1 KiB, on each of {BEGUN_CONNECTIONS} connections", STRANGERS, STRANGERS_MIB)
def _(attacker):
    begin_many(attacker, TOKEN_BYTES)


@case("begun-small", f"{BEGUN_EACH} sign-ins begun with tokens of 32 bytes, on each of {BEGUN_CONNECTIONS} connections", STRANGERS,
      STRANGERS_MIB)
def _(attacker):
    begin_many(attacker, 32)


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
    attacker.expect(sent >= MOST * NAMES, f"most names: {sent:,}")


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
    made, alive = len(attacker.kept), attacker.left()
    attacker.say(f"{made:,} connections, {pushing.sent / MIB:,.0f} MiB taken, {made - alive:,} ended by the server")
    attacker.expect(made >= MOST * HALF_FRAMES, f"most connections: {made:,}")
    return alive


@case("half-frames", f"{HALF_FRAMES:,} connections, each with half of a frame of 8 MiB", STRANGERS, STRANGERS_MIB)
def _(attacker):
    half_sent(attacker, after_negotiate=False)


@case("half-frames-negotiated", f"{HALF_FRAMES:,} connections that negotiated, each with half of a frame of 8 MiB", STRANGERS, STRANGERS_MIB)
def _(attacker):
    half_sent(attacker, after_negotiate=True)


@case("late-frames", f"{HALF_FRAMES:,} connections, each with a frame of 64 KiB but for its last byte", STRANGERS, STRANGERS_MIB)
def _(attacker):
    alive = half_sent(attacker, after_negotiate=True, frame_bytes=LATE_FRAME_BYTES, sent_bytes=LATE_FRAME_BYTES - 1)
    attacker.expect(alive >= HALF_FRAMES / 3, f"being let to hold them: {alive} connections left")


def begin_frames(attacker, source):
    """Frames that begin and do not end, and more of them in place of those that the server ends."""
    part = framed(b"\xfeSMB" + bytes(BEGUN_BYTES), LATE_FRAME_BYTES)

    def begin():
        attacker.keep(attacker.stranger(seconds=5, source=source())).send_bytes(part)

    begun_frames = 0
    for _ in range(BEGUN_FRAMES):
        try:
            begin()
            begun_frames += 1
        except (OSError, Closed):
            continue
    alive = attacker.left()
    attacker.say(f"{begun_frames:,} frames begun, {alive:,} connections left")
    attacker.expect(begun_frames >= MOST * BEGUN_FRAMES, f"most frames: {begun_frames:,}")
    attacker.expect(alive >= BEGUN_FRAMES / 4, f"being let to hold them: {alive:,} connections left")

    def go_on():
        for _ in range(100):
            begin()
        attacker.let_go_of_ended()
    attacker.meanwhile = go_on


BEGUN_TITLE = f"{BEGUN_FRAMES:,} connections with 17 KiB of a frame of 64 KiB, others in place of those that end, "


@case("begun-frames", BEGUN_TITLE + f"from {FEW_NETWORKS} networks", STRANGERS, STRANGERS_MIB, newcomers=5, newcomer_seconds=2)
def _(attacker):
    networks = itertools.cycle([attacker.network() for _ in range(FEW_NETWORKS)])
    begin_frames(attacker, lambda: next(networks))


@case("begun-frames-everywhere", BEGUN_TITLE + "each from another network", STRANGERS, STRANGERS_MIB, newcomers=5, newcomer_seconds=2)
def _(attacker):
    begin_frames(attacker, attacker.network)


@case("connects-everywhere", "connections that say nothing, as fast as they come, each from another network", STRANGERS, STRANGERS_MIB,
      newcomers=5, newcomer_seconds=2)
def _(attacker):
    made = 0
    for _ in range(CONNECTS):
        try:
            attacker.keep(attacker.stranger(seconds=5, source=attacker.network()))
            made += 1
        except OSError:
            continue
    alive = attacker.left()
    attacker.say(f"{made:,} connections, {alive:,} left")
    attacker.expect(made >= MOST * CONNECTS and alive < made, f"more connections than there may be: {made:,}, {alive:,} left")

    def go_on():
        for _ in range(100):
            attacker.keep(attacker.stranger(seconds=5, source=attacker.network()))
        attacker.let_go_of_ended()
    attacker.meanwhile = go_on
