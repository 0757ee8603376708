"""A client that does no wrong: how long its ECHOs and its READs of 4 KiB take, on connections on every shard.

`python -m conformance.bench.bounds.bystander` connects, says `ready`, and for each line that it is given prints what it saw since the last.
"""

import json
import os
import random
import sys
import threading
import time

from conformance.hostile.client import ECHO, ECHO_BODY, READ, SUCCESS, WRITE, Closed, client, read_body, write_body

BLOCK_BYTES = 4096
FILE_BYTES = 1 << 20
EVERY_SECONDS = 0.01
PATIENCE_SECONDS = 120
NAME = "bystander"


class Line(threading.Thread):
    """One connection, on which an ECHO and a READ take turns.

    A request is due every `EVERY_SECONDS`. While one is waited for those that are due wait, too, and each counts with the time that it
    would have taken: otherwise a second of silence would count as one slow request among a thousand.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.connection = client()
        self.connection.socket.settimeout(PATIENCE_SECONDS)
        self.file = self.connection.open(NAME)
        self.trouble = None
        self._lock = threading.Lock()
        self._began = None
        self._kind = "echo"
        self._taken = {"echo": [], "read": []}

    def write(self):
        for offset in range(0, FILE_BYTES, 65536):
            answer = self.connection.call(WRITE, write_body(self.file, bytes(65536), offset=offset))
            assert answer.status == SUCCESS, f"WRITE: {answer.status:#x}"

    def run(self):
        try:
            while True:
                for kind, request in (("echo", self._echo), ("read", self._read)):
                    with self._lock:
                        self._kind, self._began = kind, time.monotonic()
                    request()
                    with self._lock:
                        taken, self._began = time.monotonic() - self._began, None
                        self._taken[kind] += with_those_that_waited(taken)
                    time.sleep(max(0, EVERY_SECONDS - taken))
        except (OSError, Closed, AssertionError) as error:
            self.trouble = f"{type(error).__name__}: {error}"

    def _echo(self):
        answer = self.connection.call(ECHO, ECHO_BODY)
        assert answer.status == SUCCESS, f"ECHO: {answer.status:#x}"

    def _read(self):
        place = random.randrange(FILE_BYTES // BLOCK_BYTES) * BLOCK_BYTES
        answer = self.connection.call(READ, read_body(self.file, BLOCK_BYTES, offset=place))
        assert answer.status == SUCCESS and len(answer.body) >= 16 + BLOCK_BYTES, f"READ: {answer.status:#x}"

    def seen(self):
        """Median, 99th percentile and longest of each kind since the last time, in ms; the one that is under way counts as it is."""
        with self._lock:
            if self._began is not None:
                self._taken[self._kind] += with_those_that_waited(time.monotonic() - self._began)
            taken, self._taken = self._taken, {"echo": [], "read": []}
        return {kind: figures(sorted(all_taken)) for kind, all_taken in taken.items() if all_taken}


def with_those_that_waited(taken):
    waits = [taken]
    while waits[-1] > 2 * EVERY_SECONDS:
        waits.append(waits[-1] - EVERY_SECONDS)
    return waits


def figures(taken):
    return [1000 * taken[int((len(taken) - 1) * part)] for part in (0.5, 0.99, 1)]


def worst(lines):
    """Of each kind the figures of the connection whose 99th percentile is highest."""
    seen = [line.seen() for line in lines]
    return {kind: max((figures[kind] for figures in seen if kind in figures), key=lambda three: three[1], default=None)
            for kind in ("echo", "read")}


def main():
    lines = [Line() for _ in range(2 * (os.cpu_count() or 1))]
    lines[0].write()
    for line in lines:
        line.start()
    print("ready", flush=True)
    for _ in sys.stdin:
        trouble = next((line.trouble for line in lines if line.trouble), None)
        print(json.dumps(dict(worst(lines), trouble=trouble)), flush=True)


if __name__ == "__main__":
    main()
