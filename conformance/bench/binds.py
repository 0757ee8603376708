"""What channels cost that come and go: how many a second, the CPU time of each, and whether memory stays behind."""

import contextlib
import dataclasses
import statistics
import time

from conformance.bench.loads import Load
from conformance.server import Wanted, serving

LOAD = Load("binds", "pipelined", "bind", connections=2)
# What one bind may leave behind, on the average. Allocators keep some, whatever the number.
BYTES_MAX = 1024
# Longer than connections that are gone stay counted.
WARM_UP_SECONDS = 12
SETTLE_SECONDS = 2


@dataclasses.dataclass(frozen=True)
class Costs:
    binds: int
    binds_per_second: float
    microseconds_each: float
    grown_bytes: int


def measured(kinds, clients, share, arguments):
    """Each server's costs, in turns: two clients bind channels to a session of their own and close them, one after the other."""
    with contextlib.ExitStack() as stack:
        wanted = Wanted(shares=(share,), on_tmpfs=True, channels=4)
        servers = [stack.enter_context(serving(kind, wanted)) for kind in kinds]
        before = {server: settled(server, clients, share) for server in servers}
        runs = {server: [] for server in servers}
        for _ in range(arguments.rounds):
            for server in servers:
                runs[server].append(clients.run(LOAD, server, share, arguments.seconds))
        time.sleep(SETTLE_SECONDS)
        return {server: costs(runs[server], server.resident_bytes() - before[server], server) for server in servers}


def settled(server, clients, share):
    """The server's memory when it has seen binds."""
    clients.run(LOAD, server, share, WARM_UP_SECONDS)
    time.sleep(SETTLE_SECONDS)
    return server.resident_bytes()


def costs(runs, grown_bytes, server):
    binds = sum(run.operations for run in runs)
    if server.kind == "multilane" and grown_bytes > BYTES_MAX * binds:
        raise RuntimeError(f"{binds:,} binds left {grown_bytes:,} bytes behind")
    return Costs(binds, statistics.median(run.operations_per_second for run in runs),
                 statistics.median(run.microseconds_each for run in runs), grown_bytes)
