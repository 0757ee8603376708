"""Hours of work by many clients while connections are cut, neighbours are hostile and one share's disk hangs now and then.

`python3 -m conformance.soak --minutes 60`. Each client knows what it wrote and was told is written; at the end all of it must be there.
Memory and descriptors of the server are written to a CSV, and must not have grown over the last half.
"""

import argparse
import csv
import os
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from conformance import alone, multilane, packages  # noqa: E402
from conformance.bench.run import raise_open_files  # noqa: E402
from conformance.hostile import plant_escapes  # noqa: E402
from conformance.loop_disk import LoopDisk  # noqa: E402
from conformance.py_smbprotocol import REQUIREMENTS  # noqa: E402
from conformance.relay import Cutter  # noqa: E402
from conformance.report import Skip, expect  # noqa: E402
from conformance.server import Wanted, serving  # noqa: E402

NAME = "soak"
MINUTES = 1.5
SHARE, FREEZING = "soak", "freezing"
CUT_CHANCE = 0.01                  # of each connection, each second
FREEZE_EVERY_SECONDS = (20, 60)
FREEZE_SECONDS = (2.0, 8.0)
SAMPLE_SECONDS = 2
HOSTILE_HOLD_SECONDS = 5
HOSTILE_SECONDS = 45
# Those that leave the server to others: what takes a limit of its own, or a folder of 200,000 names, is measured by bench.bounds alone.
HOSTILE = ("sign-ins", "sign-ins-everywhere", "silent", "begun", "begun-frames", "names", "half-frames", "late-frames", "compounds", "untaken",
           "half-writes", "copies", "locks", "untaken-large", "opens", "sessions")
BAD_INPUT = "conformance.hostile.cases"
# What the server may have grown by over the last half, and descriptors more than at the beginning, when all have gone.
GROWTH_BYTES_MAX = 16 << 20
DESCRIPTORS_MORE = 64
SETTLE_SECONDS = 20
# In a run this short nothing can be said of a slope.
SLOPE_MINUTES = 10
# What a command says that lost its server; connections are cut while they are made, too.
LOST, COMMAND_ATTEMPTS = ("cannot connect", "connection", "timed out"), 4
LINE = "▁▂▃▄▅▆▇█"


def run(kind, report, options, minutes=MINUTES, seed=None, out=None):
    if kind.kind != "multilane":
        raise Skip("the soak is of our server")
    seed = random.randrange(1 << 30) if seed is None else seed
    python = packages.python_with(*REQUIREMENTS)
    go = packages.go_program("go-smb2", "bench")
    raise_open_files()
    wanted = Wanted(shares=(SHARE, FREEZING), channels=4)
    with serving(with_disk(kind), wanted) as server, Cutter(server, seed) as relay:
        report.note(f"{NAME}: {minutes} minutes, seed {seed}")
        soak = Soak(server, relay, minutes * 60, seed, python, go)
        soak.work()
        judge(soak, report, minutes, out)
        report.server_is_well(NAME, server)
        with report.check(NAME, "it stops within 15 s"):
            began = time.monotonic()
            expect(server.stop() is not None and time.monotonic() - began < 15, f"it took {time.monotonic() - began:.0f} s")


def with_disk(kind):
    """This kind of server with one share on a file system that can be frozen; in the server's folder, on a disk."""
    class WithDisk(kind):
        disk = None

        def prepare(self):
            disk = LoopDisk(self.share_path(FREEZING), self.folder / "disk")
            try:
                self.disk = disk.mount()
            except Skip as reason:
                # The rest is worth its time without; the suite says that this part was left out.
                self.no_disk = reason
            super().prepare()

        def unmount(self):
            if self.disk:
                self.disk.unmount()
    return WithDisk


class Soak:
    """Everything that goes on at once, each in a thread, and what each of them found."""

    def __init__(self, server, relay, seconds, seed, python, go):
        self.server, self.relay, self.seconds, self.seed, self.python, self.go = server, relay, seconds, seed, python, go
        self.began = time.monotonic()
        self.ended = threading.Event()
        self.wrong = []
        self.done = {}
        self.samples = []
        self.freezes = 0
        self.folder = server.folder / "clients"
        self.folder.mkdir()

    def work(self):
        kinds = [self.copies, self.writers, self.go_clients, self.diskspd, self.hostile, self.sample]
        kinds += [self.freezer] if self.server.disk else []
        threads = [threading.Thread(target=self.guarded, args=(kind,)) for kind in kinds]
        self.samples.append(self.sampled())
        for thread in threads:
            thread.start()
        self.relay.chance = CUT_CHANCE
        self.ended.wait(self.seconds)
        self.ended.set()
        for thread in threads:
            thread.join()
        self.relay.chance = 0.0
        time.sleep(SETTLE_SECONDS)
        self.samples.append(self.sampled())

    def guarded(self, kind):
        try:
            kind()
        except Exception as error:
            self.wrong.append(f"{kind.__name__}: {type(error).__name__}: {error}")

    def count(self, what, number=1):
        self.done[what] = self.done.get(what, 0) + number

    @property
    def left_seconds(self):
        return self.seconds - (time.monotonic() - self.began)

    # Clients that do no wrong.

    def copies(self):
        """`multilane cp --verify`, there and back, over connections that are cut; both ends are compared here once more."""
        chance = random.Random(self.seed)
        source = self.folder / "source"
        source.mkdir()
        turn = 0
        while not self.ended.is_set():
            turn += 1
            for number in range(8):
                (source / f"file-{number}").write_bytes(chance.randbytes(chance.randrange(4 << 20)))
            back, there = self.folder / f"back-{turn}", f"smb://{self.server.user}@{self.server.host}:{self.relay.port}/{SHARE}/copy-{turn}"
            for words in ((str(source), there), (there, str(back))):
                self.multilane("cp", *words, "--verify")
            on_disk = self.server.share_path(SHARE) / f"copy-{turn}"
            for file in source.iterdir():
                expect(file.read_bytes() == (back / file.name).read_bytes(), f"{file.name} came back otherwise in turn {turn}")
                expect(file.read_bytes() == (on_disk / file.name).read_bytes(), f"{file.name} is otherwise on the disk in turn {turn}")
            # One that lost its server may have removed all before it could be told so.
            self.multilane("rm", "--recursive", there, is_done=lambda: not on_disk.exists())
            subprocess.run(["rm", "-r", str(back)], check=True)
            self.count("copies of 8 files, there and back")

    def writers(self):
        """Writers that know what was acknowledged (soak_writer.py), through the relay: one on each share."""
        shares = [SHARE, FREEZING] if self.server.disk else [SHARE]
        processes = [self.child("conformance.soak_writer", share, str(self.seed + number), SMB_SHARE=share, SMB_PORT=str(self.relay.port))
                     for number, share in enumerate(shares)]
        self.ended.wait()
        for share, process in zip(shares, processes):
            said, _ = process.communicate("end\n", timeout=180)
            expect(process.returncode == 0, f"the writer on {share}: {said[-2000:]}")
            self.count(f"writes acknowledged on {share}, all of them there", int(said.split()[-1]))

    def go_clients(self):
        """go-smb2 reads and writes and checks every byte; it knows no channels and does not connect again, so nobody cuts it."""
        modes = ["write", "read"]
        while not self.ended.is_set():
            modes.reverse()
            process = subprocess.Popen([self.go, modes[0], "16384", "4", "8", "16"], env=dict(self.server.environment(), SMB_SHARE=SHARE),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            said, _ = process.communicate("\n\n", timeout=300)
            expect(process.returncode == 0 and '"errors": 0' in said, f"go-smb2: {said}")
            self.count("runs of go-smb2")

    def diskspd(self):
        """`multilane diskspd` on four channels, over connections that are cut."""
        place = f"smb://{self.server.user}@{self.server.host}:{self.relay.port}/{SHARE}/diskspd"
        while not self.ended.is_set():
            self.multilane("diskspd", "-W0", "-d8", "-c32M", "-b16K", "-r", "-w50", "-o8", "-t2", place)
            self.count("runs of diskspd")

    # What goes wrong.

    def hostile(self):
        """The attacks of bench.bounds and the suite `hostile`, one after the other, as a user who is somebody else. What they are answered is
        judged elsewhere, where nobody else is busy."""
        plant_escapes(self.server)
        chance, names = random.Random(self.seed + 7), [*HOSTILE, BAD_INPUT]
        chance.shuffle(names)
        for turn in range(1 << 30):
            if self.ended.wait(2) or self.left_seconds < 10:
                return
            name = names[turn % len(names)]
            module = [BAD_INPUT] if name == BAD_INPUT else ["conformance.bench.bounds.attacker", name]
            process = self.child(*module, SMB_USER=self.server.second_user, SMB_SHARE=SHARE)
            try:
                self.until_held(process)
            finally:
                process.kill()
                process.communicate()
            self.count("attacks")

    def until_held(self, process):
        late = threading.Timer(min(HOSTILE_SECONDS, max(1, self.left_seconds)), process.kill)
        late.start()
        try:
            for line in process.stdout:
                if line.strip() == "held":
                    self.ended.wait(HOSTILE_HOLD_SECONDS)
                    return
        finally:
            late.cancel()

    def freezer(self):
        """The other share's disk hangs now and then, as long as clients bear with it."""
        chance = random.Random(self.seed + 8)
        while not self.ended.wait(min(chance.uniform(*FREEZE_EVERY_SECONDS), max(5, self.seconds / 4))):
            self.server.disk.freeze()
            try:
                time.sleep(chance.uniform(*FREEZE_SECONDS))
            finally:
                self.server.disk.thaw()
            self.freezes += 1

    # What is looked at.

    def sample(self):
        while not self.ended.wait(SAMPLE_SECONDS):
            self.samples.append(self.sampled())

    def sampled(self):
        pid = self.server.pid
        return {"seconds": round(time.monotonic() - self.began, 1), "memory": self.server.resident_bytes(),
                "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": len(os.listdir(f"/proc/{pid}/task")),
                "cpu": self.server.cpu_seconds()}

    # Programs.

    def multilane(self, *words, is_done=lambda: False):
        """One of our commands; one that cannot connect, or loses its server for longer than it bears with, is given again, unless all is done."""
        for attempt in range(COMMAND_ATTEMPTS):
            done = subprocess.run([str(multilane.binary()), *words], env=dict(os.environ, MULTILANE_PASSWORD=self.server.password),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
            said = done.stderr + done.stdout
            if done.returncode == 0 or not any(lost in said for lost in LOST):
                break
            self.ended.wait(1)
            if is_done():
                return
            self.count("commands given again", 1)
        expect(done.returncode == 0, f"multilane {' '.join(words)}: exit {done.returncode}: {said[-600:]}")

    def child(self, module, *words, **variables):
        environment = dict(self.server.environment(), PYTHONPATH=str(packages.ROOT), SMB_PID=str(self.server.pid), **variables)
        return subprocess.Popen([self.python, "-m", module, *words], env=environment, cwd=packages.ROOT, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def judge(soak, report, minutes, out):
    """The checks at the end."""
    if out:
        written(soak.samples, out)
    for what, number in sorted(soak.done.items()):
        report.note(f"{NAME}: {number:,} {what}")
    report.note(f"{NAME}: {soak.relay.cuts} connections cut, {soak.freezes} times frozen, "
                f"{soak.samples[-1]['cpu'] - soak.samples[0]['cpu']:.0f} s of the server's CPU time")
    memory = [sample["memory"] for sample in soak.samples]
    report.note(f"{NAME}: memory {drawn(memory)} {min(memory) >> 20} to {max(memory) >> 20} MiB, at the end {memory[-1] >> 20}; "
                f"descriptors {drawn([sample['descriptors'] for sample in soak.samples])}")
    with report.check(NAME, "no byte is wrong and every acknowledged write is there"):
        expect(not soak.wrong, "\n".join(soak.wrong))
    with report.check(NAME, "clients worked, connections were cut and neighbours were hostile"):
        expect(len(soak.done) >= 5 and all(soak.done.values()) and soak.relay.cuts > 0, f"{soak.done}, {soak.relay.cuts} cuts")
    with report.check(NAME, "a share's disk hung now and then"):
        if not soak.server.disk:
            raise soak.server.no_disk
        expect(soak.freezes > 0, "never")
    with report.check(NAME, "no descriptor stays"):
        first, last = (soak.samples[place]["descriptors"] for place in (0, -1))
        expect(last <= first + DESCRIPTORS_MORE, f"{first} at the beginning, {last} when all have gone")
    if minutes >= SLOPE_MINUTES:
        with report.check(NAME, "memory is flat over the last half"):
            grown = growth(soak.samples[:-1])
            expect(grown <= GROWTH_BYTES_MAX, f"it grew by {grown / (1 << 20):.0f} MiB")


def growth(samples):
    """How much memory grew over the last half, as a straight line has it through the least of each minute: attacks come and go."""
    half = [sample for sample in samples if sample["seconds"] >= samples[-1]["seconds"] / 2]
    minutes = {}
    for sample in half:
        minute = int(sample["seconds"] // 60)
        minutes[minute] = min(minutes.get(minute, sample["memory"]), sample["memory"])
    line = statistics.linear_regression(list(minutes), list(minutes.values()))
    return line.slope * (max(minutes) - min(minutes))


def drawn(values, width=60):
    """Values as a line of text."""
    step = max(1, len(values) // width)
    parts = [max(values[place:place + step]) for place in range(0, len(values), step)]
    least, most = min(parts), max(parts)
    return "".join(LINE[int((part - least) / max(1, most - least) * (len(LINE) - 1))] for part in parts)


def written(samples, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        rows = csv.DictWriter(file, samples[0].keys())
        rows.writeheader()
        rows.writerows(samples)


def main():
    parser = argparse.ArgumentParser(prog="conformance.soak", description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"how long it works ({MINUTES})")
    parser.add_argument("--seed", type=int, help="of an earlier run")
    parser.add_argument("--csv", type=pathlib.Path, default=packages.ROOT / "target" / "soak.csv", help="where the samples go")
    arguments = parser.parse_args()
    alone.main(NAME, lambda report: run(multilane.Multilane, report, arguments, arguments.minutes, arguments.seed, arguments.csv))


if __name__ == "__main__":
    main()
