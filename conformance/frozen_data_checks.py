"""The last part of the suite `frozen`: the disk of the data folder hangs, and the server is told to end meanwhile."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import struct
import time

from conformance.frozen import FROZEN, SHARE
from conformance.frozen_checks import bystanding, others_are_served, signed_in
from conformance.frozen_start_checks import ENDS_SECONDS, GUID, PERSISTENT, SERVED_SECONDS, command, is_answered, launched, start, tree_status, wait, works
from conformance.hostile.client import CREATE, ECHO, ECHO_BODY, SUCCESS, Closed, create_body, create_context
from conformance.loop_disk import LoopDisk
from conformance.report import Lines, expect
from conformance.server import kill

# Until the CREATE waits for the disk.
SETTLE_SECONDS = 0.5
# A share whose folder was locked is tried again every two seconds.
SERVED_AGAIN_SECONDS = 4
lines = Lines()


def main():
    disk = LoopDisk(pathlib.Path(os.environ["FROZEN_FOLDER"]), None)
    first = int(os.environ["SERVER_PID"])
    started = []
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: kill([server.pid for server in started]))
        bystander, theirs = bystanding(stack)
        stuck = stack.enter_context(signed_in(FROZEN))
        elsewhere = copied_data()
        os.sync()
        disk.freeze()
        stack.callback(lambda: disk.thaw() if disk.is_frozen else None)
        stuck.send(CREATE, create_body("persistent", contexts=create_context(b"DH2Q", struct.pack("<IIQ", 0, PERSISTENT, 0) + GUID)))
        time.sleep(SETTLE_SECONDS)
        others_are_served(bystander, theirs, "the data folder's disk hangs")
        os.kill(first, signal.SIGHUP)
        os.kill(first, signal.SIGTERM)
        until = time.monotonic() + ENDS_SECONDS
        with lines.check("SIGTERM while the data folder's disk hangs ends connections, and nobody is accepted any more"):
            wait("the port is free", lambda: not is_answered(), ENDS_SECONDS)
            wait("the bystander is disconnected", lambda: is_lost(bystander), until - time.monotonic())
        with lines.check("a server on another data folder has the address and the share"):
            started.append(start(words=elsewhere))
            wait("the share is served", lambda: tree_status(SHARE) == SUCCESS, max(0, until - time.monotonic()) + SERVED_AGAIN_SECONDS)
            with signed_in(SHARE) as client:
                works(client)
            started[0].send_signal(signal.SIGTERM)
            expect(started[0].wait(ENDS_SECONDS) == 0, "its exit code")
        started.append(launched())
        time.sleep(SETTLE_SECONDS)
        disk.thaw()
        with lines.check("after the thaw it is gone, and the next server on its data folder serves and can be told"):
            wait("the old server is gone", lambda: is_gone(first), ENDS_SECONDS)
            wait("the next one answers", lambda: started[1].poll() is not None or is_answered(), ENDS_SECONDS)
            expect(started[1].poll() is None, "the next one ended")
            wait("the share is served", lambda: tree_status(SHARE) == SUCCESS, SERVED_SECONDS)
            wait("the share with the persistent open is served", lambda: tree_status(FROZEN) == SUCCESS, SERVED_SECONDS)
            command("sessions")


def copied_data():
    """The command of a server with the same users and shares on a copy of the data folder, which does not hang."""
    data = os.environ["SERVER_DATA"]
    copy = os.environ["OTHER_DATA"]
    shutil.copytree(data, copy, ignore=shutil.ignore_patterns("admin.sock"))
    os.chmod(copy, 0o700)
    return [copy if word == data else word for word in json.loads(os.environ["SERVER_COMMAND"])]


def is_lost(connection):
    try:
        connection.send(ECHO, ECHO_BODY)
        connection.receive()
    except (Closed, OSError):
        return True
    return False


def is_gone(process):
    """Whether it has ended; its parent may not know yet."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


if __name__ == "__main__":
    main()
