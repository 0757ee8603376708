"""Our server as Azure's own hosts, for published tests that name these: a proxy leads them to it, it has a certificate for their names, accounts of all
kinds, a service principal, and shares on btrfs."""

import contextlib
import json
import subprocess

from conformance import packages
from conformance.data_on_btrfs import DataOnBtrfs
from conformance.relay import as_proxy
from conformance.rest_shares import ACCOUNTS, WithAccounts
from conformance.server import HOST, Wanted, serving

# Who wants blobs is refused, and not left to try again.
HOSTS = ("*.file.core.windows.net", "*.blob.core.windows.net", "login.microsoftonline.com")
TENANT = "00000000-0000-0000-0000-000000000002"


class AsAzure(DataOnBtrfs, WithAccounts):
    def prepare(self):
        super().prepare()
        packages.need("openssl")
        # Whose tests delete shares wants them back.
        self._run("account", "update", ACCOUNTS["STANDARD"][0], "--share-retention", "7")
        self.principal = json.loads(self._run("principal", "create", "tests", "--json"))
        names = ",".join(f"DNS:{name}" for name in HOSTS)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=tests",
                        "-addext", f"subjectAltName={names}", "-keyout", self.key_path(), "-out", self.chain_path()], check=True, capture_output=True)

    def command(self):
        return [*super().command(), "--rest-certificate", str(self.chain_path()), "--rest-key", str(self.key_path())]

    def chain_path(self):
        return self.folder / "chain.pem"

    def key_path(self):
        return self.folder / "key.pem"


@contextlib.contextmanager
def as_azure():
    """The server, and the environment in which a client finds it."""
    with serving(AsAzure, Wanted(shares=("conf", "other"), on_tmpfs=True)) as server, as_proxy(HOST, server.rest_port) as proxy:
        trusted = str(server.chain_path())
        signing_in = {"CLIENT_ID": server.principal["appId"], "CLIENT_SECRET": server.principal["password"], "TENANT_ID": TENANT}
        ways = {"HTTPS_PROXY": proxy, "https_proxy": proxy, "NO_PROXY": "", "no_proxy": "", "SSL_CERT_FILE": trusted, "REQUESTS_CA_BUNDLE": trusted}
        yield server, server.rest_environment() | ways | {f"TESTS_{name}": value for name, value in signing_in.items()}
