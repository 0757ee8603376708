"""What the suite `frozen` does, in a process with the packages that its client needs."""

import contextlib
import json
import os
import pathlib
import select
import struct
import subprocess
import time

from conformance.frozen import FROZEN, SHARE
from conformance.hostile.client import (
    CLOSE, CREATE, ECHO, ECHO_BODY, FLUSH, PENDING, QUERY_DIRECTORY, READ, SET_INFO, SUCCESS, WRITE, client, close_body, create_body, parsed,
    query_directory_body, read_body, set_info_body, write_body,
)
from conformance.loop_disk import LoopDisk
from conformance.report import Lines, expect

CLIENTS, WRITES, NAMES = 4, 20, 8
BLOCK_BYTES = 4096
# A server that waits for the disk answers nothing before the thaw.
ANSWERED_SECONDS = 5
THAWED_SECONDS = 30
# How long what may be answered at once has until it is looked at what was not.
SETTLE_SECONDS = 0.2
BASIC = 4
# A disk is said to hang after five.
TOLD_SECONDS = 30
# In 100 ns since 1601.
SOME_TIME = 133_500_000_000_000_000
ALL_ACCESS, DELETE_ON_CLOSE, OPEN, DIRECTORY = 0x001F01FF, 0x1000, 1, 1
lines = Lines()


def main():
    with contextlib.ExitStack() as stack:
        frozen(stack)


def frozen(stack):
    disk = LoopDisk(pathlib.Path(os.environ["FROZEN_FOLDER"]), None)
    bystander, theirs = bystanding(stack)
    stuck = [Stuck(stack.enter_context(signed_in(FROZEN)), number) for number in range(CLIENTS)]
    drop_caches()
    disk.freeze()
    try:
        for one in stuck:
            one.ask()
        others_are_served(bystander, theirs, "a share's disk hangs")
        if "MULTILANE" in os.environ:
            with lines.check("`status` and `why` say which disk does not answer"):
                operators_are_told()
        with lines.check("nothing that changes the disk is acknowledged while it hangs"):
            early = [what for one in stuck for what in one.early()]
            expect(not early, f"answered: {early}")
    finally:
        disk.thaw()
    with lines.check("all that was asked for is done after the thaw"):
        for one in stuck:
            one.take_answers()
    with lines.check("the files hold what was acknowledged"):
        for one in stuck:
            one.judge(disk.folder)


def operators_are_told():
    deadline = time.monotonic() + TOLD_SECONDS
    while True:
        problems = [problem["share"] for problem in said("status")["problems"]]
        causes = said("why", FROZEN)["causes"]
        sentences = " ".join(causes[0]["sentences"]) if causes else ""
        if problems == [FROZEN] and f"The store of the share {FROZEN} does not answer" in sentences:
            return
        expect(time.monotonic() < deadline, f"status: {problems}, why: {causes}")
        time.sleep(1)


def said(*words):
    told = subprocess.run([os.environ["MULTILANE"], *words, "--json"], capture_output=True, text=True, timeout=60)
    return json.loads(told.stdout)


def bystanding(stack):
    """A client of the other share, and the file that it has open there and has written to."""
    bystander = stack.enter_context(signed_in(SHARE))
    theirs = bystander.open("bystander")
    expect(bystander.call(WRITE, write_body(theirs, block(0))).status == SUCCESS, "the bystander's WRITE was refused")
    return bystander, theirs


def others_are_served(bystander, theirs, what_happens):
    """Two checks: of a client that has `theirs` open on another share, and of one that comes."""
    with lines.check(f"who uses another share is served while {what_happens}"):
        for number in range(WRITES):
            answered(bystander, WRITE, write_body(theirs, block(number), offset=number * BLOCK_BYTES))
            read = answered(bystander, READ, read_body(theirs, BLOCK_BYTES, offset=number * BLOCK_BYTES))
            expect(read.body[16:] == block(number), "the bystander reads something else")
            made = answered(bystander, CREATE, create_body(f"meanwhile-{number}"))
            answered(bystander, CLOSE, close_body(made.body[64:80]))
    with lines.check(f"who comes is signed in while {what_happens}"):
        with signed_in(SHARE) as newcomer:
            answered(newcomer, CREATE, create_body("newcomer"))


class Asking:
    """A client that sends without waiting for answers, each of which has to be SUCCESS in the end."""

    def __init__(self, connection, echoes):
        self.connection = connection
        # Each brings credits, of which there have to be as many as requests are under way.
        for _ in range(echoes):
            connection.call(ECHO, ECHO_BODY)
        self.under_way = set()

    def ask(self, command, body):
        self.under_way.add(self.connection.next_id)
        self.connection.send(command, body)

    def take(self):
        answer = parsed(self.connection.receive_frame())
        if answer.status != PENDING:
            self.under_way.discard(answer.message_id)
            expect(answer.status == SUCCESS, f"command {answer.command}: {answer.status:#010x}")

    def take_all(self):
        self.connection.socket.settimeout(THAWED_SECONDS)
        while self.under_way:
            self.take()


class Stuck:
    """A client of the share whose disk hangs, with requests of every kind that wait for it."""

    def __init__(self, connection, number):
        self.connection, self.number = connection, number
        self.asked = {}
        self.answers = {}
        self.written = connection.open(f"written-{number}")
        self.cold = connection.open(f"cold-{number}")
        self.doomed = [connection.open(f"doomed-{number}-{each}", access=ALL_ACCESS, options=DELETE_ON_CLOSE) for each in range(NAMES)]
        self.root = connection.call(CREATE, create_body("", disposition=OPEN, options=DIRECTORY)).body[64:80]
        for file, what in ((self.written, 0), (self.cold, 7)):
            expect(connection.call(WRITE, write_body(file, block(what))).status == SUCCESS, "a WRITE was refused")
        for file in (self.written, self.cold):
            expect(connection.call(FLUSH, struct.pack("<HHI", 24, 0, 0) + file).status == SUCCESS, "a FLUSH was refused")

    def ask(self):
        send = self.send
        for number in range(WRITES):
            send(f"write {number}", WRITE, write_body(self.written, block(number), offset=number * BLOCK_BYTES))
        # Whether times are held fast is asked with each READ of the same open.
        send("set", SET_INFO, set_info_body(self.cold, BASIC, struct.pack("<QQQQII", 0, 0, SOME_TIME, 0, 0, 0)))
        send("read", READ, read_body(self.cold, BLOCK_BYTES))
        send("list", QUERY_DIRECTORY, query_directory_body(self.root))
        for number in range(NAMES):
            send(f"create {number}", CREATE, create_body(f"created-{self.number}-{number}"))
            send(f"delete {number}", CLOSE, close_body(self.doomed[number]))
        send("flush", FLUSH, struct.pack("<HHI", 24, 0, 0) + self.written)

    def send(self, what, command, body):
        self.asked[self.connection.next_id] = what
        self.connection.send(command, body, credits=1)

    def take(self):
        """The next answer; an interim one is passed over, and nothing waited for behind it."""
        answer = parsed(self.connection.receive_frame())
        if answer.status != PENDING:
            self.answers[self.asked[answer.message_id]] = answer

    def early(self):
        """What was acknowledged though the disk hangs, of that which had to reach it."""
        while select.select([self.connection.socket], [], [], SETTLE_SECONDS)[0]:
            self.take()
        return [what for what in self.answers if what.split()[0] in ("write", "create", "delete", "set")]

    def take_answers(self):
        self.connection.socket.settimeout(THAWED_SECONDS)
        while len(self.answers) < len(self.asked):
            self.take()
        refused = {what: hex(answer.status) for what, answer in self.answers.items() if answer.status != SUCCESS}
        expect(not refused, f"refused: {refused}")
        expect(self.answers["read"].body[16:] == block(7), "what was read is something else")

    def judge(self, folder):
        expected = b"".join(block(number) for number in range(WRITES))
        expect((folder / f"written-{self.number}").read_bytes() == expected, "a write that was acknowledged is not there")
        there = set(os.listdir(folder))
        for number in range(NAMES):
            expect(f"created-{self.number}-{number}" in there, "a file that was made is not there")
            expect(f"doomed-{self.number}-{number}" not in there, "a file that was deleted is still there")


def answered(connection, command, body):
    connection.socket.settimeout(ANSWERED_SECONDS)
    answer = connection.call(command, body)
    expect(answer.status == SUCCESS, f"command {command}: {answer.status:#010x}")
    return answer


def block(number):
    return struct.pack("<I", number + 1) * (BLOCK_BYTES // 4)


def signed_in(share):
    os.environ["SMB_SHARE"] = share
    connection = client()
    connection.socket.settimeout(ANSWERED_SECONDS)
    # As many credits as the requests that wait need.
    for _ in range(4):
        connection.call(ECHO, ECHO_BODY)
    return connection


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as caches:
        caches.write("1")


if __name__ == "__main__":
    main()
