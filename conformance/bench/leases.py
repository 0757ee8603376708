"""What leases cost that an idle client holds: the server's memory for each, and whether others open files as fast as without them."""

import contextlib
import dataclasses
import statistics
import subprocess
import time

from conformance.bench.loads import LOADS

FILES = 1000
# What one open with its lease may take at most.
BYTES_MAX = 2048
SETTLE_SECONDS = 2
OPENING = next(load for load in LOADS if load.mode == "open")


@dataclasses.dataclass(frozen=True)
class Costs:
    bytes_each: float
    microseconds_without: float
    microseconds_with: float

    @property
    def ratio(self):
        return self.microseconds_with / self.microseconds_without


def measured(clients, server, share, arguments):
    """The costs of `FILES` leases on a share of a folder."""
    folder = server.share_path(share) / "leases"
    folder.mkdir()
    for number in range(FILES):
        (folder / str(number)).touch()
    with held(clients, server, share) as bytes_each:
        pass
    without, beside = [], []
    for _ in range(arguments.rounds):
        without.append(clients.run(OPENING, server, share, arguments.seconds).microseconds_each)
        with held(clients, server, share):
            beside.append(clients.run(OPENING, server, share, arguments.seconds).microseconds_each)
    if bytes_each > BYTES_MAX:
        raise RuntimeError(f"an open with its lease takes {bytes_each:.0f} bytes, more than {BYTES_MAX}")
    return Costs(bytes_each, statistics.median(without), statistics.median(beside))


@contextlib.contextmanager
def held(clients, server, share):
    """A client that holds the leases; gives the growth of the server's memory for each, in bytes."""
    client = subprocess.Popen([clients.pipelined, "--mode", "leases", "--files", str(FILES)],
                              env=dict(server.environment(), SMB_SHARE=share), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        before = at("connected", client, server)
        client.stdin.write("\n")
        client.stdin.flush()
        yield (at("ready", client, server) - before) / FILES
    finally:
        client.stdin.close()
        client.wait(60)


def at(phase, client, server):
    """The server's memory some time after the client says that it is there."""
    if client.stdout.readline().strip() != phase:
        raise RuntimeError(f"{FILES} leases from {server.kind}: {client.stderr.read()}")
    time.sleep(SETTLE_SECONDS)
    return server.resident_bytes()
