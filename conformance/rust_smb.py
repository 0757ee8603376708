"""The Rust clients smb and smb2; their checks are in rust-smb/src."""

from conformance import packages
from conformance.server import Wanted, serving

NAME = "rust-smb"
SECONDS = 300


def run(kind, report, options):
    program = packages.rust_program("rust-smb", "rust-smb")
    # smb2 seals only where the server insists on it, so everything runs once more against such a server.
    for suite, sealing in ((NAME, "enabled"), (f"{NAME}, sealed", "required")):
        with serving(kind, Wanted(windows_like=True, on_tmpfs=True, sealing=sealing)) as server:
            report.absorb(suite, [program], SECONDS, env=server.environment())
            report.server_is_well(suite, server)
