"""A real Ceph on this machine: one daemon of each kind, whose objects are kept in memory, and CephFS mounted with ceph-fuse. Needs root and /dev/fuse."""

import os
import subprocess
import time
import uuid

from conformance import packages
from conformance.report import Skip
from conformance.server import HOST, free_port

COMMANDS = ("ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "ceph-fuse", "ceph", "ceph-authtool", "monmaptool")
READY_SECONDS, COMMAND_SECONDS, END_SECONDS = 60, 30, 10
# Nobody but this machine can reach the daemons, so they ask nobody who he is.
CONFIGURATION = """\
[global]
fsid = {cluster}
mon host = [v2:{host}:{port},v1:{host}:{old_port}]
mon initial members = a
public network = 127.0.0.0/8
auth cluster required = none
auth service required = none
auth client required = none
keyring = {folder}/keyring
run dir = {folder}/run
admin socket = {folder}/run/$name.$pid
log file = {folder}/log/$name
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd objectstore = memstore
memstore device bytes = 4294967296
mds cache memory limit = 1073741824

[mon.a]
mon data = {folder}/mon

[mgr.a]
mgr data = {folder}/mgr

[osd.0]
osd data = {folder}/osd

[mds.a]
mds data = {folder}/mds
"""


class Ceph:
    """A cluster whose files lie below `folder`."""

    def __init__(self, folder):
        self.folder = folder
        self.configuration = folder / "ceph.conf"
        self.daemons = []
        self.mounts = []

    def start(self):
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            raise Skip("CephFS needs root and /dev/fuse")
        packages.need(*COMMANDS)
        for name in ("mon", "mgr", "osd", "mds", "run", "log"):
            (self.folder / name).mkdir(parents=True)
        cluster, port, old_port = uuid.uuid4(), free_port(), free_port()
        self.configuration.write_text(CONFIGURATION.format(cluster=cluster, host=HOST, port=port, old_port=old_port, folder=self.folder))
        self._make_keys()
        self._start_monitor(cluster, port, old_port)
        self._daemon("mgr", "a")
        self._start_store()
        self._daemon("mds", "a")
        for words in (("osd", "pool", "create", "metadata", "8"), ("osd", "pool", "create", "data", "8"), ("fs", "new", "files", "metadata", "data")):
            self._ask(*words)
        until(lambda: "up:active" in self._ask("mds", "stat"), "the metadata server is not active")
        return self

    def mount(self, at):
        """Mounts the whole file system there, as one client of the cluster."""
        at.mkdir(parents=True, exist_ok=True)
        client = self._process("fuse", "ceph-fuse", "-f", "-n", "client.admin", str(at))
        self.mounts.append((at, client))
        until(lambda: os.path.ismount(at), f"{at} is not mounted", client)

    def stop(self):
        """Unmounts, and ends what was started, whatever state it is in."""
        for at, client in reversed(self.mounts):
            subprocess.run(["umount", "--lazy", str(at)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            ended(client)
        for daemon in reversed(self.daemons):
            ended(daemon)
        self.mounts, self.daemons = [], []

    # How it comes up.

    def _make_keys(self):
        keyring = str(self.folder / "keyring")
        allowed = [word for kind in ("mon", "osd", "mds", "mgr") for word in ("--cap", kind, "allow *")]
        ran("ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        ran("ceph-authtool", keyring, "--gen-key", "-n", "client.admin", *allowed)

    def _start_monitor(self, cluster, port, old_port):
        monitors = str(self.folder / "monitors")
        ran("monmaptool", "--create", "--fsid", str(cluster), "--addv", "a", f"[v2:{HOST}:{port},v1:{HOST}:{old_port}]", monitors)
        self._once("ceph-mon", "-i", "a", "--mkfs", "--monmap", monitors)
        self._daemon("mon", "a")
        until(lambda: self._ask("status"), "the monitor does not answer")

    def _start_store(self):
        store = str(uuid.uuid4())
        self._ask("osd", "new", store, "0")
        self._once("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", store)
        self._daemon("osd", "0")

    def _daemon(self, kind, name):
        self.daemons.append(self._process(kind, f"ceph-{kind}", "-i", name, "-f"))

    def _process(self, log, program, *words):
        with open(self.folder / "log" / f"{log}.out", "ab") as out:
            return subprocess.Popen([program, "-c", str(self.configuration), *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    def _once(self, program, *words):
        ran(program, "-c", str(self.configuration), *words)

    def _ask(self, *words):
        return ran("ceph", "-c", str(self.configuration), "--connect-timeout", "10", *words)


def ran(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def until(is_so, otherwise, process=None):
    """Waits until it is so; `process` must not end before."""
    deadline = time.monotonic() + READY_SECONDS
    while not so(is_so):
        if time.monotonic() > deadline or (process and process.poll() is not None):
            raise RuntimeError(f"{otherwise} after {READY_SECONDS} s" if not process else f"{otherwise}, exit {process.poll()}")
        time.sleep(0.2)


def so(is_so):
    try:
        return is_so()
    except (RuntimeError, subprocess.TimeoutExpired):
        return False


def ended(process):
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
