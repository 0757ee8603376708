"""HTTPS: the checks made with azure-storage-file-share and with TLS of our own. Runs inside the environment that has it; the server is in REST_* variables,
the authority of its certificate in REQUESTS_CA_BUNDLE."""

import contextlib
import datetime
import http.client
import os
import pathlib
import socket
import ssl
import time
import urllib.parse

from azure.core.exceptions import AzureError
from azure.storage.fileshare import ShareServiceClient, generate_file_sas

from conformance.report import Failure, Lines, expect

URL, ACCOUNT, KEY = os.environ["REST_URL"], os.environ["REST_ACCOUNT"], os.environ["REST_KEY"]
AUTHORITY = pathlib.Path(os.environ["REQUESTS_CA_BUNDLE"])
SHARE = os.environ["SMB_SHARE"]
HOST, PORT = urllib.parse.urlsplit(URL).hostname, urllib.parse.urlsplit(URL).port
DATA = os.urandom(9 << 20)
# How long a connection that begins no TLS may last.
HANDSHAKE_SECONDS = 45
# How long a server reads ahead of who takes nothing.
SETTLED_SECONDS = 1
lines = Lines()


def main():
    for check in (files, cut_files, hosts, strangers, plain, older):
        with lines.check(f"HTTPS: {check.__doc__}"):
            check()


def service(url=URL, **more):
    return ShareServiceClient(url, credential={"account_name": ACCOUNT, "account_key": KEY}, retry_total=0, **more)


def files():
    """files go both ways by azure-storage-file-share, and URLs in answers are of HTTPS"""
    file = service().get_share_client(SHARE).get_file_client("by-tls")
    file.upload_file(DATA, max_concurrency=3)
    expect(file.download_file(max_concurrency=3).readall() == DATA, "another text comes back")


def cut_files():
    """a file that is cut while it is sent has its answer broken off, and nothing comes that was never in it"""
    name, length = "cut-by-tls", 32 << 20
    file = service().get_share_client(SHARE).get_file_client(name)
    file.upload_file(b"x" * length, max_concurrency=4)
    sas = generate_file_sas(ACCOUNT, SHARE, [name], KEY, permission="r", expiry=datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1))
    connection = http.client.HTTPSConnection(HOST, PORT, timeout=60, context=ssl.create_default_context(cafile=str(AUTHORITY)))
    with contextlib.closing(connection):
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        connection.request("GET", f"{urllib.parse.urlsplit(URL).path}/{SHARE}/{name}?{sas}")
        answer = connection.getresponse()
        came = answer.read(256 << 10)
        # What comes next was promised by then, and nobody has read it yet.
        time.sleep(SETTLED_SECONDS)
        os.truncate(pathlib.Path(os.environ["LOCAL_FOLDER"], name), 0)
        try:
            came += answer.read()
            raise Failure("all of it came")
        except (http.client.IncompleteRead, ssl.SSLError, OSError) as broken:
            came += getattr(broken, "partial", b"")
    expect(0 < len(came) < length and came.count(b"x") == len(came), f"{len(came)} bytes, {came.count(b'x')} of the file")


@contextlib.contextmanager
def resolved():
    """Names below localhost are this machine's (RFC 6761 6.3), whether or not its resolver knows."""
    before = socket.getaddrinfo

    def resolve(host, *more, **options):
        return before(HOST if str(host).endswith(".localhost") else host, *more, **options)

    socket.getaddrinfo = resolve
    try:
        yield
    finally:
        socket.getaddrinfo = before


def hosts():
    """the account is in the host's name, and the certificate is for it"""
    with resolved():
        own = service(f"https://{ACCOUNT}.file.core.localhost:{PORT}").get_share_client(SHARE).get_file_client("by-tls")
        expect(own.download_file().readall() == DATA, "another text comes back")
        other = service(f"https://localhost:{PORT}/{ACCOUNT}")
        expect(SHARE in [share.name for share in other.list_shares()], "it is not listed")
        try:
            list(service(f"https://{ACCOUNT}.file.elsewhere.localhost:{PORT}").list_shares())
        except AzureError as error:
            expect("certificate" in str(error).lower(), error)
        else:
            raise Failure("the certificate is for any name")


def strangers():
    """who does not trust the authority that was made does not connect"""
    try:
        with socket.create_connection((HOST, PORT), timeout=10) as connection:
            ssl.create_default_context().wrap_socket(connection, server_hostname=HOST)
    except ssl.SSLCertVerificationError:
        pass
    else:
        raise Failure("it is trusted")
    expect(AUTHORITY.stat().st_mode & 0o777 == 0o644, "others cannot read it")
    expect(AUTHORITY.with_name("server.key").stat().st_mode & 0o777 == 0o600, "others may read the key")


def plain():
    """who speaks HTTP, or nothing, is hung up on, and others are answered"""
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection((HOST, PORT), timeout=HANDSHAKE_SECONDS)) for _ in range(300)]
        with socket.create_connection((HOST, PORT), timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            expect(not connection.recv(100).startswith(b"HTTP"), "HTTP is answered")
        files()
        expect(silent[0].recv(1) == b"", "who says nothing stays")


def older():
    """TLS 1.2 and 1.3 are spoken, and nothing older"""
    context = ssl.create_default_context(cafile=str(AUTHORITY))
    for version, is_spoken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)):
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = version
        try:
            with socket.create_connection((HOST, PORT), timeout=10) as connection, context.wrap_socket(connection, server_hostname=HOST):
                expect(is_spoken, f"{version.name} is spoken")
        except OSError as error:
            expect(not is_spoken, f"{version.name}: {error}")


if __name__ == "__main__":
    main()
