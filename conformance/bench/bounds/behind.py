"""What others cost is not measured: an attacker has a machine of its own, here it must not take the processor from the server or the bystander."""

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
