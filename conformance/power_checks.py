"""What the suite `power` does, in a process with the packages that its client needs: writes until it is killed, or reads."""

import hashlib
import itertools
import json
import os
import random
import sys
import threading

from conformance.hostile.client import (
    CLOSE, CREATE, FLUSH, READ, SUCCESS, WRITE, client, close_body, create_body, read_body, write_body,
)
from conformance.report import Lines, expect

WRITERS = 4
WRITE_THROUGH, OPEN = 0x2, 1
LENGTHS = (10, 4096, 70_000, 300_000)
STREAM_LENGTHS = (100, 5000, 70_000)
SMALL, GROWTH = 200, 9000
PIECE = 60_000
READ_BYTES = 65_536


class Writer:
    """A client that says what it was answered for."""

    def __init__(self, seed, number):
        self.random = random.Random(seed * 100 + number)
        self.prefix = f"{seed}-{number}-"
        self.connection = client()

    def run(self):
        ways = (self.flushed, self.written_through, self.overwritten, self.stream, self.stream_that_grows)
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

    def written(self, name, data, options=0):
        answer = self.succeeds(CREATE, create_body(name, options=options))
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


def tell(name, data):
    line = json.dumps([name, len(data), hashlib.sha256(data).hexdigest()]) + "\n"
    # One system call, so that the lines of two writers do not mix.
    os.write(sys.stdout.fileno(), line.encode())


def write(seed):
    writers = [threading.Thread(target=Writer(seed, number).run) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def read(seed, told):
    with open(told) as lines:
        promised = [json.loads(line) for line in lines]
    connection = client()
    lost = [f"{name} ({length} bytes): {trouble}" for name, length, digest in promised if (trouble := differs(connection, name, length, digest))]
    with Lines().check(f"round {seed}: all that was acknowledged is there"):
        expect(not lost, f"{len(lost)} of {len(promised)} are not, such as {'; '.join(lost[:5])}")


def differs(connection, name, length, digest):
    """Why the beginning of a file is not what it was; `None` where it is."""
    answer = connection.call(CREATE, create_body(name, access=0x120089, disposition=OPEN))
    if answer.status != SUCCESS:
        return f"CREATE {answer.status:#x}"
    file, data = answer.body[64:80], b""
    while len(data) < length:
        part = connection.call(READ, read_body(file, min(READ_BYTES, length - len(data)), offset=len(data)))
        if part.status != SUCCESS:
            return f"READ {part.status:#x} at {len(data)}"
        data += part.body[16:]
    connection.call(CLOSE, close_body(file))
    return None if hashlib.sha256(data).hexdigest() == digest else "other bytes"


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(int(sys.argv[2]))
    else:
        read(int(sys.argv[2]), sys.argv[3])
