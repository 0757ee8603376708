"""A server whose account caches metadata or not, with a share on each of several file systems, and measurements of both in turns."""

import contextlib
import dataclasses
import shutil
import statistics

from conformance import multilane
from conformance.bench.loads import small
from conformance.ceph import Ceph
from conformance.loop_disk import LoopDisk

TMPFS, EXT4, RAM, CEPH, EXCLUSIVE = "tmpfs", "ext4", "ram", "ceph", "ceph-exclusive"
# With an inode for each 16 KiB: room for some hundred thousand files. The image has holes where nothing was written.
DISK_MIB = 8192
IN_EACH = 100


class Cached(multilane.Multilane):
    """Its shares are called after the file systems that they lie on."""

    def __init__(self, wanted, with_ceph=False):
        super().__init__(wanted)
        self.with_ceph = with_ceph
        self.disk = self.ceph = None
        self.has_exclusive = "--exclusive" in self._run("share", "create", "--help")

    def prepare(self):
        if EXT4 in self.wanted.shares:
            self.disk = LoopDisk(self.share_path(EXT4), self.folder / "disk", DISK_MIB)
            self.disk.mount()
        super().prepare()
        if self.with_ceph:
            self.ceph = Ceph(self.folder / "ceph")
            self.ceph.start().mount(self.folder / "cephfs")
            for share, words in ((CEPH, ()), *([(EXCLUSIVE, ("--exclusive",))] if self.has_exclusive else [])):
                self.share_path(share).mkdir()
                self._run("share", "create", share, "--path", str(self.share_path(share)), *words)

    def share_path(self, share=None):
        return self.folder / "cephfs" / share if share in (CEPH, EXCLUSIVE) else super().share_path(share)

    def cache(self, is_on):
        """From now on."""
        self._run("account", "update", self.keeper, "--metadata-caching", "on" if is_on else "off")

    def unmount(self):
        if self.ceph:
            self.ceph.stop()
        if self.disk:
            self.disk.unmount()


@dataclasses.dataclass(frozen=True)
class Turns:
    """The same measured without caching, with it, and without it again, round by round."""

    off: tuple
    on: tuple
    again: tuple

    def without(self, what):
        return statistics.median(getattr(one, what) for one in self.off + self.again)

    def with_it(self, what):
        return statistics.median(getattr(one, what) for one in self.on)

    def ratio(self, what):
        """With caching divided by without, each in its round."""
        return statistics.median(getattr(on, what) * 2 / (getattr(off, what) + getattr(again, what))
                                 for off, on, again in zip(self.off, self.on, self.again))

    def chance(self, what):
        """How far a turn without caching is from another of the same round."""
        return statistics.median(abs(getattr(again, what) / getattr(off, what) - 1) for off, again in zip(self.off, self.again))


def in_turns(server, measure, rounds):
    """Calls `measure` without caching, with it, and without it again, so many times."""
    taken = ([], [], [])
    for _ in range(rounds):
        for is_on, runs in zip((False, True, False), taken):
            server.cache(is_on)
            runs.append(measure())
    return Turns(*(tuple(runs) for runs in taken))


# Files that another program has made.

def fill(folder, files, in_each=IN_EACH):
    """Makes so many empty files, called 0, 1 and so on, in folders that are called so, too."""
    for first in range(0, files, in_each):
        inner = folder / str(first // in_each)
        inner.mkdir(parents=True)
        for number in range(min(in_each, files - first)):
            (inner / str(number)).touch()


def walk(folder, files, in_each=IN_EACH):
    """The load that opens each of them once."""
    return small("walk", name="first open and close of each of many files",
                 more=("--folder", folder, "--files", str(files), "--folders", str(-(-files // in_each))))


class FirstOpens:
    """A measurement of files that nobody has opened: each has a folder of its own."""

    def __init__(self, clients, server, share, files):
        self.clients, self.server, self.share, self.files = clients, server, share, files
        self.number = 0

    def __call__(self):
        self.number += 1
        name = f"walk-{self.number}"
        with filled(self.server.share_path(self.share) / name, self.files):
            return self.clients.run(walk(name, self.files), self.server, self.share, 60)


@contextlib.contextmanager
def filled(folder, files, in_each=IN_EACH):
    """A folder that is there meanwhile."""
    try:
        fill(folder, files, in_each)
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
