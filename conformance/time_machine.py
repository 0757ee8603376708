"""What a Mac does with a share for Time Machine, as Apple's client does it and its "Time Machine over SMB Specification" asks for; the checks, made with
smbprotocol, are in time_machine_checks.py."""

import functools

from conformance import packages
from conformance.py_smbprotocol import REQUIREMENTS
from conformance.report import Skip, expect
from conformance.server import Wanted, serving

NAME = "time-machine"
SECONDS = 300
SIZE_GIB = 2


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers are told of such shares in other ways")
    python = packages.python_with(*REQUIREMENTS)
    backups = functools.partial(kind, share_options=("--time-machine", f"{SIZE_GIB}G"))
    with serving(backups, Wanted(on_tmpfs=True)) as server:
        report.absorb(NAME, [python, "-m", "conformance.time_machine_checks"], SECONDS,
                      env={**server.environment(), "SMB_SIZE_GIB": str(SIZE_GIB)}, cwd=packages.ROOT)
        with report.check(NAME, "names on the disk are those that the guide says"):
            names = {entry.name for entry in server.share_path().iterdir()}
            expect('why\uf025 a"b' in names, f"{names}")
        with report.check(NAME, "`share update --time-machine off` is seen by who asks next"):
            server._run("share", "update", server.share, "--time-machine", "off")
            shown = server._run("share", "show", server.share, "--json")
            expect('"time_machine": false' in shown and f'"quota_gib": {SIZE_GIB}' in shown, shown)
        report.server_is_well(NAME, server)
