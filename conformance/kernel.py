"""The Linux kernel's own client, cifs.ko, mounting the share in a QEMU guest; its checks are in kernel-guest/checks.sh."""

import shlex

from conformance import guest, packages
from conformance.server import Wanted, serving

NAME = "kernel"
SECONDS = 900


def run(kind, report, options):
    with serving(kind, Wanted(windows_like=True, on_tmpfs=True)) as server:
        variables = {"server": guest.GATEWAY, "port": server.port, "share": server.share, "user": server.user,
                     "password": server.password}
        script = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items())
        script += (guest.FILES / "checks.sh").read_text()
        failures = report.count("fail")
        said = report.absorb(NAME, guest.command(script, server.folder), SECONDS, cwd=packages.CACHE, ending=guest.ENDING)
        if report.count("fail") > failures:
            report.note(f"What the guest printed:\n{said}")
        report.server_is_well(NAME, server)
