"""`multilane serve --dev`, with azure-storage-file-share. Runs inside the environment that has it; the program is $MULTILANE."""

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile

from azure.storage.fileshare import ShareServiceClient

from conformance.report import Lines, expect
from conformance.server import HOST, free_port

PROGRAM = os.environ["MULTILANE"]
ACCOUNT = "devstoreaccount1"
lines = Lines()


def main():
    with tempfile.TemporaryDirectory(prefix="conformance-dev-", dir="/dev/shm") as folder:
        data = pathlib.Path(folder) / "data"
        for check in (starts, refuses):
            with lines.check(f"serve --dev: {check.__doc__}"):
                check(data)


@contextlib.contextmanager
def running(data, *words):
    """A server for development, and what it says once it is ready."""
    command = [PROGRAM, "serve", "--dev", "--data", str(data), "--listen", f"{HOST}:{free_port()}", "--rest", str(free_port()), *words, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(20)


def told(data, *words):
    return subprocess.run([PROGRAM, *words, "--data", str(data)], capture_output=True, text=True, timeout=30)


def starts(data):
    """its connection string is all that a client needs, by HTTP and by HTTPS, and what was written stays"""
    with running(data) as ready:
        connection = ready["rest"]["connection_string"]
        expect(told(data, "rest", "connection-string").stdout.strip() == connection, "`multilane rest connection-string` says something else")
        file = ShareServiceClient.from_connection_string(connection).get_share_client("share").get_file_client("written")
        file.upload_file(b"here")
        expect((data / "share" / "written").read_bytes() == b"here", "it is not in the share")
    with running(data, "--rest-tls") as ready:
        connection = ready["rest"]["connection_string"]
        expect("DefaultEndpointsProtocol=https;" in connection and f"AccountName={ACCOUNT};" in connection, connection)
        service = ShareServiceClient.from_connection_string(connection, connection_verify=ready["rest"]["authority"])
        expect(service.get_share_client("share").get_file_client("written").download_file().readall() == b"here", "another text")


def refuses(data):
    """with a key that everybody knows it is at no address that others reach, with --dev or without it"""
    port = free_port()
    for words in (("--dev", "--listen", f"0.0.0.0:{port}"), ("--dev", "--rest", f"0.0.0.0:{port}", "--rest-tls"), ("--listen", f"0.0.0.0:{port}"),
                  ("--listen", f"{HOST}:{port}", "--rest", f"0.0.0.0:{port}", "--rest-tls"), ()):
        refused = told(data, "serve", *words)
        expect(refused.returncode != 0 and "everybody knows" in refused.stderr, f"{words}: {refused.returncode} {refused.stderr}")
    with tempfile.TemporaryDirectory(prefix="conformance-dev-", dir="/dev/shm") as other:
        expect(told(other, "account", "create", "work").returncode == 0, "no account is made")
        refused = told(other, "serve", "--dev", "--listen", f"{HOST}:{port}")
        expect(refused.returncode != 0 and "--dev" in refused.stderr, refused.stderr)
    refused = told(data, "serve", "--dev", "--rest-certificate", "/nowhere.pem", "--rest-key", "/nowhere.key")
    expect(refused.returncode != 0 and "/nowhere.pem" in refused.stderr, refused.stderr)


if __name__ == "__main__":
    main()
