"""Kill -9 of the server while the kernel's client copies to a continuously available share: after a restart the copy goes on.

A relay stands between them, and keeps quiet until the server is there again. Without it the client hears at once that the connection
is reset, and Linux 6.1 fails the requests that it is sending at that moment instead of sending them again (ECONNABORTED).
"""

import hashlib
import os
import shlex
import signal
import threading
import time

from conformance import guest, packages
from conformance.relay import Cutter
from conformance.report import Skip, expect
from conformance.server import Wanted, serving

NAME = "restart"
SECONDS = 240
COPY_MIB = 96
# How much of the copy has arrived when the server is killed.
KILL_AT_BYTES = 16 << 20
ARRIVES_SECONDS = 120
DOWN_SECONDS = 2
SCRIPT = """
mkdir -p /mnt
fail() { echo "not ok $1 - $(tail -n 3 /tmp/said | tr '\\n' '|')"; dmesg | tail -n 20; }
mount.cifs "//$server/$share" /mnt -o "port=$port,username=$user,password=$password,vers=3.1.1,nosharesock" > /tmp/said 2>&1 \
  && echo "ok mount a continuously available share" || fail "mount a continuously available share"
dd if=/dev/urandom of=/tmp/source bs=1M count=$mib 2> /dev/null
dd if=/tmp/source of=/mnt/copy bs=1M conv=fsync > /tmp/said 2>&1 \
  && echo "ok a copy goes on after the server was killed and started again" || fail "a copy goes on after the server was killed and started again"
echo 3 > /proc/sys/vm/drop_caches
cmp /tmp/source /mnt/copy > /tmp/said 2>&1 && echo "ok the copy reads back as it was" || fail "the copy reads back as it was"
echo "sum $(sha256sum < /tmp/source | cut -d ' ' -f 1)"
umount /mnt > /tmp/said 2>&1 && echo "ok unmount" || fail "unmount"
"""


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("only our server keeps its clients' handles when it is killed")
    with serving(kind, Wanted(windows_like=True, on_tmpfs=True, continuous=True)) as server, Cutter(server, 0) as relay:
        variables = {"server": guest.GATEWAY, "port": relay.port, "share": server.share, "user": server.user,
                     "password": server.password, "mib": COPY_MIB}
        script = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items()) + SCRIPT
        killer = Killer(server, relay)
        killer.start()
        said = report.absorb(NAME, guest.command(script, server.folder), SECONDS, cwd=packages.CACHE, ending=guest.ENDING)
        killer.join()
        with report.check(NAME, "the server was killed in the middle of the copy, with the handle on record"):
            expect(killer.killed_at is not None, killer.trouble or "the copy never began")
            expect(killer.killed_at < COPY_MIB << 20, "the copy was whole already")
            expect(killer.records > 0, "no persistent handle was on record")
            report.note(f"restart: killed at {killer.killed_at >> 20} of {COPY_MIB} MiB, {killer.records} handles on record")
        with report.check(NAME, "the file on the server's disk is the copy"):
            copied = hashlib.sha256((server.share_path() / "copy").read_bytes()).hexdigest()
            expect(f"sum {copied}" in said, f"its sum is {copied}\n{said}")
        report.server_is_well(NAME, server)


class Killer(threading.Thread):
    """Waits for a part of the copy, kills the server and starts it again."""

    def __init__(self, server, relay):
        super().__init__(daemon=True)
        self.server, self.relay = server, relay
        self.killed_at, self.records, self.trouble = None, 0, None

    def run(self):
        copy = self.server.share_path() / "copy"
        until = time.monotonic() + ARRIVES_SECONDS
        while time.monotonic() < until:
            if copy.exists() and copy.stat().st_blocks * 512 >= KILL_AT_BYTES:
                return self._kill(copy)
            time.sleep(0.005)

    def _kill(self, copy):
        self.relay.hold()
        os.kill(self.server.pid, signal.SIGKILL)
        self.server.process.wait()
        self.killed_at = copy.stat().st_blocks * 512
        self.records = sum(path.is_file() for path in (self.server.folder / "data" / "opens").rglob("*"))
        time.sleep(DOWN_SECONDS)
        try:
            self.server.start()
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
        finally:
            self.relay.release()
