"""A server that announces itself, as Avahi tells those who look: with a bus, a responder and a network of their own; the checks are in announced_checks.py."""

import os
import sys

from conformance import packages
from conformance.report import Skip

NAME = "announced"
SECONDS = 240


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers are announced in other ways")
    if os.geteuid() != 0:
        raise Skip("makes a network of its own, as root alone may")
    packages.need("avahi-daemon", "avahi-browse", "dbus-daemon", "ip", "unshare")
    inside = ["unshare", "--net", "--mount", "--fork", "--kill-child", sys.executable, "-m", "conformance.announced_checks"]
    report.absorb(NAME, inside, SECONDS, cwd=packages.ROOT)
