"""`multilane serve --dev`, with azure-storage-file-share. Runs inside the environment that has it; the program is $MULTILANE."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import requests
from azure.storage.fileshare import ShareServiceClient

from conformance.report import Lines, expect
from conformance.server import HOST, free_port

PROGRAM = os.environ["MULTILANE"]
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "REST.md"
ACCOUNT = "devstoreaccount1"
PRINCIPAL = "00000000-0000-0000-0000-000000000003"
TENANT = "00000000-0000-0000-0000-000000000002"
# A session that signed in again by itself would have been refused within these: so it was after seven.
REFUSED_SECONDS = 12
lines = Lines()


def main():
    with tempfile.TemporaryDirectory(prefix="conformance-dev-", dir="/dev/shm") as folder:
        data = pathlib.Path(folder) / "data"
        for check in (refuses_at_once, starts, refuses, starts_with_other_keys, runs_as_the_page_says):
            with lines.check(f"serve --dev: {check.__doc__}"):
                check(data)


def log_of(data):
    return data.with_name("log")


@contextlib.contextmanager
def running(data, *words, host=HOST):
    """A server for development, and what it says once it is ready."""
    command = [PROGRAM, "serve", "--dev", "--data", str(data), "--listen", f"{host}:{free_port()}", "--rest", f"{host}:{free_port()}", *words, "--json"]
    with open(log_of(data), "a", encoding="utf-8") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
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


def refuses_at_once(data):
    """a start that is refused makes no data folder"""
    port = free_port()
    for words in (("--listen", f"0.0.0.0:{port}"), ("--rest", f"0.0.0.0:{port}", "--rest-tls")):
        refused = told(data, "serve", "--dev", *words)
        expect(refused.returncode != 0 and "everybody knows" in refused.stderr, f"{words}: {refused.returncode} {refused.stderr}")
        expect(not data.exists(), f"{words}: there is a data folder")


def starts_with_other_keys(data):
    """its account may be given other keys, and it is then a server for development all the same, where other machines may reach it"""
    with running(data) as ready:
        file = ShareServiceClient.from_connection_string(ready["rest"]["connection_string"]).get_share_client("share").get_file_client("written")
        expect(file.download_file().readall() == b"here", "another text")
        renewed = told(data, "account", "keys", ACCOUNT, "--regenerate", "1")
        expect(renewed.returncode == 0, renewed.stderr)
        # Who reaches the files for the REST interface has signed in with the key that is gone, and is no guesser.
        time.sleep(REFUSED_SECONDS)
        connection = told(data, "rest", "connection-string").stdout.strip()
        file = ShareServiceClient.from_connection_string(connection).get_share_client("share").get_file_client("written")
        expect(file.download_file().readall() == b"here", "another text")
        log = log_of(data).read_text(encoding="utf-8")
        expect("sign-in refused" not in log and "sign_in_refused" not in log, log)
    for host, words in ((HOST, ()), ("0.0.0.0", ("--rest-tls",))):
        with running(data, *words, host=host) as ready:
            expect(ready["rest"]["connection_string"] is None, "it tells a key that not everybody knows")
            expect(told(data, "rest", "connection-string").stdout.split(";")[2] == connection.split(";")[2], "another key")
            expect(principal_is_known(ready) == (host == HOST), f"{host}: the service principal")


def runs_as_the_page_says(data):
    """the page's lines for CI start it, wait for it and tell where it is"""
    lines = re.search(r"^### In CI\n\n```sh\n(.*?)```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1]
    expect(lines.count("serve --dev &") == 1, lines)
    lines = lines.replace("serve --dev &", f"serve --dev --listen {HOST}:{free_port()} --rest {free_port()} &")
    programs = data.with_name("bin")
    programs.mkdir()
    (programs / "multilane").symlink_to(PROGRAM)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(programs)}
    script = f'{lines}\necho "$AZURE_STORAGE_CONNECTION_STRING" > "$TMPDIR/told"\nkill $!\nwait $!\n'
    done = subprocess.run(["sh", "-e", "-c", script], env=env, capture_output=True, text=True, timeout=90)
    expect(done.returncode == 0, done.stderr)
    expect(f"AccountName={ACCOUNT};" in (programs / "told").read_text(encoding="utf-8"), "no connection string")


def principal_is_known(ready):
    """Whether the service principal of which everybody knows the secret gets a token."""
    form = {"grant_type": "client_credentials", "client_id": PRINCIPAL, "client_secret": "multilane-development", "resource": "https://management.azure.com"}
    answer = requests.post(f"{ready['rest']['url']}/{TENANT}/oauth2/token", data=form, verify=ready["rest"]["authority"] or True, timeout=30)
    expect(answer.status_code in (200, 400, 401), answer.text)
    return answer.status_code == 200


if __name__ == "__main__":
    main()
