"""What REST leaves where the disk is full, and where the server ends in the middle. Runs inside the environment that has azure-storage-file-share; the program
is $MULTILANE."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.parse

from azure.core.exceptions import AzureError, HttpResponseError
from azure.storage.fileshare import ContentSettings, ShareServiceClient, generate_share_sas

from conformance.report import Lines, Skip, expect
from conformance.server import HOST, free_port

PROGRAM = os.environ["MULTILANE"]
ACCOUNT, SHARE, FULL = "local", "share", "full"
MIB = 1 << 20
FULL_MIB = 4
# What is in a file's attributes, what is in a page beside it, and what takes two, or the same page.
SMALL, OLD, LONGER, SHORTER = ({"a": "o" * 100}, {"a": "o" * 3000}, {"a": "n" * 3900, "b": "n" * 3900}, {"a": "n" * 1500})
SETTINGS = ContentSettings(content_type="text/old")
COPIED_MIB = 192
SECONDS = 30
lines = Lines()


def main():
    with tempfile.TemporaryDirectory(prefix="conformance-faults-", dir="/dev/shm") as folder:
        data = pathlib.Path(folder) / "data"
        for check in (what_is_refused, leftovers, ends):
            with lines.check(check.__doc__):
                check(data)


@contextlib.contextmanager
def running(data, descriptors=None):
    """A server, which may have no more descriptors than these, and who asks it."""
    command = [PROGRAM, "serve", "--data", str(data), "--listen", f"{HOST}:{free_port()}", "--rest", f"{HOST}:{free_port()}", "--json"]
    if descriptors:
        command = ["prlimit", f"--nofile={descriptors}", *command]
    with open(data.with_name("log"), "a", encoding="utf-8") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            ready = json.loads(process.stdout.readline())
            key = json.loads(told(data, "account", "keys", ACCOUNT, "--json"))["key1"]
            url = f"http://{HOST}:{urllib.parse.urlsplit(ready['rest']['url']).port}/{ACCOUNT}"
            yield process, ShareServiceClient(url, credential={"account_name": ACCOUNT, "account_key": key}, retry_total=0), key
        finally:
            process.terminate()
            process.wait(SECONDS)


def told(data, *words):
    return subprocess.run([PROGRAM, *words, "--data", str(data)], capture_output=True, text=True, timeout=SECONDS, check=True).stdout


@contextlib.contextmanager
def mounted(place):
    """A disk that is soon full."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FULL_MIB}m", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def what_is_refused(data):
    """what is refused because the disk is full leaves files and directories, their metadata and headers as they were, and no new ones"""
    if os.geteuid() != 0:
        raise Skip("root alone mounts a disk")
    disk = data.with_name("disk")
    with mounted(disk), running(data) as (_, service, _):
        told(data, "share", "create", FULL, "--path", str(disk))
        share = service.get_share_client(FULL)
        source = share.get_file_client("source")
        new = ContentSettings(content_type="text/new")
        changes = {
            "create": (SMALL, lambda file: file.create_file(6000, metadata=LONGER, content_settings=new)),
            "metadata": (OLD, lambda file: file.set_file_metadata(LONGER)),
            "shorter metadata": (OLD, lambda file: file.set_file_metadata(SHORTER)),
            "headers": (OLD, lambda file: file.set_http_headers(ContentSettings(content_type="text/" + "n" * 6000))),
            "copy": (SMALL, lambda file: file.start_copy_from_url(source.url, metadata=LONGER)),
            "rename": (SMALL, lambda file: source.rename_file(file.file_name, overwrite=True, metadata=LONGER)),
        }
        source.create_file(7000, metadata={"a": "source"})
        for name, (metadata, _) in changes.items():
            # One without data: no room comes of its going.
            share.get_file_client(name).create_file(5000, metadata=metadata, content_settings=SETTINGS)
        share.create_directory("directory", metadata=OLD)
        share.get_file_client("filled").create_file(FULL_MIB * MIB)
        at = fill(share, 0)
        names = sorted(one.name for one in share.list_directories_and_files())
        refused = set()
        for name, (metadata, change) in changes.items():
            file = share.get_file_client(name)
            if not is_refused(lambda: change(file)):
                at = fill(share, at)
                continue
            refused.add(name)
            seen = file.get_file_properties()
            expect((seen.size, seen.metadata, seen.content_settings.content_type) == (5000, metadata, "text/old"), f"{name}: it is another file: {vars(seen)}"[:400])
            expect(source.get_file_properties().metadata == {"a": "source"}, f"{name}: the source's are others")
        expect(refused >= {"create", "metadata", "headers", "copy", "rename"}, f"not refused: {set(changes) - refused}")
        directory = share.get_directory_client("directory")
        expect(is_refused(lambda: directory.set_directory_metadata(LONGER)), "a directory's metadata are not refused")
        expect(directory.get_directory_properties().metadata == OLD, "the directory's are others")
        expect(is_refused(lambda: share.get_file_client("new").create_file(10, metadata=LONGER)), "a new file is not refused")
        expect(is_refused(lambda: share.create_directory("new too", metadata=LONGER)), "a new directory is not refused")
        expect(sorted(one.name for one in share.list_directories_and_files()) == names, "other names")


def fill(share, at):
    """Fills a disk from here on; gives how far it came."""
    filled, size = share.get_file_client("filled"), MIB
    while size >= 512:
        try:
            filled.upload_range(b"f" * size, at, size)
            at += size
        except HttpResponseError:
            size //= 2
    return at


def is_refused(change):
    try:
        change()
    except HttpResponseError as error:
        expect(error.error_code == "ShareSizeLimitReached", error)
        return True
    return False


def leftovers(data):
    """what a server that was killed has left beside a file goes when it starts again, and nothing of a client's does"""
    folder, own = data / SHARE, "~0a1b2c3d-1111-2222-3333-444455556666.tmp"
    was_left = False
    for turn in range(20):
        with running(data) as (process, service, _):
            share = service.get_share_client(SHARE)
            source, target = share.get_file_client("source"), share.get_file_client("target")
            if turn == 0:
                source.upload_file(os.urandom(COPIED_MIB * MIB), max_concurrency=4)
                share.get_file_client(own).upload_file(b"a client's")
            target.upload_file(b"old")
            copying = threading.Thread(target=quietly, args=(lambda: target.start_copy_from_url(source.url),))
            copying.start()
            until = time.monotonic() + SECONDS
            while not beside(folder, own) and copying.is_alive() and time.monotonic() < until:
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            process.wait(SECONDS)
            copying.join()
        was_left = bool(beside(folder, own))
        expect((folder / "target").read_bytes() == b"old" or not was_left, "the target is neither")
        if was_left:
            break
    expect(was_left, "nothing was ever left")
    with running(data):
        until = time.monotonic() + SECONDS
        while beside(folder, own) and time.monotonic() < until:
            time.sleep(0.05)
    expect(not beside(folder, own), beside(folder, own))
    expect((folder / own).read_bytes() == b"a client's" and not list((data / "rest-unfinished").iterdir()), "a client's file is gone, or a record is left")


def beside(folder, own):
    return [name for name in os.listdir(folder) if re.fullmatch(r"~.*\.tmp", name) and name != own]


def quietly(work):
    with contextlib.suppress(AzureError):
        work()


def ends(data):
    """SIGTERM has what is in flight answered, a download to its end, closes who asks nothing, and takes nobody any more"""
    with running(data) as (process, service, key):
        url = urllib.parse.urlsplit(service.url)
        share = service.get_share_client(SHARE)
        signature = generate_share_sas(ACCOUNT, SHARE, key, permission="r", expiry="2099-01-01T00:00:00Z")
        silent, taking = (http.client.HTTPConnection(url.hostname, url.port, timeout=SECONDS) for _ in range(2))
        silent.connect()
        taking.request("GET", f"/{ACCOUNT}/{SHARE}/source?{signature}")
        answer = taking.getresponse()
        taken = len(answer.read(MIB))
        process.terminate()
        expect(silent.sock.recv(1) == b"", "who asks nothing is not hung up on")
        while piece := answer.read(4 * MIB):
            taken += len(piece)
            time.sleep(0.01)
        expect(taken == COPIED_MIB * MIB, f"the download ended after {taken} bytes")
        expect(process.wait(SECONDS) == 0, "it failed")
        with contextlib.suppress(AzureError):
            share.get_file_client("source").get_file_properties()
            raise AssertionError("somebody is taken")


if __name__ == "__main__":
    main()
