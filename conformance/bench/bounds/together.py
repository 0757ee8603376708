"""Several kinds of attacks at once, for limits that each hold need not hold together."""

import os
import pathlib
import time

from conformance.bench.bounds.attacker import MIB, Pushing, framed
from conformance.bench.bounds.case import FROZEN, USER, USER_MIB, case
from conformance.bench.bounds.users import compound_of_reads
from conformance.bench.bounds.waiting import KINDS, dense_behind, prepared_to_wait
from conformance.hostile.client import READ, WRITE, read_body, write_body
from conformance.loop_disk import LoopDisk

UNTAKEN, CHAINS, HALVES = 100, 8, 200
UNTAKEN_READS, CHAINED_READS = 16, 7_000
LARGE = 8 * MIB
# Who has waited for a second gets more.
BETWEEN_SECONDS = 3
FILE = "read by all"


def push(clients, frames):
    pushing = Pushing()
    for user, *files in clients:
        pushing.add(user, frames(user, *files))
    pushing.run(25)
    time.sleep(BETWEEN_SECONDS)
    return pushing.sent


@case("all-at-once", "descriptors that wait for a frozen disk, READs of 8 MiB whose answers nobody takes, compounds of 7,000 READs and halves of "
      "8-MiB WRITEs", USER, USER_MIB, frozen=True, on_tmpfs=False, seconds=200, held_seconds=8)
def _(attacker):
    others = os.environ["SMB_SHARE"]
    os.environ["SMB_SHARE"] = FROZEN
    waiting = prepared_to_wait(attacker, KINDS["set-descriptor"])
    os.environ["SMB_SHARE"] = others
    attacker.written(attacker.user(), FILE, LARGE)
    untaken, chains, halves = ([(user, user.open(FILE)) for user in (attacker.user(credits) for _ in range(count))]
                               for count, credits in ((UNTAKEN, UNTAKEN_READS * 128), (CHAINS, 8_000), (HALVES, 300)))
    LoopDisk(pathlib.Path(os.environ["BOUNDS_FROZEN"]), None).freeze()
    sent = push(waiting, lambda user, file, stuck: dense_behind(KINDS["set-descriptor"], user, file, stuck))
    sent += push(untaken, lambda user, file: b"".join(
        framed(user.message(READ, read_body(file, LARGE), charge=128, credits=1)) for _ in range(UNTAKEN_READS)))
    sent += push(chains, lambda user, file: compound_of_reads(user, file, CHAINED_READS))
    sent += push(halves, lambda user, file: framed(user.message(WRITE, write_body(file, bytes(LARGE)), charge=128))[:LARGE // 2])
    attacker.say(f"{sent / MIB:.1f} MiB of requests taken")
