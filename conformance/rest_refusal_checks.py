"""What REST says where a disk or a limit refuses something: that it is this, and no missing right, no SMB client and no moment. Runs inside the environment that
has azure-storage-file-share; the program is $MULTILANE."""

import concurrent.futures
import os
import pathlib
import subprocess
import tempfile
import time

from azure.core.exceptions import HttpResponseError

from conformance.loop_disk import LoopDisk, ran
from conformance.report import Lines, Skip, expect
from conformance.rest_fault_checks import MIB, SHARE, mounted, running, told

DISK, READ_ONLY, DISK_MIB = "disk", "read-only", 64
# With as many the account may have 21 files open.
DESCRIPTORS = 128
LEASES_MAX = 40
# The server waits for 20 s until something is opened.
HANGS_SECONDS = 60
lines = Lines()


def main():
    with tempfile.TemporaryDirectory(prefix="conformance-refusals-", dir="/dev/shm") as folder:
        place = pathlib.Path(folder)
        for check in (catalog_is_full, few_descriptors, disk_refuses):
            with lines.check(check.__doc__):
                check(place)


def refused(work, code, status, words):
    """Fails unless this is refused by this code, with these words."""
    try:
        work()
    except HttpResponseError as error:
        expect((error.error_code, error.status_code) == (code, status) and words in error.message, error.message)
        return
    raise AssertionError(f"it is done, and not {code}")


def catalog_is_full(place):
    """where the data folder's disk is full, shares and what is kept of them are refused for that, and made again when there is room"""
    if os.geteuid() != 0:
        raise Skip("root alone mounts a disk")
    disk = place / "small"
    with mounted(disk), running(disk / "data") as (_, service, _):
        filler = disk / "filler"
        with open(filler, "wb", buffering=0) as file:
            size = MIB
            while size >= 512:
                try:
                    file.write(b"f" * size)
                except OSError:
                    size //= 2
        share = service.get_share_client(SHARE)
        for work in (lambda: service.create_share("another"), lambda: share.set_share_metadata({"a": "b" * 6000})):
            refused(work, "ShareSizeLimitReached", 409, "The disk of the server's data folder is full")
        filler.unlink()
        service.create_share("another")


def few_descriptors(place):
    """leases take half of what an account may have open, and what more is opened is refused for that"""
    with running(place / "few", descriptors=DESCRIPTORS) as (_, service, _):
        share = service.get_share_client(SHARE)
        files = [share.get_file_client(f"file{number}") for number in range(LEASES_MAX)]
        for file in files:
            file.create_file(1)
        leases = []
        try:
            for file in files:
                leases.append(file.acquire_lease())
        except HttpResponseError as error:
            expect((error.error_code, error.status_code) == ("HandleLimitExceeded", 400) and f"{len(leases)} leases" in error.message, error.message)
        expect(5 < len(leases) < LEASES_MAX, f"{len(leases)} leases")
        share.get_file_client("other").upload_file(b"other")
        expect(len(list(share.list_directories_and_files())) == LEASES_MAX + 1, "other requests are not answered")
        leases.pop().release()
        files[-1].acquire_lease()


def disk_refuses(place):
    """a file system that is read-only, or frozen, is told to be that"""
    disk, read_only = LoopDisk(place / "mounted", place / "image", DISK_MIB), place / "read-only"
    read_only.mkdir()
    try:
        disk.mount()
        with running(place / "data") as (_, service, _):
            told(place / "data", "share", "create", DISK, "--path", str(disk.folder))
            share = service.get_share_client(DISK)
            file = share.get_file_client("file")
            file.upload_file(b"data")
            leased = share.get_file_client("leased")
            leased.upload_file(b"data")
            lease = leased.acquire_lease()
            disk.freeze()
            try:
                # The lease of one of them has it open.
                asked = (lambda: share.get_file_client("new").create_file(1, read_timeout=HANGS_SECONDS),
                         lambda: leased.upload_range(b"late", 0, 4, lease=lease, read_timeout=HANGS_SECONDS))
                with concurrent.futures.ThreadPoolExecutor() as threads:
                    list(threads.map(lambda work: refused(work, "OperationTimedOut", 500, "does not answer"), asked))
                expect(service.get_share_client(SHARE).get_file_client("elsewhere").upload_file(b"x"), "another share is not served")
            finally:
                disk.thaw()
            until = time.monotonic() + HANGS_SECONDS
            while leased.download_file().readall() != b"late":
                expect(time.monotonic() < until, "what was late is never done")
                time.sleep(0.1)
            lease.release()
            ran("mount", "--bind", str(disk.folder), str(read_only))
            told(place / "data", "share", "create", READ_ONLY, "--path", str(read_only))
            ran("mount", "-o", "remount,bind,ro", str(read_only))
            share = service.get_share_client(READ_ONLY)
            file = share.get_file_client("file")
            for work in (lambda: share.get_file_client("newer").create_file(1), lambda: file.upload_range(b"D", 0, 1), file.delete_file,
                         lambda: share.create_directory("directory")):
                refused(work, "ReadOnlyAttribute", 409, "is read-only")
            expect(file.download_file().readall() == b"data", "it is not read")
    finally:
        subprocess.run(["umount", "--lazy", str(read_only)], capture_output=True)
        disk.unmount()


if __name__ == "__main__":
    main()
