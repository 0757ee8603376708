"""smbprotocol from PyPI, an independent client in Python; its checks are in smbprotocol_checks.py."""

from conformance import packages
from conformance.server import Wanted, serving

NAME = "smbprotocol"
# cryptography is what smbprotocol itself uses; hostile.py seals with it.
REQUIREMENTS = ("smbprotocol==1.17.0", "cryptography==50.0.2")
SECONDS = 300


def run(kind, report, options):
    python = packages.python_with(*REQUIREMENTS)
    with serving(kind, Wanted(windows_like=True, on_tmpfs=True)) as server:
        report.absorb(NAME, [python, "-m", "conformance.smbprotocol_checks"], SECONDS,
                      env=server.environment(), cwd=packages.ROOT)
        report.server_is_well(NAME, server)
