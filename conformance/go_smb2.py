"""cloudsoda/go-smb2, an independent client in Go; its checks are in go-smb2/checks."""

from conformance import packages, tree
from conformance.server import Wanted, serving

NAME = "go-smb2"
SECONDS = 300


def run(kind, report, options):
    program = packages.go_program("go-smb2", "checks")
    with serving(kind, Wanted(windows_like=True, on_tmpfs=True)) as server:
        report.absorb(NAME, [program], SECONDS, env=dict(server.environment(), SMB_TREE=str(tree.generated())))
        report.server_is_well(NAME, server)
