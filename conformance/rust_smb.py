"""The Rust clients smb and smb2; their checks are in rust-smb/src."""

from conformance import packages
from conformance.server import Wanted, serving

NAME = "rust-smb"
SECONDS = 300


def run(kind, report, options):
    program = packages.rust_program("rust-smb", "rust-smb")
    with serving(kind, Wanted(windows_like=True, on_tmpfs=True)) as server:
        report.absorb(NAME, [program, "smb", "smb2"], SECONDS, env=server.environment())
        report.server_is_well(NAME, server)
    # smb seals when it is told to, smb2 only where the share insists on it.
    with serving(kind, Wanted(windows_like=True, on_tmpfs=True, sealed_shares=True)) as server:
        sealed = f"{NAME}, sealed share"
        report.absorb(sealed, [program, "smb2"], SECONDS, env=server.environment())
        report.server_is_well(sealed, server)
