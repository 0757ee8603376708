"""Who gets the processor first. Attackers and bystanders have machines of their own: here attackers must not take the processor from the
server, and the bystander, which needs little, must not wait for it while the server has much to do, as if that were the server's answer."""

import contextlib
import os
from pathlib import Path

NICENESS = 10
# Linux shares the processor out to sessions (setsid(2)) before it does to processes, each with a niceness of its own (sched(7)).
OF_THE_SESSION = Path("/proc/self/autogroup")


def come_behind():
    """Puts this process, and those that it starts, behind all that are not."""
    _come(NICENESS)


def come_first():
    """Puts this process before all others. Who may not do that stays where it is."""
    with contextlib.suppress(PermissionError):
        _come(-NICENESS)


def _come(niceness):
    os.setsid()
    os.nice(niceness)
    if OF_THE_SESSION.exists():
        OF_THE_SESSION.write_text(str(niceness), encoding="ascii")
