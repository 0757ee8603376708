"""Holds one thread of a program, as a fault in it would: `python3 -m conformance.held THREAD` says "held", and lets it go when its input ends.

The thread is stopped as a debugger stops it (ptrace); the program's other threads go on, and whoever ends the program ends this one, too.
"""

import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import threading

from conformance import packages
from conformance.report import Skip, expect

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
# waitpid(2): also for threads that are no first ones of a process.
WALL = 0x40000000


def threads(pid, name):
    """The ids of a process' threads of this name."""
    found = []
    for place in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            if (place / "comm").read_text().strip() == name:
                found.append(int(place.name))
    return found


@contextlib.contextmanager
def held(thread, within=()):
    """While it lasts the thread stands. `within` are the words of a command that runs another where the thread has that id."""
    if os.geteuid() != 0:
        raise Skip("holding a thread of a server that leaves no core dumps needs root")
    words = [*within, sys.executable, "-m", "conformance.held", str(thread)]
    with subprocess.Popen(words, cwd=packages.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            expect(holder.stdout.readline() == "held\n", f"thread {thread} cannot be held")
            yield
        finally:
            holder.stdin.close()
            holder.wait()


def main():
    thread = int(sys.argv[1])
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        if library.ptrace(request, thread, None, None) != 0:
            sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}")
    os.waitpid(thread, WALL)
    # Where the program ends, nobody hears of that before its tracer has.
    threading.Thread(target=os.waitpid, args=(thread, WALL), daemon=True).start()
    print("held", flush=True)
    sys.stdin.read()
    library.ptrace(PTRACE_DETACH, thread, None, None)


if __name__ == "__main__":
    main()
