"""What the suite `power` does, in a process with the packages that its client needs: writes until it is killed, or reads."""

import hashlib
import itertools
import json
import os
import random
import struct
import sys
import threading

from conformance.hostile.client import (
    CLOSE, CREATE, FLUSH, IOCTL, READ, SET_INFO, SUCCESS, WRITE, client, close_body, create_body, ioctl_body, read_body,
    set_info_body, write_body,
)
from conformance.report import Lines, expect

WRITERS = 4
WRITE_THROUGH, OPEN, OVERWRITE = 0x2, 1, 4
ACCESS_WITH_DELETE = 0x0013019F
RENAME, LINK, DISPOSITION, END_OF_FILE = 10, 11, 13, 20
RESUME_KEY, COPYCHUNK_WRITE = 0x00140078, 0x001480F2
NAME_NOT_FOUND, BEYOND_THE_END = 0xC0000034, 0xC0000011
LENGTHS = (10, 4096, 70_000, 300_000)
STREAM_LENGTHS = (100, 5000, 70_000)
SMALL, GROWTH = 200, 9000
PIECE = 60_000
READ_BYTES = 65_536


class Writer:
    """A client that says what it was answered for."""

    def __init__(self, what, seed, number):
        self.what = what
        self.random = random.Random(seed * 100 + number)
        self.prefix = f"{seed}-{number}-"
        self.connection = client()

    def run(self):
        ways = {
            "files": (self.flushed, self.written_through, self.overwritten, self.stream, self.stream_that_grows),
            "continuous": (self.made, self.kept, self.cut_off, self.emptied, self.renamed, self.linked, self.deleted, self.copied),
        }[self.what]
        try:
            for number in itertools.count():
                self.random.choice(ways)(f"{self.prefix}{number}")
        except Exception:
            # The power is gone.
            return

    def flushed(self, name):
        with_bytes = self.bytes(LENGTHS)
        self.close(self.told(name, self.written(name, with_bytes), with_bytes))

    def written_through(self, name):
        with_bytes = self.bytes(LENGTHS)
        file = self.written(name, with_bytes, options=WRITE_THROUGH)
        tell(name, with_bytes)
        self.close(file)

    def overwritten(self, name):
        """What was flushed is overwritten in place; only the later text is told."""
        first, second = self.bytes(LENGTHS), self.bytes(LENGTHS)
        file = self.written(name, first)
        self.succeeds(FLUSH, flush_body(file))
        self.write(file, second, 0)
        self.close(self.told(name, file, second))

    def stream(self, name):
        self.write_stream(name, self.bytes(STREAM_LENGTHS), b"")

    def stream_that_grows(self, name):
        """What was flushed of it is there, whatever came later and was not."""
        self.write_stream(name, self.bytes((SMALL,)), bytes(GROWTH))

    def write_stream(self, name, flushed, later):
        name = f"{name}:stream"
        file = self.told(name, self.written(name, flushed), flushed)
        if later:
            self.write(file, later, len(flushed))
        self.close(file)

    # On a continuously available share, where nothing is flushed.

    def made(self, name):
        file = self.written(name, b"")
        tell(name, b"", whole=True)
        self.close(file)

    def kept(self, name):
        data = self.bytes(LENGTHS)
        file = self.written(name, data)
        tell(name, data, whole=True)
        self.close(file)

    def cut_off(self, name):
        data = self.bytes(LENGTHS)
        file = self.written(name, data)
        self.set(file, END_OF_FILE, struct.pack("<Q", len(data) // 2))
        tell(name, data[:len(data) // 2], whole=True)
        self.close(file)

    def emptied(self, name):
        self.close(self.written(name, self.bytes(LENGTHS)))
        file = self.succeeds(CREATE, create_body(name, disposition=OVERWRITE)).body[64:80]
        tell(name, b"", whole=True)
        self.close(file)

    def renamed(self, name):
        data = self.bytes(LENGTHS)
        file = self.written(name, data, access=ACCESS_WITH_DELETE)
        self.set(file, RENAME, new_name(f"{name}-renamed"))
        tell(f"{name}-renamed", data, whole=True)
        tell_gone(name)
        self.close(file)

    def linked(self, name):
        data = self.bytes(LENGTHS)
        file = self.written(name, data)
        self.set(file, LINK, new_name(f"{name}-linked"))
        tell(f"{name}-linked", data, whole=True)
        self.close(file)

    def deleted(self, name):
        file = self.written(name, self.bytes(LENGTHS), access=ACCESS_WITH_DELETE)
        self.set(file, DISPOSITION, b"\1")
        self.close(file)
        tell_gone(name)

    def copied(self, name):
        data = self.bytes(LENGTHS)
        source, target = self.written(f"{name}-source", data), self.written(name, b"")
        key = self.succeeds(IOCTL, ioctl_body(RESUME_KEY, file_id=source)).body[48:72]
        chunk = struct.pack("<II", 1, 0) + struct.pack("<QQII", 0, 0, len(data), 0)
        self.succeeds(IOCTL, ioctl_body(COPYCHUNK_WRITE, key + chunk, file_id=target))
        tell(name, data, whole=True)
        self.close(source)
        self.close(target)

    def set(self, file, information_class, data):
        self.succeeds(SET_INFO, set_info_body(file, information_class, data))

    def written(self, name, data, options=0, **how):
        answer = self.succeeds(CREATE, create_body(name, options=options, **how))
        file = answer.body[64:80]
        self.write(file, data, 0)
        return file

    def write(self, file, data, offset):
        for begin in range(0, len(data), PIECE):
            self.succeeds(WRITE, write_body(file, data[begin:begin + PIECE], offset=offset + begin))

    def told(self, name, file, data):
        self.succeeds(FLUSH, flush_body(file))
        tell(name, data)
        return file

    def close(self, file):
        self.succeeds(CLOSE, close_body(file))

    def succeeds(self, command, body):
        answer = self.connection.call(command, body)
        expect(answer.status == SUCCESS, f"status {answer.status:#x}")
        return answer

    def bytes(self, lengths):
        return self.random.randbytes(self.random.choice(lengths))


def flush_body(file):
    """A FLUSH request, MS-SMB2 2.2.17."""
    return (24).to_bytes(2, "little") + bytes(6) + file


def new_name(name):
    """What a rename or link takes, MS-FSCC 2.4.42.2."""
    raw = name.encode("utf-16-le")
    return bytes(16) + struct.pack("<I", len(raw)) + raw


def tell(name, data, whole=False):
    """This much of a file is there, and no more where it is the whole of it."""
    say([name, len(data), hashlib.sha256(data).hexdigest(), whole])


def tell_gone(name):
    say([name, None, None, True])


def say(promise):
    line = json.dumps(promise) + "\n"
    # One system call, so that the lines of two writers do not mix.
    os.write(sys.stdout.fileno(), line.encode())


def write(what, seed):
    writers = [threading.Thread(target=Writer(what, seed, number).run) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def read(what, seed, told):
    with open(told) as lines:
        promised = [json.loads(line) for line in lines]
    connection = client()
    lost = [f"{promise[0]} ({promise[1]} bytes): {trouble}" for promise in promised if (trouble := differs(connection, *promise))]
    with Lines().check(f"{what}, round {seed}: all that was acknowledged is there"):
        expect(not lost, f"{len(lost)} of {len(promised)} are not, such as {'; '.join(lost[:5])}")


def differs(connection, name, length, digest, whole):
    """Why the beginning of a file is not what it was; `None` where it is."""
    answer = connection.call(CREATE, create_body(name, access=0x120089, disposition=OPEN))
    if length is None:
        return None if answer.status == NAME_NOT_FOUND else f"it is back, {answer.status:#x}"
    if answer.status != SUCCESS:
        return f"CREATE {answer.status:#x}"
    file, data = answer.body[64:80], b""
    while len(data) < length:
        part = connection.call(READ, read_body(file, min(READ_BYTES, length - len(data)), offset=len(data)))
        if part.status != SUCCESS:
            return f"READ {part.status:#x} at {len(data)}"
        data += part.body[16:]
    if whole and connection.call(READ, read_body(file, 1, offset=length)).status != BEYOND_THE_END:
        return "it is longer"
    connection.call(CLOSE, close_body(file))
    return None if hashlib.sha256(data).hexdigest() == digest else "other bytes"


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], int(sys.argv[3]))
    else:
        read(sys.argv[2], int(sys.argv[3]), sys.argv[4])
