"""The power goes while clients write: what a FLUSH or a written-through WRITE was answered for is there when it is back, and on a
continuously available share whatever was answered.

The share lies on an ext4 file system that is shut down without its journal being written, which is what the disk has then.
"""

import contextlib
import subprocess
import threading
import time

from conformance import packages
from conformance.frozen import with_disk
from conformance.py_smbprotocol import REQUIREMENTS
from conformance.report import expect
from conformance.server import Wanted, serving

NAME = "power"
SHARE = "power"
ROUNDS, SECONDS = 4, 2
# Of what is acknowledged in a round there is more than so much.
ENOUGH = 20
READ_SECONDS = 120


def run(kind, report, options):
    python = packages.python_with(*REQUIREMENTS)
    # Only ours has continuously available shares that its clients can ask for.
    for what in ("files", "continuous") if kind.kind == "multilane" else ("files",):
        with serving(with_disk(kind, SHARE), Wanted(shares=(SHARE,), continuous=what == "continuous")) as server:
            try:
                for number in range(ROUNDS):
                    play(python, server, what, number, report)
            finally:
                server.unmount()
            report.server_is_well(NAME, server)


def play(python, server, what, number, report):
    told = server.folder / f"told-{number}"
    acknowledged = cut(python, server, what, number, told)
    with report.check(NAME, f"{what}, round {number}: something was acknowledged before the cut"):
        expect(acknowledged > ENOUGH, f"{acknowledged} items were")
    report.absorb(NAME, [python, "-m", "conformance.power_checks", "read", what, str(number), str(told)], READ_SECONDS,
                  env=server.environment(), cwd=packages.ROOT)


def cut(python, server, what, number, told):
    """Has clients write for a while, cuts the power and gives it back; what was acknowledged before stands in `told` then."""
    argv = [python, "-m", "conformance.power_checks", "write", what, str(number)]
    writers = subprocess.Popen(argv, env=server.environment(), cwd=packages.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    lines = []
    reading = threading.Thread(target=lambda: lines.extend(writers.stdout), daemon=True)
    reading.start()
    # A busy machine has them write slowly.
    begun = time.monotonic()
    while len(lines) <= ENOUGH and time.monotonic() < begun + 10 * SECONDS:
        time.sleep(0.05)
    time.sleep(max(0, begun + SECONDS - time.monotonic()))
    # What is told from here on may have been acknowledged by a disk that is gone.
    before = len(lines)
    server.disk.cut()
    writers.kill()
    writers.wait()
    server.process.kill()
    server.process.wait()
    with contextlib.suppress(RuntimeError):
        reading.join()
    told.write_bytes(b"".join(lines[:before]))
    server.disk.remount()
    server.start()
    return before
