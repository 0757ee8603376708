"""Who gets the processor first. Attackers and others have machines of their own: here attackers must not take the processor from the
server, and bystander and newcomer, which need little, must not wait for it while the server has much to do, as if that were the server's
answer."""

import contextlib
import os
from pathlib import Path

NICENESS = 10
# Linux shares the processor out to sessions (setsid(2)) before it does to processes, each with a niceness of its own (sched(7)).
OF_THE_SESSION = Path("/proc/self/autogroup")


def come_behind():
    """Puts this process, and those that it starts, behind all that are not."""
    os.setsid()
    os.nice(NICENESS)
    if OF_THE_SESSION.exists():
        OF_THE_SESSION.write_text(str(NICENESS), encoding="ascii")


def come_first():
    """Puts this process before all others. Who may not do that stays where it is.

    A niceness does not do: a session that comes to another processor waits there now and then for 90 ms, whatever it has (Linux 6.18).
    """
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
