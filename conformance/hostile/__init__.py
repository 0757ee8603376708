"""Bad input, sent on purpose: each case names what it does and how the server must take it.

The cases run in a process of their own (conformance.hostile.cases), because they need PyPI packages to log in and seal.
"""

import os

from conformance import packages
from conformance.py_smbprotocol import REQUIREMENTS
from conformance.server import Wanted, serving

NAME = "hostile"
SECONDS = 600
# Of data that the server may have: what peers may have it hold is not half of what two users may where there is enough.
LITTLE_MEMORY = 256 << 20
OUTSIDE_TEXT = "outside of the share"


def run(kind, report, options):
    python = packages.python_with(*REQUIREMENTS)
    with serving(kind, Wanted(windows_like=True, on_tmpfs=True)) as server:
        plant_escapes(server)
        report.absorb(NAME, [python, "-m", "conformance.hostile.cases"], SECONDS,
                      env=dict(server.environment(), SMB_PID=str(server.pid)), cwd=packages.ROOT)
        report.server_is_well(NAME, server)
    if kind.kind == "multilane":
        with serving(with_memory(kind, LITTLE_MEMORY), Wanted(ram_shares=("ram",))) as server:
            environment = dict(server.environment(), SMB_SHARE="ram", SMB_SECOND_USER=server.second_user)
            report.absorb(NAME, [python, "-m", "conformance.hostile.little_memory"], SECONDS, env=environment, cwd=packages.ROOT)
            report.server_is_well(NAME, server)


def with_memory(kind, limit):
    """This kind of server with so many bytes for its data."""
    class Limited(kind):
        def command(self):
            return ["prlimit", f"--data={limit}", "--", *super().command()]

    return Limited


def plant_escapes(server):
    """Symbolic links in the share that lead out of it, for the cases that try to follow them."""
    outside = server.folder / "outside"
    outside.mkdir()
    (outside / "secret").write_text(OUTSIDE_TEXT)
    share = server.share_path()
    os.symlink(outside, share / "link-to-folder")
    os.symlink(outside / "secret", share / "link-to-file")
    os.symlink("../../outside", share / "relative-link")
