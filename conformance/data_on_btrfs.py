"""A server of ours whose data folder is a btrfs file system of its own, on which shares have snapshots. Needs root and loop devices."""

import subprocess

from conformance import packages
from conformance.loop_disk import LoopDisk

SIZE_MIB = 4096


class DataOnBtrfs:
    """Goes before the kind of server."""

    disk = None

    def prepare(self):
        packages.need("btrfs")
        self.disk = LoopDisk(self.folder / "data", self.folder / "image", SIZE_MIB, "btrfs").mount()
        self.disk.folder.chmod(0o700)
        self.mounted()
        super().prepare()

    def mounted(self):
        """Called once the file system is there, before anything is in it."""

    def unmount(self):
        super().unmount()
        if self.disk:
            self.disk.unmount()

    def subvolumes(self):
        """The subvolumes that there are, by their paths."""
        told = subprocess.run([packages.find("btrfs"), "subvolume", "list", str(self.disk.folder)], capture_output=True, text=True, check=True)
        return [line.split(" path ", 1)[1] for line in told.stdout.splitlines()]
