"""What the suite `frozen` does while the device below a share's file system hangs in the middle of the commits of its journal: who only looks
at a file, or reads what is in memory, then waits in the kernel for who changes it, unless the server sees to it."""

import contextlib
import os
import pathlib
import select
import struct
import time

from conformance.frozen import FROZEN
from conformance.frozen_checks import Asking, BLOCK_BYTES, block, bystanding, lines, others_are_served, signed_in
from conformance.hostile.client import (
    FLUSH, QUERY_INFO, READ, SET_INFO, SUCCESS, WRITE, query_info_body, read_body, set_info_body, write_body,
)
from conformance.loop_disk import LoopDisk
from conformance.report import expect

FILES, LOOKING, ROUNDS = 12, 4, 60
# The round in which the device hangs, and how long those after it take to reach what waits for it.
HANGS_IN, REACHED_SECONDS = 25, 2
ROUND_SECONDS = 0.01
# Requests that a client has under way: it has credits for more.
UNDER_WAY_MAX = 800
BASIC, STANDARD, NETWORK_OPEN = 4, 5, 34
ARCHIVE, HIDDEN = 0x20, 0x02


def main():
    with contextlib.ExitStack() as stack:
        device_hangs(stack)


def device_hangs(stack):
    device = LoopDisk(pathlib.Path(os.environ["DEVICE_FOLDER"]), None)
    bystander, theirs = bystanding(stack)
    changing = Client(stack.enter_context(signed_in(FROZEN)))
    looking = [Client(stack.enter_context(signed_in(FROZEN))) for _ in range(LOOKING)]
    for file in changing.files:
        for number in range(ROUNDS):
            expect(changing.connection.call(WRITE, write_body(file, block(0), number * BLOCK_BYTES)).status == SUCCESS, "a WRITE was refused")
    try:
        for number in range(ROUNDS):
            if number == HANGS_IN:
                device.freeze()
            changing.change(number)
            time.sleep(ROUND_SECONDS)
        time.sleep(REACHED_SECONDS)
        for one in looking:
            one.look()
        others_are_served(bystander, theirs, "the device of a share hangs in a commit")
    finally:
        device.thaw()
    with lines.check("all that was asked for is done when the device goes on"):
        for one in (changing, *looking):
            one.take_all()
    with lines.check("every write that was acknowledged is there"):
        for file, numbers in changing.written.items():
            expect(max(numbers) == ROUNDS - 1, "the last write was not sent")
            for number in range(ROUNDS):
                read = changing.connection.call(READ, read_body(file, BLOCK_BYTES, number * BLOCK_BYTES)).body[16:]
                expect(read == block(number if number in numbers else 0), f"block {number} is not as it was written")


class Client(Asking):
    """One that looks at files and changes them."""

    def __init__(self, connection):
        super().__init__(connection, UNDER_WAY_MAX // 50)
        self.files = [connection.open(f"file-{number}") for number in range(FILES)]
        # For each file that was written, the numbers of the blocks.
        self.written = {}

    def change(self, number):
        """Attributes of half of the files and data of the other, which commits then have to write. Each write has a block of its own: in which
        order a server makes what is under way together is open."""
        attributes = struct.pack("<QQQQII", 0, 0, 0, 0, ARCHIVE | HIDDEN if number % 2 else ARCHIVE, 0)
        for file in self.files[::2]:
            self.send(SET_INFO, set_info_body(file, BASIC, attributes))
        for file in self.files[1::2]:
            if self.write(file, number, block(number), must=number == ROUNDS - 1):
                self.written.setdefault(file, set()).add(number)
        self.send(FLUSH, struct.pack("<HHI", 24, 0, 0) + self.files[number % FILES])

    def look(self):
        for file in self.files:
            for information_class in (BASIC, STANDARD, NETWORK_OPEN):
                self.send(QUERY_INFO, query_info_body(file, information_class=information_class))
            self.send(READ, read_body(file, BLOCK_BYTES))

    def write(self, file, number, data, must=False):
        return self.send(WRITE, write_body(file, data, number * BLOCK_BYTES), must)

    def send(self, command, body, must=False):
        """Sends where not too much is under way, and tells whether it did; what `must` be sent is."""
        while select.select([self.connection.socket], [], [], 0)[0]:
            self.take()
        sends = must or len(self.under_way) < UNDER_WAY_MAX
        if sends:
            self.ask(command, body)
        return sends


if __name__ == "__main__":
    main()
