"""Bad input, sent on purpose: each case names what it does and how the server must take it.

The cases run in a process of their own (conformance.hostile.cases), because they need PyPI packages to log in and seal.
"""

import os

from conformance import packages
from conformance.py_smbprotocol import REQUIREMENTS
from conformance.server import Wanted, serving

NAME = "hostile"
SECONDS = 600
OUTSIDE_TEXT = "outside of the share"


def run(kind, report, options):
    python = packages.python_with(*REQUIREMENTS)
    with serving(kind, Wanted(windows_like=True, on_tmpfs=True)) as server:
        plant_escapes(server)
        report.absorb(NAME, [python, "-m", "conformance.hostile.cases"], SECONDS,
                      env=dict(server.environment(), SMB_PID=str(server.pid)), cwd=packages.ROOT)
        report.server_is_well(NAME, server)


def plant_escapes(server):
    """Symbolic links in the share that lead out of it, for the cases that try to follow them."""
    outside = server.folder / "outside"
    outside.mkdir()
    (outside / "secret").write_text(OUTSIDE_TEXT)
    share = server.share_path()
    os.symlink(outside, share / "link-to-folder")
    os.symlink(outside / "secret", share / "link-to-file")
    os.symlink("../../outside", share / "relative-link")
