"""What the suite `frozen` does where a file system in memory is mounted below the folder of a share whose disk hangs, and served as a share of its
own, too: what the first keeps beside its files lies on the disk, so whoever changes that holds the file until the disk goes on."""

import contextlib
import os
import pathlib
import struct
import time

from conformance.frozen import FROZEN, MEMORY, SHARE
from conformance.frozen_checks import Asking, lines, others_are_served, signed_in
from conformance.hostile.client import (
    CREATE, QUERY_INFO, READ, SET_INFO, SUCCESS, WRITE, create_body, query_info_body, read_body, set_info_body, write_body,
)
from conformance.loop_disk import LoopDisk
from conformance.report import expect

# More than there are shards, so that each has some of both.
FILES, BYSTANDERS, CHANGING = 24, 4, 8
# Too long to be kept with the file.
STREAM_BYTES = 64 * 1024
BASIC, ARCHIVE, HIDDEN = 4, 0x20, 0x02
REACHED_SECONDS = 1


def main():
    with contextlib.ExitStack() as stack:
        disk_hangs(stack)


def disk_hangs(stack):
    disk = LoopDisk(pathlib.Path(os.environ["FROZEN_FOLDER"]), None)
    bystanders = [stack.enter_context(signed_in(SHARE)) for _ in range(BYSTANDERS)]
    theirs = [bystander.open(f"bystander-{number}") for number, bystander in enumerate(bystanders)]
    through_disk = Asking(stack.enter_context(signed_in(FROZEN)), FILES)
    streams = [through_disk.connection.open(rf"{MEMORY}\file-{number}:stream") for number in range(FILES)]
    changing = [Asking(stack.enter_context(signed_in(MEMORY)), FILES) for _ in range(CHANGING)]
    files = [[one.connection.open(f"file-{number}") for number in range(FILES)] for one in changing]
    for file in files[0]:
        expect(changing[0].connection.call(WRITE, write_body(file, b"written")).status == SUCCESS, "a WRITE was refused")
    disk.freeze()
    try:
        for stream in streams:
            through_disk.ask(WRITE, write_body(stream, bytes(STREAM_BYTES)))
        time.sleep(REACHED_SECONDS)
        for client, (one, its) in enumerate(zip(changing, files)):
            for number, file in enumerate(its):
                one.ask(SET_INFO, set_info_body(file, BASIC, struct.pack("<QQQQII", 0, 0, 0, 0, ARCHIVE | HIDDEN, 0)))
                one.ask(CREATE, create_body(f"file-{number}:of-{client}"))
                one.ask(QUERY_INFO, query_info_body(file, information_class=BASIC))
                one.ask(WRITE, write_body(file, b"written"))
                one.ask(READ, read_body(file, 7))
        time.sleep(REACHED_SECONDS)
        for bystander, file in zip(bystanders, theirs):
            others_are_served(bystander, file, "a disk hangs below which there is another share's memory")
    finally:
        disk.thaw()
    with lines.check("all that was asked for of that memory is done after the thaw"):
        for one in (through_disk, *changing):
            one.take_all()


if __name__ == "__main__":
    main()
