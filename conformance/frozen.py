"""One share's disk hangs: what its clients asked for waits and is done after all, and everybody else is served meanwhile, by a server
that is started then, too."""

import json
import subprocess

from conformance import packages
from conformance.loop_disk import DiskOnDevice, LoopDisk, ran
from conformance.py_smbprotocol import REQUIREMENTS
from conformance.server import Wanted, processes_with, serving

NAME = "frozen"
SHARE, FROZEN, MEMORY = "conf", "frozen", "memory"
SECONDS = 180


def run(kind, report, options):
    python = packages.python_with(*REQUIREMENTS)
    hangs(with_disk(kind, FROZEN), "conformance.frozen_checks", report, python)
    if kind.kind == "multilane":
        hangs(with_disk(kind, FROZEN, DiskOnDevice), "conformance.frozen_device_checks", report, python)
        hangs(with_memory_below(with_disk(kind, FROZEN)), "conformance.frozen_memory_checks", report, python, (MEMORY,))
        start_and_end(kind, report, python)
        data_hangs(kind, report, python)


def hangs(kind, checks, report, python, more=()):
    with serving(kind, Wanted(shares=(SHARE, FROZEN, *more))) as server:
        disk = server.disk
        environment = dict(server.environment(), FROZEN_FOLDER=str(disk.folder), DEVICE_FOLDER=str(disk.image.parent))
        if kind.kind == "multilane":
            environment.update(MULTILANE=str(server.program), MULTILANE_DATA=server._data())
        try:
            report.absorb(NAME, [python, "-m", checks], SECONDS, env=environment, cwd=packages.ROOT)
        finally:
            # However it ended, nothing waits for the disk any more.
            server.unmount()
        report.server_is_well(NAME, server)


def start_and_end(kind, report, python):
    """Servers that are started, told and ended while the disk hangs: the first is ended by the checks, and so are those after it."""
    class Replaced(with_disk(kind, FROZEN)):
        def strays(self):
            return [*super().strays(), *processes_with(str(self.folder / "data"))]

    with serving(Replaced, Wanted(shares=(SHARE, FROZEN), continuous=True)) as server:
        environment = dict(server.environment(), FROZEN_FOLDER=str(server.share_path(FROZEN)), SERVER_PID=str(server.pid),
                           SERVER_COMMAND=json.dumps(server.command()), SERVER_DATA=server._data(), SERVER_LOG=str(server.log))
        try:
            report.absorb(NAME, [python, "-m", "conformance.frozen_start_checks"], SECONDS, env=environment, cwd=packages.ROOT)
        finally:
            server.unmount()


def data_hangs(kind, report, python):
    """The disk of the data folder hangs, and that of no share. The server is ended by the checks, and so are those after it."""
    class OnDisk(kind):
        disk = None

        def prepare(self):
            self.disk = LoopDisk(self.folder / "data-disk", self.folder / "disk").mount()
            super().prepare()

        def _data(self):
            return str(self.folder / "data-disk" / "data")

        def strays(self):
            return [*super().strays(), *processes_with(self._data())]

        def unmount(self):
            if self.disk:
                self.disk.unmount()

    with serving(OnDisk, Wanted(shares=(SHARE, FROZEN), continuous=True)) as server:
        environment = dict(server.environment(), FROZEN_FOLDER=str(server.disk.folder), SERVER_PID=str(server.pid), SERVER_DATA=server._data(),
                           OTHER_DATA=str(server.folder / "other-data"), SERVER_COMMAND=json.dumps(server.command()), SERVER_LOG=str(server.log))
        try:
            report.absorb(NAME, [python, "-m", "conformance.frozen_data_checks"], SECONDS, env=environment, cwd=packages.ROOT)
        finally:
            server.unmount()


def with_disk(kind, share, disk=LoopDisk):
    """This kind of server with one share on a file system of its own."""
    class WithDisk(kind):
        disk = None

        def prepare(self):
            self.disk = disk(self.share_path(share), self.folder / "disk")
            self.disk.mount()
            super().prepare()

        def unmount(self):
            if self.disk:
                self.disk.unmount()
    return WithDisk


def with_memory_below(kind):
    """This kind of server with a share in memory that is mounted in the folder of the one on the disk, too."""
    class WithMemoryBelow(kind):
        def prepare(self):
            ran("mount", "-t", "tmpfs", "-o", "mode=777", "none", str(self.share_path(MEMORY)))
            super().prepare()
            self._below().mkdir()
            ran("mount", "--bind", str(self.share_path(MEMORY)), str(self._below()))

        def _below(self):
            return self.share_path(FROZEN) / MEMORY

        def unmount(self):
            for folder in (self._below(), self.share_path(MEMORY)):
                subprocess.run(["umount", "--lazy", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            super().unmount()
    return WithMemoryBelow
