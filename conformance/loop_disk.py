"""A small file system in a file, mounted for a share, that hangs or loses its power as a disk does. Needs root and loop devices."""

import contextlib
import fcntl
import os
import struct
import subprocess
import time

from conformance import packages
from conformance.report import Skip

SIZE_MIB = 512
# Programs that make one, with the words that have them say nothing and ask nothing.
MAKERS = {"ext4": ("mkfs.ext4", "-q", "-F"), "btrfs": ("mkfs.btrfs", "-q", "-f")}
# How they are mounted. What is deleted on btrfs gives its space back once all is written out: every second, and not every thirty.
OPTIONS = {"ext4": "loop", "btrfs": "loop,commit=1"}
# FS_IOC_SHUTDOWN: nothing more is written, not even the journal that is in memory.
SHUTDOWN, WITHOUT_JOURNAL = 0x8004587D, 2
UNMOUNT_SECONDS = 30


class LoopDisk:
    """The file system at `folder`, kept in the file `image`, which are there already or are made."""

    def __init__(self, folder, image, size_mib=SIZE_MIB, system="ext4"):
        self.folder, self.image, self.size_mib, self.system = folder, image, size_mib, system
        self.is_frozen = False

    def mount(self):
        if os.geteuid() != 0:
            raise Skip("a file system of its own needs root")
        maker, *words = MAKERS[self.system]
        packages.need(maker, "fsfreeze", "mount")
        with open(self.image, "wb") as image:
            image.truncate(self.size_mib << 20)
        ran(packages.find(maker), *words, str(self.image))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._attach()
        self.folder.chmod(0o777)
        return self

    def _attach(self):
        ran("mount", "-o", OPTIONS[self.system], str(self.image), str(self.folder))

    def freeze(self):
        ran(packages.find("fsfreeze"), "--freeze", str(self.folder))
        self.is_frozen = True

    def thaw(self):
        self.is_frozen = False
        ran(packages.find("fsfreeze"), "--unfreeze", str(self.folder))

    def cut(self):
        """Takes the power away: what has not reached the disk never will."""
        root = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(root, SHUTDOWN, struct.pack("I", WITHOUT_JOURNAL))
        finally:
            os.close(root)

    def remount(self):
        """Gives the power back. Nobody may have a file there any more."""
        until = time.monotonic() + UNMOUNT_SECONDS
        while subprocess.run(["umount", str(self.folder)], capture_output=True).returncode != 0:
            if time.monotonic() > until:
                raise RuntimeError(f"{self.folder} is still in use")
            time.sleep(0.1)
        self._attach()

    def unmount(self):
        """Whatever state it is in; a server that still has files there keeps what it has."""
        for words in ([packages.find("fsfreeze"), "--unfreeze", str(self.folder)], ["umount", "--lazy", str(self.folder)]):
            with contextlib.suppress(OSError):
                subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class DiskOnDevice(LoopDisk):
    """One whose device can hang: its image lies on another file system, which is frozen in its stead. The kernel goes on with it then until it
    needs the device, in the middle of a commit of its journal for one."""

    def __init__(self, folder, image):
        device = image.with_name("device")
        super().__init__(folder, device / "disk", SIZE_MIB // 2)
        self.device = LoopDisk(device, image)

    def mount(self):
        self.device.mount()
        return super().mount()

    def freeze(self):
        self.device.freeze()

    def thaw(self):
        self.device.thaw()

    def unmount(self):
        with contextlib.suppress(Skip):
            self.thaw()
        super().unmount()
        self.device.unmount()


def ran(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip(f"{' '.join(words)}: {done.stderr.strip()}")
