"""A tree of 2,000 files both ways over Azure Files' REST interface, by AzCopy and by rclone as they are published, compared byte for byte with the source,
with the disk, and with what SMB clients see, one of which has the share mounted meanwhile; and AzCopy as a service principal.

AzCopy comes as npm has it, rclone is built with two of its backends and the commands that are used here (rest-rclone/rclone).
"""

import base64
import contextlib
import datetime
import hashlib
import hmac
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse

from conformance import packages, rest_table, tree
from conformance.kernel_fsx import guest_card, listening
from conformance.mounted import mounted
from conformance.report import Failure, Skip, expect
from conformance.rest import WithRest, WithTls
from conformance.server import Wanted, serving
from conformance.smbclient import Smbclient

NAME = "rest_trees"
FILES = 2_000
# Beside the tree's: files of several ranges, on both sides of their ends.
LARGE_BYTES = ((4 << 20) - 1, 4 << 20, (4 << 20) + 1, (33 << 20) + 7)
COMMAND_SECONDS = 600
AGE_SECONDS = 3600


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no REST interface")
    packages.need("smbclient")
    programs = {"AzCopy": azcopy(), "rclone": packages.go_program("rest-rclone", "rclone")}
    with contextlib.ExitStack() as stack:
        card = guest_card(stack, report)
        server = stack.enter_context(serving(listening(WithRest, card), Wanted(shares=("conf", "other"), on_tmpfs=True)))
        smb = stack.enter_context(Smbclient(server, report))
        source = with_large_files(smb.work)
        with mounted(server, card) as mount:
            for client, work in (("AzCopy", AzCopy), ("rclone", Rclone)):
                both_ways(report, client, work(server, programs[client], smb.work), (server, smb, mount), source)
                rest_table.compare(report, NAME, rest_table.asked_of(server), client, options)
        report.server_is_well(NAME, server)
        by_token(report, programs["AzCopy"], source, smb.work)


class AtTrusted(WithTls):
    """By HTTPS on an address that AzCopy can be told to trust: one without a port."""

    address = "127.53.4.43"

    def command(self):
        words = super().command()
        words[words.index("--rest") + 1] = f"{self.address}:443"
        return words


def by_token(report, program, source, work):
    with report.check(NAME, "AzCopy signs in as a service principal, and puts and gets a file"):
        if not may_listen(AtTrusted.address):
            raise Skip(f"needs port 443 of {AtTrusted.address}")
        with serving(AtTrusted, Wanted(shares=("conf", "other"), on_tmpfs=True)) as server:
            principal = json.loads(server.principals["file-contributor"])
            signed_in = SignedIn(server, program, work, principal)
            name = f"large {LARGE_BYTES[-1]}"
            signed_in.put(source / name, name)
            expect((server.share_path() / name).read_bytes() == (source / name).read_bytes(), "another text is on the disk")
            signed_in.get(name, work / "by-token")
            expect((work / "by-token").read_bytes() == (source / name).read_bytes(), "another text comes down")
            signed_in.principal = dict(principal, password="wrong")
            expect("AADSTS7000215" in signed_in.refused(name, work / "refused"), "it is let in with a wrong secret")


def may_listen(address):
    with socket.socket() as probe:
        try:
            probe.bind((address, 443))
        except OSError:
            return False
    return True


def both_ways(report, client, with_it, beside, source):
    server, smb, mount = beside
    remote = f"tree-{client.lower()}"
    count = tree.count(source)
    back = smb.work / "back"
    with report.check(NAME, f"{client} puts a tree of {count} files"):
        with_it.put(source, remote)
        tree.expect_same(source, server.share_path() / remote)
    with report.check(NAME, f"an SMB client sees the tree that {client} has put"):
        back.mkdir()
        smb.client(f'cd "{remote}"; recurse on; prompt off; lcd "{back}"; mget *')
        tree.expect_same(source, back)
    shutil.rmtree(back)
    with report.check(NAME, f"the kernel, which has the share mounted meanwhile, sees the tree that {client} has put"):
        mount.expect_same(source, remote)
    with report.check(NAME, f"{client} gets the tree back"):
        back.mkdir()
        with_it.get(remote, back)
        tree.expect_same(source, back)
    shutil.rmtree(back)
    with report.check(NAME, f"{client} finds nothing to do in a tree that is the same, and what is to do in one that is not"):
        with_it.bring_up_to_date(source, remote)
        tree.expect_same(source, server.share_path() / remote)
    with report.check(NAME, f"{client} removes the tree"):
        with_it.remove(remote)
        expect(not (server.share_path() / remote).exists(), "it is still there")


def with_large_files(work):
    """The tree, and large files beside it; its own are linked, and not copied."""
    folder = work / "source"
    shutil.copytree(tree.generated(FILES - len(LARGE_BYTES)), folder, copy_function=os.link if same_device(work) else shutil.copyfile)
    chance = random.Random(FILES)
    for length in LARGE_BYTES:
        (folder / f"large {length}").write_bytes(chance.randbytes(length))
    age(folder)
    return folder


def age(folder):
    """Makes all files old: when the service's copy was written is told in whole seconds, so that a file made in that second would seem newer than its copy."""
    old = time.time() - AGE_SECONDS
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (old, old))


def same_device(work):
    return packages.CACHE.exists() and packages.CACHE.stat().st_dev == work.stat().st_dev


def azcopy():
    """The program, as the package brings it: without the right to be run."""
    found = packages.node_program("rest-azcopy") / "node_modules" / "@azure-tools" / "azcopy-linux" / "dist" / "bin" / "azcopy_linux_amd64"
    found.chmod(0o755)
    return str(found)


class Tool:
    def __init__(self, server, program, work):
        self.server, self.program = server, program
        self.home = pathlib.Path(tempfile.mkdtemp(dir=work))
        self.rest = server.rest_environment()

    def call(self, *words, env):
        result = subprocess.run([self.program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace", timeout=COMMAND_SECONDS, env=dict(os.environ, HOME=str(self.home), LC_ALL="C.UTF-8", **env))
        expect(result.returncode == 0, f"exit {result.returncode}\n{result.stdout[-3000:]}")
        return result.stdout


class AzCopy(Tool):
    """Who asks proves it by a shared access signature."""

    def put(self, source, remote):
        self.azcopy("copy", f"{source}/*", self.url(remote), "--from-to", "LocalFile", "--recursive")

    def get(self, remote, folder):
        self.azcopy("copy", self.url(f"{remote}/*"), str(folder), "--from-to", "FileLocal", "--recursive")

    def bring_up_to_date(self, source, remote):
        (self.server.share_path() / remote / f"large {LARGE_BYTES[0]}").unlink()
        said = self.azcopy("sync", str(source), self.url(remote), "--from-to", "LocalFile", "--recursive")
        expect("Number of Copy Transfers Completed: 1\n" in said or "Copy Transfers Completed: 1\n" in said, said[-1500:])

    def remove(self, remote):
        self.azcopy("remove", self.url(remote), "--from-to", "FileTrash", "--recursive")

    def url(self, path):
        return f"{self.rest['REST_URL']}/{self.server.share}/{urllib.parse.quote(path, safe='/*')}?{account_sas(self.rest['REST_ACCOUNT'], self.rest['REST_KEY'])}"

    def azcopy(self, *words):
        env = {"AZCOPY_LOG_LOCATION": str(self.home), "AZCOPY_JOB_PLAN_LOCATION": str(self.home), "AZCOPY_DISABLE_SYSLOG": "true",
               "AZCOPY_DISABLE_HIERARCHICAL_SCAN": "false"}
        return self.call(*words, "--skip-version-check", "--output-level", "essential", "--log-level", "ERROR", env=env)


class SignedIn(Tool):
    """AzCopy again: who asks proves it by a token."""

    def __init__(self, server, program, work, principal):
        super().__init__(server, program, work)
        self.principal = principal

    def put(self, source, remote):
        self.azcopy("copy", str(source), self.url(remote), "--from-to", "LocalFile")

    def get(self, remote, to):
        self.azcopy("copy", self.url(remote), str(to), "--from-to", "FileLocal")

    def refused(self, remote, to):
        try:
            self.get(remote, to)
        except Failure as failure:
            return str(failure)
        return "done"

    def url(self, path):
        return f"https://{self.server.address}/{self.rest['REST_ACCOUNT']}/{self.server.share}/{urllib.parse.quote(path)}"

    def azcopy(self, *words):
        env = {"AZCOPY_LOG_LOCATION": str(self.home), "AZCOPY_JOB_PLAN_LOCATION": str(self.home), "AZCOPY_DISABLE_SYSLOG": "true",
               "SSL_CERT_FILE": self.rest["REQUESTS_CA_BUNDLE"], "AZCOPY_ACTIVE_DIRECTORY_ENDPOINT": f"https://{self.server.address}",
               "AZCOPY_AUTO_LOGIN_TYPE": "SPN", "AZCOPY_TENANT_ID": "adfs", "AZCOPY_SPA_APPLICATION_ID": self.principal["appId"],
               "AZCOPY_SPA_CLIENT_SECRET": self.principal["password"]}
        return self.call(*words, "--trusted-microsoft-suffixes", self.server.address, "--skip-version-check", env=env)


class Rclone(Tool):
    """Who asks signs with the account's key."""

    def put(self, source, remote):
        self.rclone("copy", str(source), f"rest:{remote}", "--create-empty-src-dirs")

    def get(self, remote, folder):
        self.rclone("copy", f"rest:{remote}", str(folder), "--create-empty-src-dirs")

    def bring_up_to_date(self, source, remote):
        (self.server.share_path() / remote / f"large {LARGE_BYTES[0]}").unlink()
        said = self.rclone("sync", str(source), f"rest:{remote}", "--size-only", "--create-empty-src-dirs", "--verbose")
        expect("Transferred:            1 / 1, 100%" in said, said[-1500:])
        self.rclone("check", str(source), f"rest:{remote}", "--download")

    def remove(self, remote):
        self.rclone("purge", f"rest:{remote}")

    def rclone(self, *words):
        env = {"RCLONE_CONFIG": str(self.home / "rclone.conf"), "RCLONE_CONFIG_REST_TYPE": "azurefiles", "RCLONE_CONFIG_REST_SHARE_NAME": self.server.share,
               "RCLONE_CONFIG_REST_ACCOUNT": self.rest["REST_ACCOUNT"], "RCLONE_CONFIG_REST_KEY": self.rest["REST_KEY"],
               "RCLONE_CONFIG_REST_ENDPOINT": self.rest["REST_URL"]}
        return self.call(*words, "--retries", "1", "--low-level-retries", "1", env=env)


def account_sas(account, key, permissions="rwdlc", minutes=30):
    """A shared access signature of an account, for its shares, directories and files."""
    ends = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    values = {"sv": "2025-01-05", "ss": "f", "srt": "sco", "sp": permissions, "se": ends, "spr": "https,http"}
    text = "\n".join([account, permissions, "f", "sco", "", ends, "", "https,http", values["sv"], "", ""])
    values["sig"] = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
    return urllib.parse.urlencode(values)
