"""A small Debian with systemd as its first process, in namespaces of its own: what a package does on a machine, without a machine. Needs root."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from conformance import packages
from conformance.report import Failure, Skip, until

# What a minimal system with systemd has, and what the package works with where it is there.
INCLUDED = ("systemd", "systemd-sysv", "logrotate")
BOOT_SECONDS, RUN_SECONDS = 120, 120
# Run in the new namespaces, with the root folder as $1: mounts what systemd expects, and becomes it.
FIRST = """
cd "$1"
mount --bind . . && cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    : > dev/$device
    mount --bind /dev/$device dev/$device
done
mkdir dev/pts dev/shm .outside
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
ip link set lo up
pivot_root . .outside
umount -l /.outside
rmdir /.outside
exec env -i container=conformance PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target
"""


class Debian:
    """The system, from its boot to its end. `folder` is its root."""

    def __init__(self):
        if os.geteuid() != 0:
            raise Skip("a system of its own needs root")
        packages.need("mmdebstrap", "unshare", "nsenter", "ip", "tar")
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="conformance-debian-"))
        self.folder = self.scratch / "root"
        self.groups = None
        self.process = None

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            undo.callback(self.end)
            self.folder.mkdir()
            subprocess.run(["tar", "-xf", str(base()), "-C", str(self.folder)], check=True)
            self.groups = groups() / f"conformance-{os.getpid()}"
            self.groups.mkdir()
            self.boot()
            undo.pop_all()
        return self

    def __exit__(self, *_):
        self.end()

    def boot(self):
        # Its group of processes is the root of what it sees, so it goes there first.
        enter = f'echo $$ > {self.groups}/cgroup.procs && exec unshare "$@"'
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--fork", "--kill-child", "--propagation", "private")
        self.process = subprocess.Popen(["sh", "-c", enter, "sh", *spaces, "sh", "-ec", FIRST, "sh", str(self.folder)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        until(self.is_up, "the system does not come up", BOOT_SECONDS)

    def is_up(self):
        if self.process.poll() is not None:
            raise Failure("the system ended before it was up")
        # "degraded" is up, too: a namespace has not all of what a machine has.
        return self.first() and self.tried("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")

    def first(self):
        """The first process of the system, as numbered here; none before it is there."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with contextlib.suppress(OSError, IndexError):
            return children.read_text().split()[0]

    def inside(self, *words):
        return ["nsenter", "--target", self.first(), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd=/", "--", *words]

    def within_network(self, *words):
        """A program of this machine's that is in the system's network."""
        return ["nsenter", f"--net=/proc/{self.first()}/ns/net", "--", *words]

    def within_processes(self):
        """Before a program of this machine's: it sees the system's processes by the ids that they have there."""
        return ["nsenter", f"--pid=/proc/{self.first()}/ns/pid", "--"]

    def tried(self, *words, text=None):
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "HOME": "/root"}
        return subprocess.run(self.inside(*words), input=text, stdin=None if text else subprocess.DEVNULL, capture_output=True, text=True,
                              env=environment, timeout=RUN_SECONDS)

    def run(self, *words, text=None):
        """Runs a program there as root, and gives what it prints."""
        done = self.tried(*words, text=text)
        if done.returncode != 0:
            raise Failure(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def end(self):
        if self.process:
            # The namespaces end with their first process, and that with who waits for it, which takes no other signal.
            self.process.kill()
            self.process.wait()
        if self.groups and self.groups.exists():
            until(self.is_left, f"{self.groups} is still in use", RUN_SECONDS)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def is_left(self):
        """True once nobody is in its groups of processes, which are gone then."""
        for folder, _, _ in os.walk(self.groups, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        return not self.groups.exists()


def groups():
    """Where the machine's groups of processes are, by cgroup's second version."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, place, kind = line.split()[:3]
        if kind == "cgroup2":
            return pathlib.Path(place)
    raise Skip("no groups of processes (cgroup2) are mounted")


def base():
    """An archive of the system, made once: this machine's release of Debian, which the built program is for."""
    release = packages.os_release().get("VERSION_CODENAME")
    if packages.os_release().get("ID") != "debian" or not release:
        raise Skip("needs Debian, to make another of the same release")
    archive = packages.cache("debian") / f"{release}-{'-'.join(INCLUDED)}.tar"
    if not archive.exists():
        part = archive.with_suffix(".part.tar")
        packages.build(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(INCLUDED)}", release, str(part)], packages.ROOT)
        part.rename(archive)
    return archive
