"""What metadata caching gives and costs, with it and without it in turns on one server: `python3 -m conformance.metadata_cache --whole` measures all of it.

Each line of the table that is printed at the end has what is wanted; a line that is not met is a failed check. What is found too slow is measured again: other
programs' work makes a turn slow now and then.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import tempfile

from conformance import alone, multilane, packages
from conformance.bench.loads import LOADS, Clients, small
from conformance.bench.run import line, machine
from conformance.cached import CEPH, EXCLUSIVE, EXT4, RAM, TMPFS, Cached, FirstOpens, filled, in_turns, walk
from conformance.limits import Off, fail_with, until_right
from conformance.py_smbprotocol import REQUIREMENTS
from conformance.report import Skip, expect
from conformance.server import Wanted, serving
from conformance.system_calls import FILE_CALLS, Counter

NAME = "metadata_cache"
OPEN, STAT, CREATE = (next(load for load in LOADS if load.mode == mode) for mode in ("open", "stat", "create"))
SPEED, COST = "operations_per_second", "microseconds_each"
# What is at least wanted of CephFS and of a remote store: operations a second with caching, divided by those without.
CEPH_OPEN, CEPH_CHANGE, REMOTE = 10.0, 2.0, 2.0
REMOTE_LATENCY_MS, REMOTE_SECONDS = 2, 580
# What nothing may fall below, once chance is allowed for; where there is more chance than this nothing can be told.
NEVER_SLOWER, CHANCE_MAX = 0.97, 0.1
# An open and a close of what is known make none of these; one in a hundred is what the server looks at by its clock: more of an operation
# where the machine has time for few of them, so that what is above is counted again.
OF_AN_OPEN = ("statx", "getxattr", "fgetxattr", "lgetxattr", "openat", "openat2", "close")
NONE_MAX = 0.01
# Listing a known directory makes none of these either. Every ten seconds all that it has is asked for anew.
OF_A_LISTING = (*OF_AN_OPEN, "getdents64", "lseek")
LISTING_MAX = 1
# The parts that say the same however busy the machine is.
COUNTED = ("calls", "changes")
YES, NO, UNKNOWN = "yes", "NO", "cannot be told"
COUNTED_SECONDS, WARM_SECONDS = 0.4, 0.2
MILLION, MILLION_SECONDS = 1_000_000, 600
# What a million names may add to the server's memory: what SEMANTICS.md promises at most, and as much again for what malloc keeps.
GROWN_MAX_MIB = 512
CHECK_SECONDS = 580


@dataclasses.dataclass(frozen=True)
class Size:
    """How long to measure."""

    rounds: int
    seconds: float
    files: int              # that are opened for the first time, made or removed in a turn
    large_folder: int
    local_changes: int


# Files that are opened once, and the watches for each of them at most: a folder of a hundred has one.
FIRST_OPENS, WATCHES_MAX = 2_000, 0.05
SHORT, WHOLE = Size(3, 0.2, 4_000, 0, 1_200), Size(5, 1, 10_000, 100_000, 10_000)
ON_CEPH = Size(3, 1, 500, 100_000, 0)


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no such caching")
    # What is a matter of speed is measured, and not tested: other work on the machine decides about it.
    checks(report, is_whole=False, only=COUNTED)


def checks(report, is_whole, only=()):
    suite = Suite(report, WHOLE if is_whole else SHORT)
    report.note(f"Machine: {machine()}")
    parts = {"calls": suite.calls, "processor": suite.processor, "changes": suite.local_changes, "slower": suite.never_slower, "remote": suite.remote_store}
    if is_whole:
        parts |= {"ceph": suite.ceph, "memory": suite.memory}
    try:
        for name, part in parts.items():
            if not only or name in only:
                part()
    finally:
        suite.tell()


class Suite:
    def __init__(self, report, size):
        self.report, self.size = report, size
        self.clients = Clients()
        self.rows = []

    # System calls.

    def calls(self):
        """Of each operation, on tmpfs and on ext4."""
        some = ("--files", "300")
        loads = (OPEN, STAT, small("list", name="list 100 names", more=("--folder", r"listed\0")),
                 small("make", name="create and close a new file", more=some), small("delete", name="delete a file", more=some))
        with serving(Cached, Wanted(shares=(TMPFS, EXT4), on_tmpfs=True)) as server:
            for share in (TMPFS, EXT4):
                with filled(server.share_path(share) / "listed", 100):
                    for load in loads:
                        with self.report.check(NAME, f"system calls: {share}, {load.name}"):
                            until_right(lambda load=load, share=share: self._calls_of(server, share, load))
                with self.report.check(NAME, f"system calls: {share}, files that are opened once are not watched"):
                    self._watches_of_first_opens(server, share)
            self.report.server_is_well(f"{NAME}, calls", server)

    def _calls_of(self, server, share, load):
        counted = {}
        for way in ("off", "on"):
            server.cache(way == "on")
            counted[way] = self._counted(server, share, load)
            self.report.note(line([share, load.name, way, told(counted[way])]))
        calls, most = {"open": (OF_AN_OPEN, NONE_MAX), "list": (OF_A_LISTING, LISTING_MAX)}.get(load.mode, ((), 0))
        made = sum(counted["on"].get(name, 0) for name in calls)
        totals = [f"{sum(counted[way].values()):.2f}" for way in counted]
        is_met = made <= most
        self._row(share, f"{load.name}: system calls", *totals, "", "", f"none of {', '.join(calls)}" if calls else "", YES if is_met else NO)
        fail_with([] if is_met else [f"{load.name}: {made:.2f} calls of what is known, {most} at most are right: {told(counted['on'])}"])

    def _watches_of_first_opens(self, server, share):
        """Those of their folders are few."""
        server.cache(True)
        with filled(server.share_path(share) / "once", FIRST_OPENS):
            load = walk("once", FIRST_OPENS)
            with Counter(server.pid) as counter:
                *_, result = self.clients.between(load, server, share, COUNTED_SECONDS, counter)
                watches = counter.found["inotify_add_watch"] / result["ops"]
        self._row(share, f"{load.name}: watches", "", f"{watches:.2f}", "", "", f"<= {WATCHES_MAX}", YES if watches <= WATCHES_MAX else NO)
        expect(watches <= WATCHES_MAX, f"{watches:.2f} watches for each file that is opened once")

    def _counted(self, server, share, load):
        """Calls for each operation, by name, once the server may know the files."""
        self.clients.run(load, server, share, WARM_SECONDS)
        with Counter(server.pid) as counter:
            *_, result = self.clients.between(load, server, share, COUNTED_SECONDS, counter)
            return {name: counter.found[name] / result["ops"] for name in FILE_CALLS if name in counter.found}

    # Processor time.

    def processor(self):
        with serving(Cached, Wanted(shares=(TMPFS,), ram_shares=(RAM,), on_tmpfs=True)) as server, \
                self.report.check(NAME, "an open and close of a file on tmpfs takes no more processor time than on a RAM disk"):
            until_right(lambda: self._as_on_a_ram_disk(server))

    def _as_on_a_ram_disk(self, server):
        seconds, on_ram = max(self.size.seconds, 0.5), []

        def both():
            on_ram.append(self.clients.run(OPEN, server, RAM, seconds))
            return self.clients.run(OPEN, server, TMPFS, seconds)

        turns = in_turns(server, both, self.size.rounds + 1)
        wanted, with_it, chance = statistics.median(one.microseconds_each for one in on_ram), turns.with_it(COST), turns.chance(COST)
        is_met = with_it <= wanted * (1 + chance)
        self._row(TMPFS, f"{OPEN.name}: us of the server", f"{turns.without(COST):.1f}", f"{with_it:.1f}", f"{turns.ratio(COST):.2f}", f"{chance:.3f}",
                  f"<= {wanted:.1f}, a RAM disk's: {with_it / wanted:.2f} of it", YES if is_met else NO)
        fail_with([] if is_met else [f"{with_it:.1f} us, on a RAM disk {wanted:.1f} us"])

    # What another program changes.

    def local_changes(self):
        python = packages.python_with(*REQUIREMENTS)
        with serving(Cached, Wanted(shares=(TMPFS, EXT4), on_tmpfs=True)) as server:
            server.cache(True)
            for share in (TMPFS, EXT4):
                environment = dict(server.environment(), SMB_SHARE=share, LOCAL_FOLDER=str(server.share_path(share)),
                                   LOCAL_OPERATIONS=str(self.size.local_changes))
                self.report.absorb(f"{NAME}, {share}", [python, "-m", "conformance.local_changes_checks"], CHECK_SECONDS, env=environment, cwd=packages.ROOT)
            self.report.server_is_well(f"{NAME}, changes", server)

    # Nothing is slower.

    def never_slower(self):
        shares = (TMPFS, EXT4) if self.size is WHOLE else (TMPFS,)
        with serving(Cached, Wanted(shares=shares, on_tmpfs=True)) as server:
            for share in shares:
                self._none_slower(server, share, self.size)
            self.report.server_is_well(f"{NAME}, slower", server)

    def _none_slower(self, server, share, size):
        for name, measure in self._measurements(server, share, size):
            self._not_slower(server, share, name, measure, size.rounds)
        for names in (1_000, size.large_folder):
            if names == 0:
                continue
            with filled(server.share_path(share) / "listed", names, names):
                listing = small("list", name=f"list {names:,} names", more=("--folder", r"listed\0"))
                rounds = size.rounds if names == 1_000 else min(size.rounds, 3)
                self._not_slower(server, share, listing.name, self._of(server, share, listing, size.seconds), rounds)

    def _measurements(self, server, share, size):
        """The names of operations, and what measures each once."""
        some = ("--files", str(size.files))
        yield "first open and close of each of many files", FirstOpens(self.clients, server, share, size.files)
        for load in (small("make", name="create and close a new file", more=some), small("delete", name="delete a file", more=some)):
            yield load.name, self._of(server, share, load, 60)
        for mode in ("write", "read"):
            for block in (4096, 65536):
                load = small(mode, name=f"{mode} {block // 1024} KiB of an open file", block_bytes=block, file_mib=16)
                yield load.name, self._of(server, share, load, size.seconds)

    def _of(self, server, share, load, seconds):
        return lambda: self.clients.run(load, server, share, seconds)

    def _not_slower(self, server, share, name, measure, rounds):
        def found():
            turns = in_turns(server, measure, rounds)
            ratio, chance = turns.ratio(SPEED), turns.chance(SPEED)
            is_met, is_known = ratio + chance >= NEVER_SLOWER, chance <= CHANCE_MAX
            self._speed_row(share, name, turns, f">= {NEVER_SLOWER} with chance", YES if is_met and is_known else UNKNOWN if is_met else NO)
            fail_with([] if is_met and is_known else [f"{ratio:.3f} of the speed without caching, chance is {chance:.3f}"])

        with self.report.check(NAME, f"never slower: {share}, {name}"):
            try:
                until_right(found)
            except Off:
                # On a busy machine the short form tells what it can.
                if self.size is not SHORT or self.rows[-1][-1] != UNKNOWN:
                    raise

    # A store on another machine.

    def remote_store(self):
        """The whole of it has the 10,000 files of the tool's defaults."""
        with self.report.check(NAME, f"small files of a store that is {REMOTE_LATENCY_MS} ms away: half the latency, twice the operations"):
            result = compared(["--store-latency", str(REMOTE_LATENCY_MS), "--clients", "1", *([] if self.size is WHOLE else ["--quick"])])
            effects = {effect["workload"]: effect for effect in result["effects"]}
            cases = {(case["workload"], case["caching"]): case for case in result["cases"]}
            for workload, effect in effects.items():
                self._remote_row(workload, effect, cases)
            latency, speed = (effects["small-files"][what]["median"] for what in ("latency_mean", "operations_per_second"))
            expect(latency <= 1 / REMOTE and speed >= REMOTE, f"latency {latency:.2f} times, operations {speed:.2f} times what they are without caching")

    def _remote_row(self, workload, effect, cases):
        latency, speed, chance = (effect[what]["median"] for what in ("latency_mean", "operations_per_second", "chance"))
        is_target = workload == "small-files"
        is_met = not is_target or (latency <= 1 / REMOTE and speed >= REMOTE)
        for what, ratio, wanted, of in (("us", latency, f"<= {1 / REMOTE}", lambda case: case["latency"]["mean_us"]),
                                        ("op/s", speed, f">= {REMOTE}", lambda case: case["operations_per_second_median"])):
            figures = [f"{of(cases[workload, way]):,.0f}" for way in ("off", "on")]
            self._row(f"{REMOTE_LATENCY_MS} ms away", f"{workload}: {what}", *figures, f"{ratio:.2f}", f"{abs(chance - 1):.3f}", wanted if is_target else "", YES if is_met else NO)

    # CephFS.

    def ceph(self):
        with serving(lambda wanted: Cached(wanted, with_ceph=True), Wanted(shares=(TMPFS,), on_tmpfs=True)) as server:
            shares = [CEPH, *([EXCLUSIVE] if server.has_exclusive else [])]
            for share in shares:
                self._faster_on_ceph(server, share)
            if not server.has_exclusive:
                self.report.note("this server has no exclusive shares")
            self._none_slower(server, CEPH, ON_CEPH)
            self.report.server_is_well(f"{NAME}, ceph", server)

    def _faster_on_ceph(self, server, share):
        some = ("--files", str(ON_CEPH.files))
        for load, seconds, wanted in ((OPEN, 2, CEPH_OPEN), (small("make", name=CREATE.name, more=some), 60, CEPH_CHANGE),
                                      (small("delete", name="delete a file", more=some), 60, CEPH_CHANGE)):
            with self.report.check(NAME, f"faster: {share}, {load.name}"):
                turns = in_turns(server, self._of(server, share, load, seconds), ON_CEPH.rounds)
                ratio = turns.ratio(SPEED)
                self._speed_row(share, load.name, turns, f">= {wanted}", YES if ratio >= wanted else NO)
                expect(ratio >= wanted, f"{ratio:.2f} times the speed without caching")

    # Memory.

    def memory(self):
        with serving(Cached, Wanted(shares=(TMPFS,), on_tmpfs=True)) as server:
            with filled(server.share_path(TMPFS) / "many", MILLION, 1_000), \
                    self.report.check(NAME, "a million names that were looked up add no more memory than is allowed"):
                self._grown(server, "a million names in folders of 1,000", walk("many", MILLION, 1_000))
            with filled(server.share_path(TMPFS) / "one", MILLION, MILLION):
                load = walk("one", MILLION, MILLION)
                with self.report.check(NAME, "a folder of a million names adds no more memory than is allowed"):
                    self._grown(server, "names of a folder of a million", load)
                self._not_slower(server, TMPFS, "open and close in a folder of a million names", self._of(server, TMPFS, load, 3), 3)
            self.report.server_is_well(f"{NAME}, memory", server)

    def _grown(self, server, what, load):
        """A fresh server each time, as memory that was given back stays with the process; twice through, as what is used once may be passed over."""
        grown = {}
        for way in ("off", "on"):
            server.stop()
            server.start()
            server.cache(way == "on")
            self.clients.run(OPEN, server, TMPFS, WARM_SECONDS)
            before = server.resident_bytes()
            for _ in range(2):
                done = self.clients.run(load, server, TMPFS, MILLION_SECONDS)
            grown[way] = server.resident_bytes() - before
            self.report.note(f"{what}, {way}: {done.operations:,} opened twice, {grown[way] / done.operations:,.0f} bytes each, {done.operations_per_second:,.0f} a second, "
                             f"{done.microseconds_each:.1f} us of the server each")
            expect(done.operations == MILLION, f"only {done.operations:,} in {MILLION_SECONDS} s")
        is_met = grown["on"] <= GROWN_MAX_MIB << 20
        self._row(TMPFS, f"{what}: MiB grown", *(f"{grown[way] / (1 << 20):,.0f}" for way in grown), "", "", f"<= {GROWN_MAX_MIB}", YES if is_met else NO)
        expect(is_met, f"{grown['on'] >> 20} MiB")

    # The table.

    def _speed_row(self, share, name, turns, wanted, met):
        cost = f"{turns.without(COST):,.1f} to {turns.with_it(COST):,.1f} us"
        self._row(share, f"{name}: op/s ({cost})", f"{turns.without(SPEED):,.0f}", f"{turns.with_it(SPEED):,.0f}", f"{turns.ratio(SPEED):.2f}",
                  f"{turns.chance(SPEED):.3f}", wanted, met)

    def _row(self, place, what, off, on, ratio, chance, wanted, met):
        """The last row of one place and measurement stays: it may have been measured again."""
        self.rows = [row for row in self.rows if (row[0], row[1].split(" (")[0]) != (place, what.split(" (")[0])]
        self.rows.append((place, what, off, on, ratio, chance, wanted, met if wanted else ""))

    def tell(self):
        self.report.note("\n".join(["", line(["files on", "what", "off", "on", "on / off", "chance", "wanted", "met"]), line(["---", "---", *["---:"] * 4, "---", "---"]),
                                    *(line(row) for row in self.rows), ""]))


def told(counts):
    return " ".join(f"{name} {count:.2f}" for name, count in sorted(counts.items(), key=lambda one: -one[1]) if count >= NONE_MAX / 2) or "none"


def compared(words):
    """The report of `multilane compare --metadata`."""
    with tempfile.TemporaryDirectory(prefix="conformance-metadata-") as folder:
        file = pathlib.Path(folder) / "result.json"
        done = subprocess.run([str(multilane.binary()), "compare", "--metadata", "--json", str(file), *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=REMOTE_SECONDS)
        expect(done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}")
        return json.loads(file.read_text())


PARTS = ("calls", "processor", "changes", "slower", "remote", "ceph", "memory")


def main():
    parser = argparse.ArgumentParser(prog="conformance.metadata_cache", description=__doc__.split(":")[0])
    parser.add_argument("--whole", action="store_true", help="longer, with ext4, CephFS, folders of 100,000 names and a million names in memory")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=(), metavar="PART", help=f"of {', '.join(PARTS)}; the last two are part of the whole")
    arguments = parser.parse_args()
    alone.main(NAME, lambda report: checks(report, arguments.whole, arguments.only))


if __name__ == "__main__":
    main()
