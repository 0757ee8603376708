"""Somebody who signs in while others are attacked: makes a file, writes, reads back, and says how long it took.

Python and what it imports are loaded behind the server, for that takes long; from then on it comes first.
"""

import os
import time

from conformance.bench.bounds.behind import come_first
from conformance.hostile.client import CREATE, READ, SUCCESS, WRITE, Closed, Raw, create_body, read_body, write_body

PATIENCE_SECONDS = 50


def main():
    come_first()
    began = time.monotonic()
    at = "connect"
    try:
        raw = Raw(seconds=PATIENCE_SECONDS)
        for at, step in (("negotiate", raw.negotiate), ("sign in", raw.login), ("connect to the share", raw.tree_connect)):
            done(at, step())
        at = "open a file"
        answer = done(at, raw.call(CREATE, create_body(f"newcomer-{os.getpid()}")))
        file = answer.body[64:80]
        at = "write"
        done(at, raw.call(WRITE, write_body(file, b"new" * 100)))
        at = "read"
        assert done(at, raw.call(READ, read_body(file, 300))).body[16:] == b"new" * 100, "it read something else"
    except (OSError, Closed, AssertionError) as error:
        print(f"{at}: {type(error).__name__} {error}", flush=True)
    else:
        print(f"done {time.monotonic() - began}", flush=True)


def done(at, answer):
    assert answer.status == SUCCESS, f"status {answer.status:#x}"
    return answer


if __name__ == "__main__":
    main()
