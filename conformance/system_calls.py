"""The system calls that a process makes, as strace counts them. Needs root, or a process of one's own."""

import contextlib
import pathlib
import signal
import subprocess
import tempfile
import time

from conformance import packages
from conformance.report import Failure

# Of those that lead to a file system; what is left out are clocks, sockets, memory, and threads that wait for each other.
FILE_CALLS = (
    "statx", "fstat", "newfstatat", "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "setxattr", "lsetxattr", "fsetxattr",
    "removexattr", "fremovexattr", "open", "openat", "openat2", "close", "getdents64", "lseek", "readlink", "readlinkat", "access", "faccessat",
    "faccessat2", "mkdirat", "unlinkat", "renameat", "renameat2", "linkat", "fchmod", "fchmodat", "utimensat", "ftruncate", "fallocate", "fcntl", "statfs",
    "fstatfs", "inotify_add_watch", "inotify_rm_watch",
)
ATTACH_SECONDS, END_SECONDS = 10, 20


class Counter:
    """Counts from its first call to its second; `found` has how often each call was made meanwhile."""

    def __init__(self, pid):
        self.pid = pid
        self.folder = tempfile.TemporaryDirectory(prefix="conformance-strace-")
        self.table = pathlib.Path(self.folder.name) / "table"
        self.strace = None
        self.found = {}

    def __enter__(self):
        packages.need("strace")
        return self

    def __call__(self):
        if self.strace is None:
            self._begin()
        else:
            self._end()

    def __exit__(self, *_):
        if self.strace and self.strace.poll() is None:
            self.strace.kill()
            self.strace.wait()
        self.folder.cleanup()

    def _begin(self):
        self.strace = subprocess.Popen(["strace", "-f", "-c", "-o", str(self.table), "-p", str(self.pid)],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + ATTACH_SECONDS
        while not all(traced(thread) for thread in pathlib.Path(f"/proc/{self.pid}/task").iterdir()):
            if time.monotonic() > deadline or self.strace.poll() is not None:
                raise Failure("strace does not attach to the server")
            time.sleep(0.01)

    def _end(self):
        self.strace.send_signal(signal.SIGINT)
        self.strace.wait(END_SECONDS)
        self.found = read(self.table.read_text())


def traced(thread):
    with contextlib.suppress(OSError):
        return "\nTracerPid:\t0\n" not in (thread / "status").read_text()
    return True  # it has ended meanwhile


def read(table):
    """The counts of a table of `strace -c`, each with the name of its call."""
    rows = [line.split() for line in table.splitlines()]
    return {row[-1]: int(row[3]) for row in rows if len(row) in (5, 6) and row[3].isdigit() and row[-1] != "total"}
