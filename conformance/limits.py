"""Shares do as much in a second as they are provisioned with, or limited to, over real sockets: `python3 -m conformance.limits --whole` measures more.

The load is `multilane diskspd`. Limits are a fraction of what two cores do, and what is found off is measured again: other programs' work may
keep a client from asking for more in time.
"""

import argparse
import dataclasses
import os
import statistics
import time

from conformance import alone
from conformance.limited import Client, Load, at_once, bytes_of, limited
from conformance.report import Failure, Skip, expect

NAME = "limits"
SECONDS = 10
TRIES = 3
# How far what ten seconds had may be from what is provisioned, and one client from another.
OFF_MAX, APART_MAX = 0.02, 0.05
# Azure's table of provisioned v1: GiB, baseline, burst, credits, MiB/s.
TABLE = (
    (100, 3_100, 10_000, 24_840_000, 110), (500, 3_500, 10_000, 23_400_000, 150), (1_024, 4_024, 10_000, 21_513_600, 203),
    (5_120, 8_120, 15_360, 26_064_000, 613), (10_240, 13_240, 30_720, 62_928_000, 1_125), (33_792, 36_792, 101_376, 232_502_400, 3_480),
    (51_200, 54_200, 102_400, 173_520_000, 5_220), (102_400, 102_400, 102_400, 0, 10_340),
)
# Of a share that has its credits: requests in a burst, and MiB, in a second.
V1, V2 = (10_000, 110), (10_000, 100)
FILE_REQUESTS, FILE_MIB = 8_000, 1_024
# What a throttled neighbour may take of a share's throughput, and add to its 99th percentile, beyond chance and beyond what the same requests
# take where nothing holds them back: 200 a second are served either way, and a 99th percentile of 40 us is a sixth later for them.
LOSS_MAX, LATER_MAX = 0.03, 0.10
ROUNDS, ROUNDS_WHOLE = 5, 15
# Until a load that was started is at it, and until a change is looked at.
SETTLED_SECONDS = 0.5


class Off(Failure):
    """What was measured is not what is meant."""


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no such limits")
    checks(report, is_whole=False)


def checks(report, is_whole):
    shares = {"v1": ["--provisioned", "100"], "v2": ["--provisioned", "32", "--iops", "3000", "--mibps", "100"],
              **{name: ["--iops-max", "1000"] for name in ("changed", "requests", "requests2")}, "bytes": ["--mibps-max", "50"],
              "mixed": ["--mibps-max", "50"], "each": ["--user-iops-max", "1000"]}
    with limited(shares) as server:
        provisioned(report, server)
        table(report, server, budgets(is_whole))
        files(report, server, is_whole)
        fairness(report, server, is_whole)
        changes(report, server)
        tells(report, server)
        if is_whole:
            rows(report, server)
        report.server_is_well(NAME, server)
    neighbours(report, is_whole)


# What is provisioned.

@dataclasses.dataclass(frozen=True)
class Budget:
    """One measurement of a share: `clients` at once, with what one of them does."""

    share: str
    limits: tuple  # requests and MiB in a second
    block: str
    channels: int
    clients: int
    writes: int

    def expected(self):
        """Requests a second."""
        requests, mib = self.limits
        return min(requests, mib * (1 << 20) / bytes_of(self.block))

    def loads(self):
        """In flight are some tens of milliseconds of what is allowed, so that the channels' turns do not show."""
        depth = max(2, 128 // self.clients // (1 if bytes_of(self.block) < 1 << 18 else 4))
        return [Load(self.share, name=f"of{number}-", block=self.block, depth=depth, writes=self.writes, channels=self.channels,
                     is_keeper=number % 2 == 1) for number in range(self.clients)]

    def title(self):
        clients, channels = (f"{count} {what}{'' if count == 1 else 's'}" for count, what in ((self.clients, "client"), (self.channels, "channel")))
        return f"{self.share}, {self.block}, {'writes' if self.writes else 'reads'}, {clients}, {channels}"


def budgets(is_whole):
    """Those of v1 and v2 that are measured side by side."""
    chosen = [("4K", 1, 1, "1M", 4, 8), ("64K", 4, 1, "4K", 1, 8)]
    if is_whole:
        blocks, ways = ("4K", "16K", "64K", "256K", "1M"), [(channels, clients) for channels in (1, 4) for clients in (1, 8)]
        chosen = [(block, *way, blocks[-1 - number], *ways[-1 - at]) for number, block in enumerate(blocks) for at, way in enumerate(ways)]
    for number, (block, channels, clients, block2, channels2, clients2) in enumerate(chosen):
        writes = 100 if number % 2 else 0
        yield Budget("v1", V1, block, channels, clients, writes), Budget("v2", V2, block2, channels2, clients2, 100 - writes)


def provisioned(report, server):
    with report.check(NAME, "the eight rows of Azure's table of provisioned v1 are what shares of these sizes have"):
        server.make({f"row{gib}": ["--provisioned", str(gib)] for gib, *_ in TABLE})
        for gib, *row in TABLE:
            azure = server.shown(f"row{gib}")["azure"]
            names = ("provisionedIops", "includedBurstIops", "maxBurstCreditsForIops", "provisionedBandwidthMibps")
            expect([azure[name] for name in names] == row, f"{gib} GiB: {azure}")


def table(report, server, pairs):
    report.note(line("share", "block", "direction", "clients", "channels", "provisioned", "measured", "off"))
    for pair in pairs:
        with report.check(NAME, "; ".join(budget.title() for budget in pair)):
            until_right(lambda: budgets_hold(report, server, pair))


def budgets_hold(report, server, pair):
    loads = [load for budget in pair for load in budget.loads()]
    found = iter(at_once(server, loads, SECONDS))
    problems = []
    for budget in pair:
        each = [next(found).requests for _ in range(budget.clients)]
        report.note(budget_line(budget, sum(each)))
        problems += off(sum(each), budget.expected(), OFF_MAX, budget.title()) + apart(each, budget.title())
    fail_with(problems)


def budget_line(budget, requests):
    expected = budget.expected()
    mib = bytes_of(budget.block) / (1 << 20)
    told = [f"{value:,.0f}/s" if expected == budget.limits[0] else f"{value * mib:,.1f} MiB/s" for value in (expected, requests)]
    direction = "write" if budget.writes else "read"
    return line(budget.share, budget.block, direction, budget.clients, budget.channels, *told, f"{requests / expected - 1:+.2%}")


def files(report, server, is_whole):
    with report.check(NAME, "one file has its own limit of requests"):
        def measure():
            one, = at_once(server, [Load("v1", name="single", files=1, depth=64)], SECONDS // 2)
            report.note(f"one file: {one.requests:,.0f} requests a second")
            fail_with(off(one.requests, FILE_REQUESTS, OFF_MAX, "one file"))
        until_right(measure)
    if is_whole:
        with report.check(NAME, "one file has its own limit of bytes"):
            def measure_bytes():
                one, = at_once(server, [Load("row33792", files=1, block="1M", depth=16, channels=4)], SECONDS)
                report.note(f"one file: {one.mib:,.0f} MiB/s")
                fail_with(off(one.mib, FILE_MIB, OFF_MAX, "one file"))
            until_right(measure_bytes)


def rows(report, server):
    """What each row of the table comes to here, where the machine has it."""
    report.note(line("GiB", "burst", "measured", "MiB/s", "measured"))
    for gib, _, burst, _, mib in TABLE:
        with report.check(NAME, f"a share of {gib:,} GiB does no more than it may"):
            small, = at_once(server, [Load(f"row{gib}", files=16, depth=8, channels=4)], SECONDS)
            large, = at_once(server, [Load(f"row{gib}", files=16, block="1M", depth=1, channels=4)], SECONDS)
            report.note(line(f"{gib:,}", f"{burst:,}", f"{small.requests:,.0f}", f"{mib:,}", f"{large.mib:,.0f}"))
            expect(small.requests <= burst * (1 + OFF_MAX) and large.mib <= mib * (1 + OFF_MAX), f"{small.requests} requests, {large.mib} MiB")


# Who gets how much.

def fairness(report, server, is_whole):
    server.change("requests2", "--iops-max", "2000")
    cases = [("requests", Load("", block="4K", depth=1), Load("", block="4K", depth=64)),
             ("requests2", Load("", block="4K", depth=1, writes=100), Load("", block="4K", depth=64, channels=4)),
             ("bytes", Load("", block="1M", depth=1), Load("", block="1M", depth=64, writes=100)),
             ("mixed", Load("", block="64K", depth=1), Load("", block="1M", depth=64))]
    with report.check(NAME, "one request at a time has as much as 64 do, also where they are larger"):
        until_right(lambda: halves(report, server, cases))
    with report.check(NAME, "each user has a limit of its own"):
        until_right(lambda: of_users(report, server))
    if is_whole:
        for limit in (500, 4_000, 8_000):
            server.change("requests", "--iops-max", str(limit))
            with report.check(NAME, f"one request at a time has as much as 64 do: {limit} requests a second"):
                until_right(lambda: halves(report, server, cases[:1]))


def halves(report, server, cases):
    loads = [dataclasses.replace(load, share=share, name=name, files=1, is_keeper=name == "many")
             for share, one, many in cases for name, load in (("one", one), ("many", many))]
    found = iter(at_once(server, loads, SECONDS))
    problems = []
    for share, one, many in cases:
        had = [next(found).requests * bytes_of(load.block) for load in (one, many)]
        report.note(f"{share}: {one.block} one at a time has {had[0] / sum(had):.1%}, {many.block} 64 at a time the rest")
        problems += apart(had, share)
    fail_with(problems)


def of_users(report, server):
    found = at_once(server, [Load("each", name=name, depth=16, is_keeper=name == "keeper") for name in ("user", "keeper")], SECONDS // 2)
    report.note(f"each user: {', '.join(f'{one.requests:,.0f}' for one in found)} requests a second of 1,000")
    fail_with([problem for one in found for problem in off(one.requests, 1_000, OFF_MAX, "a user")])


# What changes, and what is told.

def changes(report, server):
    with report.check(NAME, "a change of a limit counts at once under load"):
        until_right(lambda: changed(report, server))


def changed(report, server):
    """Three seconds at 1,000, four at 3,000, and three at 500."""
    server.change("changed", "--iops-max", "1000")
    client, began = Client(server, Load("changed", depth=32), SECONDS, warm=0, interval_ms=500), time.monotonic()
    for seconds, limit in ((3, 3_000), (7, 500)):
        time.sleep(began + seconds - time.monotonic())
        server.change("changed", "--iops-max", str(limit))
    intervals = client.measured().intervals
    report.note(f"requests a second, each half a second: {' '.join(f'{one:,.0f}' for one in intervals)}")
    # The client began some tenths of a second later: an interval on each side of a change is left out.
    steps = ((intervals[2:5], 1_000), (intervals[7:13], 3_000), (intervals[15:19], 500))
    fail_with([problem for part, limit in steps for problem in off(statistics.mean(part), limit, APART_MAX, f"at {limit}")])


def tells(report, server):
    with report.check(NAME, "credits are spent as the formula says, and `share show --json` tells it"):
        until_right(lambda: credits_spent(report, server))
    with report.check(NAME, "`share show --json` tells what waited"):
        waited = {share: server.shown(share)["waited"] for share in ("v1", "bytes", "requests")}
        report.note(f"waited: {waited}")
        expect(waited["requests"]["for_iops"] > 0 and waited["requests"]["to_read"] == 0, waited)
        expect(waited["bytes"]["to_read"] > 0 and waited["bytes"]["to_write"] > 0, waited)


def credits_spent(report, server):
    _, baseline, burst, *_ = TABLE[0]
    client = Client(server, Load("v1", depth=64), SECONDS // 2)
    time.sleep(SETTLED_SECONDS * 2)
    began, before = time.monotonic(), credits_left(server, "v1")
    time.sleep(SECONDS // 2)
    seconds, spent = time.monotonic() - began, before - credits_left(server, "v1")
    client.measured()
    report.note(f"credits spent: {spent / seconds:,.0f} a second")
    fail_with(off(spent / seconds, burst - baseline, OFF_MAX, "credits a second"))


def credits_left(server, share):
    left = server.shown(share)["azure"]["availableBurstCredits"]
    expect(left is not None, f"{share} tells no credits")
    return left


# Whom it does not concern.

@dataclasses.dataclass(frozen=True)
class Beside:
    """What another share does beside a neighbour that keeps to its limit by itself, beside one that is held back, and beside the first again."""

    before: tuple
    held_back: tuple
    after: tuple

    def ratios(self, at):
        """Of what it does beside the one that is held back, and of chance."""
        paced_mean = (self.before[at] + self.after[at]) / 2
        return self.held_back[at] / paced_mean, self.after[at] / self.before[at]


def neighbours(report, is_whole):
    """Each with the load that is held back; the share `paced` has no limit, and is asked for just as much as the limit allows."""
    cases = [(Load("requests", depth=32, is_keeper=True), Load("paced", depth=32, is_keeper=True, pace=100))]
    if is_whole:
        cases.append((Load("bytes", block="1M", depth=32, writes=100, is_keeper=True), Load("paced", block="1M", writes=100, is_keeper=True, pace=10)))
    # Where the system puts client and server makes more of a difference than a neighbour: each has its own place.
    core, *cores = sorted(os.sched_getaffinity(0))
    with limited({"requests": ["--iops-max", "200"], "bytes": ["--mibps-max", "20"], "paced": [], "free": []}, core) as server:
        at_once(server, [Load("free", files=1)], 1)
        for held_back, paced in cases:
            with report.check(NAME, f"another share on the same thread loses nothing: {held_back.share}"):
                until_right(lambda: loses_nothing(report, server, (held_back, paced), cores, ROUNDS_WHOLE if is_whole else ROUNDS))
        report.server_is_well(f"{NAME}, neighbours", server)


def loses_nothing(report, server, loads, cores, rounds):
    held_back, paced = loads
    found = [Beside(*(beside(server, load, cores) for load in (paced, held_back, paced))) for _ in range(rounds)]
    problems = []
    for at, what, sign, bound in ((0, "throughput", -1, LOSS_MAX), (1, "99th percentile", 1, LATER_MAX)):
        ratios, chances = zip(*(one.ratios(at) for one in found))
        ratio, chance = statistics.median(ratios), statistics.median(abs(chance - 1) for chance in chances)
        report.note(f"{what} beside {held_back.share}: {ratio:.3f} times that beside one that keeps to the limit by itself; "
                    f"one time beside that differs from the next by {chance:.1%}")
        if sign * (ratio - 1) > bound + chance:
            problems.append(f"{what}: {ratio:.3f} times, chance is {chance:.1%}")
    fail_with(problems)


def beside(server, load, cores):
    """What the share `free` does while this load is at its neighbour."""
    client = Client(server, load, 2, warm=0, cores=cores)
    try:
        time.sleep(SETTLED_SECONDS)
        return short(server, cores)
    finally:
        client.end()


def short(server, cores):
    client = Client(server, Load("free", files=1, depth=4), 1, warm=0, cores=cores)
    found = client.measured()
    return found.requests, found.p99_ms


# What is off.

def until_right(measure):
    for tries_left in reversed(range(TRIES)):
        try:
            return measure()
        except Off:
            if tries_left == 0:
                raise


def off(found, expected, off_max, what):
    """A problem, or none."""
    return [] if abs(found / expected - 1) <= off_max else [f"{what}: {found:,.1f} where {expected:,.1f} is meant"]


def apart(each, what):
    """A problem where one of several has not the same as the others, or none."""
    mean = statistics.mean(each)
    return [] if max(abs(one / mean - 1) for one in each) <= APART_MAX else [f"{what}: {', '.join(f'{one:,.1f}' for one in each)}"]


def fail_with(problems):
    if problems:
        raise Off("\n".join(problems))


def line(*cells):
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def main():
    parser = argparse.ArgumentParser(prog="conformance.limits", description=__doc__.split(":")[0])
    parser.add_argument("--whole", action="store_true", help="each block size, numbers of channels and clients, and each row of Azure's table")
    arguments = parser.parse_args()
    alone.main(NAME, lambda report: checks(report, arguments.whole))


if __name__ == "__main__":
    main()
