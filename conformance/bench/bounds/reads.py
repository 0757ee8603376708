"""Clients that ask for much and take nothing."""

import os

from conformance.bench.bounds.attacker import MIB, Pushing, framed
from conformance.bench.bounds.case import CLIENTS, case
from conformance.hostile.client import READ, read_body

READERS, READS, READ_BYTES = 4, 64, 8 * MIB
CREDITS_EACH = READ_BYTES // 65536
READS_MIB = 256
FILE = "large"


def large_file(share):
    with open(share / FILE, "wb") as file:
        for _ in range(READS * READ_BYTES // MIB):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())
    (share / FILE).chmod(0o666)


def large_file_on_disk_only(share):
    large_file(share)
    with open(share / FILE, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ask_and_take_nothing(attacker):
    pushing = Pushing()
    for _ in range(READERS):
        user = attacker.user(READS * CREDITS_EACH)
        file = user.open(FILE)
        requests = [framed(user.message(READ, read_body(file, READ_BYTES, offset=number * READ_BYTES), charge=CREDITS_EACH, credits=1))
                    for number in range(READS)]
        pushing.add(user, b"".join(requests))
    pushing.run(20)
    attacker.say(f"{pushing.sent:,} bytes of requests taken, {pushing.ended} connections ended by the server")


TITLE = f"{READERS} clients that ask for {READS} READs of 8 MiB each and take nothing, of a file "


@case("reads-cached", TITLE + "in the page cache", CLIENTS, READS_MIB, prepare=large_file, on_tmpfs=False)
def _(attacker):
    ask_and_take_nothing(attacker)


@case("reads-from-disk", TITLE + "outside of it", CLIENTS, READS_MIB, prepare=large_file_on_disk_only, on_tmpfs=False,
      held_seconds=15)
def _(attacker):
    ask_and_take_nothing(attacker)
