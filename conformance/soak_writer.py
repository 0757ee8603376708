"""A client of the soak that knows what it was told is written: `python -m conformance.soak_writer SHARE SEED`, until a line is given to it.

Several connections each write numbered blocks of a file of their own, and read back some of what they wrote. A connection that is lost is
made anew. A write without an answer may have been done, or be done later, so that its block is not written again. In the end every block is
read.
"""

import os
import random
import select
import struct
import sys
import threading
import time

from conformance.hostile.client import READ, SUCCESS, WRITE, Closed, client, read_body, write_body

CONNECTIONS, BLOCKS, BLOCK_BYTES = 4, 2048, 4096
PATIENCE_SECONDS = 60
RETRY_SECONDS = 0.2


class Wrong(Exception):
    """Something is not as it was acknowledged."""


class Writer(threading.Thread):
    def __init__(self, number, seed, ended):
        super().__init__(daemon=True)
        self.name_there = f"writer-{os.environ['SMB_SHARE']}-{seed}-{number}"
        self.random = random.Random(seed * 100 + number)
        self.ended = ended
        # What each block may hold: one value, or two after a write that was not answered.
        self.values = [{0} for _ in range(BLOCKS)]
        self.certain = list(range(BLOCKS))
        self.next_value = 1
        self.acknowledged = 0
        self.connection = self.file = self.trouble = None

    def run(self):
        try:
            self.again(self.begin)
            while not self.ended.is_set():
                self.again(self.write if self.random.random() < 0.7 else self.read)
            for block in range(BLOCKS):
                self.again(lambda: self.read(block))
        except Exception as error:
            self.trouble = f"{self.name_there}: {type(error).__name__}: {error}"

    def again(self, work):
        """Does it, on a new connection where the one there is gets lost."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self.connection is None:
                    self.connection = client()
                    self.connection.socket.settimeout(PATIENCE_SECONDS)
                    self.file = self.connection.open(self.name_there)
                return work()
            except (OSError, Closed, AssertionError) as error:
                if self.connection:
                    self.connection.socket.close()
                self.connection = None
                if time.monotonic() > until:
                    raise Wrong(f"no connection for {PATIENCE_SECONDS} s: {error}") from error
                time.sleep(RETRY_SECONDS)

    def begin(self):
        self.succeeded(self.connection.call(WRITE, write_body(self.file, bytes(BLOCK_BYTES), offset=(BLOCKS - 1) * BLOCK_BYTES)))

    def write(self):
        block = self.certain.pop(self.random.randrange(len(self.certain)))
        value, self.next_value = self.next_value, self.next_value + 1
        self.values[block].add(value)
        data = struct.pack("<Q", value) * (BLOCK_BYTES // 8)
        self.succeeded(self.connection.call(WRITE, write_body(self.file, data, offset=block * BLOCK_BYTES)))
        self.values[block] = {value}
        self.certain.append(block)
        self.acknowledged += 1

    def read(self, block=None):
        block = self.random.randrange(BLOCKS) if block is None else block
        answer = self.succeeded(self.connection.call(READ, read_body(self.file, BLOCK_BYTES, offset=block * BLOCK_BYTES)))
        data = answer.body[16:16 + BLOCK_BYTES]
        value = struct.unpack_from("<Q", data)[0] if len(data) == BLOCK_BYTES else None
        if value is None or data != data[:8] * (BLOCK_BYTES // 8) or value not in self.values[block]:
            raise Wrong(f"block {block} holds {len(data)} bytes that begin with {value}, not {sorted(self.values[block])}")

    @staticmethod
    def succeeded(answer):
        if answer.status != SUCCESS:
            raise AssertionError(f"status {answer.status:#x}")
        return answer


def main():
    ended = threading.Event()
    writers = [Writer(number, int(sys.argv[2]), ended) for number in range(CONNECTIONS)]
    for writer in writers:
        writer.start()
    # A writer that found something wrong ends the run at once.
    while not select.select([sys.stdin], [], [], 1)[0] and not any(writer.trouble for writer in writers):
        pass
    ended.set()
    for writer in writers:
        writer.join(PATIENCE_SECONDS * 2)
    troubles = [writer.trouble or f"{writer.name_there} does not end" for writer in writers if writer.trouble or writer.is_alive()]
    print("\n".join(troubles) if troubles else sum(writer.acknowledged for writer in writers), flush=True)
    sys.exit(bool(troubles))


if __name__ == "__main__":
    main()
