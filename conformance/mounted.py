"""The Linux kernel's client in a guest, which has a share mounted while others work in it, and tells what it sees there when it is asked.

Whoever asks puts a file into the share that names a folder; the guest takes it away once it has listed that.
"""

import contextlib
import hashlib
import re
import shlex
import subprocess
import time

from conformance import guest, packages, uml
from conformance.report import Failure, ended, expect

ASKED, END = "asked of the mount", "the end of the mount"
BOOT_SECONDS, LISTING_SECONDS = 180, 600
SCRIPT = f"""
mkdir -p /mnt
mount.cifs "//$server/$share" /mnt -o "port=$port,username=$user,password=$password,vers=3.1.1,iocharset=utf8,actimeo=1" && echo "it is mounted"
while [ ! -e "/mnt/{END}" ]; do
  if [ -e "/mnt/{ASKED}" ]; then
    (cd "/mnt/$(cat "/mnt/{ASKED}")" && find . -type d | sed 's/^/folder /' && find . -type f -exec sha256sum {{}} + | sed 's/^/file /')
    rm "/mnt/{ASKED}"
    echo "that is all"
  fi
  usleep 200000
done
rm "/mnt/{END}"
umount /mnt && echo "it is unmounted"
"""


@contextlib.contextmanager
def mounted(server, card):
    """The mount, by this card of the guest's or, with none, by loopback."""
    with Mounted(server, card) as mount:
        mount.begin()
        yield mount
        mount.finish()


def sums_of(folder):
    """What a mount is to see there: each file's sum, and nothing of a folder but its name."""
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {place: "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest() for place, path in paths.items()}


class Mounted:
    """The mount."""

    def __init__(self, server, card):
        self.server, self.folder = server, server.share_path()
        self.said = server.folder / "mounted.log"
        address = card.host if card else guest.GATEWAY
        variables = {"server": address, "port": server.port, "share": server.share, "user": server.user, "password": server.password}
        script = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items()) + SCRIPT
        command = uml.command(script, server.folder, card) if card else guest.command(script, server.folder)
        self.output = open(self.said, "wb")
        self.process = subprocess.Popen(command, cwd=packages.CACHE, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ended(self.process)
        self.output.close()

    def begin(self):
        """Waits until the share is mounted."""
        self._wait_for("it is mounted", BOOT_SECONDS)

    def seen(self, name):
        """What is below this folder of the share, as `sums_of` tells it."""
        before = self.said.stat().st_size
        (self.folder / ASKED).write_text(name)
        self._wait_for("that is all", LISTING_SECONDS, before)
        told = self._told(before)
        found = re.findall(r"^(?:folder |file ([0-9a-f]{64})  )\./(.+)$", told, re.MULTILINE)
        return {place: digest for digest, place in found}

    def expect_same(self, source, name):
        """Fails the running check unless this folder of the share has what the source has, byte for byte."""
        wanted, seen = sums_of(source), self.seen(name)
        expect(wanted.keys() == seen.keys(), f"of {len(wanted)} places only one has {sorted(wanted.keys() ^ seen.keys())[:8]}")
        expect(wanted == seen, f"others are {[place for place in wanted if wanted[place] != seen[place]][:8]}")

    def finish(self):
        """Has the share unmounted."""
        (self.folder / END).write_text("")
        self._wait_for("it is unmounted", BOOT_SECONDS)

    def _told(self, since=0):
        return self.said.read_bytes()[since:].decode(errors="replace").replace("\r\n", "\n")

    def _wait_for(self, text, seconds, since=0):
        until = time.monotonic() + seconds
        while text not in self._told(since):
            if self.process.poll() is not None or time.monotonic() > until:
                raise Failure(f"the guest does not say that {text}: {self._told(since)[-2000:]}")
            time.sleep(0.1)
