"""Sealed reads of one client over four channels: which threads of the server do the work. Ours spreads a session's channels over all its
shards; Samba, beside it where it is installed, has one thread for all channels of a client, and others that only read its files."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from conformance import multilane, packages, samba
from conformance.report import Failure, Skip, expect
from conformance.server import CLOCK_TICKS, Wanted, descendants, serving

NAME = "cores"
CHANNELS = 4
SHARDS = 2
# So much is read that a thread's time, counted in hundredths of a second, tells.
FILES = 8
FILE_BYTES = 256 << 20
# How often the threads are looked at: those of a server that gives each client a process end with it.
LOOK_SECONDS = 0.02
# Of what the shards work, the busiest does no more than this.
BUSIEST_MAX = 0.7
SHOWN_MAX = 3
COMMAND_SECONDS = 300


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("Samba is measured beside ours")
    with tempfile.TemporaryDirectory(prefix="conformance-cores-", dir=memory()) as folder:
        beside(report, pathlib.Path(folder))
        with serving(TwoShards, Wanted(on_tmpfs=True, channels=CHANNELS)) as server:
            with report.check(NAME, f"sealed reads over {CHANNELS} channels keep {SHARDS} cores of the server busy"):
                used = sealed_reads(server, pathlib.Path(folder))
                shards = [seconds for name, seconds in used if name in TwoShards.threads]
                report.note(f"{kind.kind}: {shown(used)}")
                expect(len(shards) == SHARDS and sum(shards) > 0, f"the shards are not to be seen: {used}")
                expect(max(shards) <= BUSIEST_MAX * sum(shards), f"one shard does the work: {shown(used)}")
            report.server_is_well(NAME, server)


class TwoShards(multilane.Multilane):
    """Our server with as many threads as the check counts, however many cores there are."""

    threads = tuple(f"multilane-{index}" for index in range(SHARDS))

    def command(self):
        return [*super().command(), "--threads", str(SHARDS)]


def beside(report, folder):
    """What Samba's threads do with the same reads; nothing is asked of them."""
    if not packages.find("smbd") or os.geteuid() != 0:
        report.note("samba: not here to compare with")
        return
    with serving(samba.Samba, Wanted(on_tmpfs=True)) as server:
        try:
            report.note(f"samba: {shown(sealed_reads(server, folder))}")
        except Failure as seen:
            report.note(f"samba: {seen}")


def sealed_reads(server, folder):
    """Reads files in one session; (name, seconds) of each thread of the server that worked for it, the busiest first."""
    source, target, place = folder / "source", folder / "target", f"smb://{server.user}@{server.host}:{server.port}/{server.share}/"
    source.write_bytes(os.urandom(1 << 20) * (FILE_BYTES >> 20))
    finished(client(server, "mkdir", f"{place}tree"))
    for number in range(FILES):
        finished(client(server, "put", str(source), f"{place}tree/{number}"))
    before, after = threads(server), {}
    reader = client(server, "get", f"{place}tree", str(target), "--seal", "--channels", str(CHANNELS))
    while reader.poll() is None:
        after.update(threads(server))
        time.sleep(LOOK_SECONDS)
    after.update(threads(server))
    shutil.rmtree(target, ignore_errors=True)
    copied = finished(reader)
    expect(copied["bytes"] == FILES * FILE_BYTES, copied)
    used = [(name, seconds - before.get(key, (name, 0.0))[1]) for key, (name, seconds) in after.items()]
    return sorted((entry for entry in used if entry[1] > 0), key=lambda entry: -entry[1])


def threads(server):
    """Name and CPU seconds of each thread of the server and of what it started."""
    found = {}
    for pid in (server.pid, *descendants(server.pid)):
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
            try:
                head, _, fields = (task / "stat").read_text().rpartition(")")
            except OSError:  # it has ended
                continue
            ticks = fields.split()
            found[int(task.name)] = (head.partition("(")[2], (int(ticks[11]) + int(ticks[12])) / CLOCK_TICKS)
    return found


def shown(used):
    """The busiest threads' seconds and shares, as in `multilane-0 1.20 s (51 %)`."""
    total = sum(seconds for _, seconds in used) or 1.0
    words = [f"{name} {seconds:.2f} s ({100 * seconds / total:.0f} %)" for name, seconds in used[:SHOWN_MAX]]
    others = sum(seconds for _, seconds in used[SHOWN_MAX:])
    return ", ".join(words + ([f"{len(used) - SHOWN_MAX} others {others:.2f} s"] if others else []))


def client(server, *words):
    argv = [str(multilane.binary()), *words, "--json"]
    environment = dict(os.environ, MULTILANE_PASSWORD=server.password)
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process):
    """What a command said at its end."""
    try:
        out, error = process.communicate(timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Failure(f"{' '.join(process.args)}: still at it after {COMMAND_SECONDS} s") from None
    if process.returncode != 0:
        raise Failure(f"{' '.join(process.args)}: exit {process.returncode}\n{error}")
    return json.loads(out)


def memory():
    return "/dev/shm" if os.path.isdir("/dev/shm") else None
