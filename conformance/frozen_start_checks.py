"""The second half of the suite `frozen`: a server is killed and started, told and ended while one share's disk hangs."""

import contextlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import time

from conformance.frozen import FROZEN, SHARE
from conformance.frozen_checks import BLOCK_BYTES, answered, block, signed_in
from conformance.hostile.client import CLOSE, CREATE, READ, SUCCESS, WRITE, Raw, close_body, create_body, create_context, read_body, write_body
from conformance.loop_disk import LoopDisk
from conformance.report import Lines, expect
from conformance.server import answers, kill

BAD_NETWORK_NAME, USER_SESSION_DELETED, LOGON_FAILURE, FILE_NOT_AVAILABLE = 0xC00000CC, 0xC0000203, 0xC000006D, 0xC0000467
PERSISTENT = 2
GUID = bytes(range(16))
# A server that ends promises 15 s, of which requests have ten; others make this machine busy meanwhile.
STARTS_SECONDS, ENDS_SECONDS, SERVED_SECONDS = 20, 30, 30
# A command waits two seconds for folders; a debug build has some to itself.
COMMAND_SECONDS = 8
lines = Lines()


def main():
    disk = LoopDisk(pathlib.Path(os.environ["FROZEN_FOLDER"]), None)
    first = int(os.environ["SERVER_PID"])
    started = []
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: kill([server.pid for server in started]))
        owner = stack.enter_context(signed_in(FROZEN))
        request = struct.pack("<IIQ", 0, PERSISTENT, 0) + GUID
        file = owner.open("persistent", contexts=create_context(b"DH2Q", request))
        expect(owner.call(WRITE, write_body(file, block(0))).status == SUCCESS, "the WRITE was refused")
        os.kill(first, signal.SIGKILL)
        wait("the killed server's port is free", lambda: not is_answered(), ENDS_SECONDS)
        os.sync()
        disk.freeze()
        stack.callback(lambda: disk.thaw() if disk.is_frozen else None)
        with lines.check("a server starts while a share's disk hangs, and serves the others"):
            started.append(start())
            with signed_in(SHARE) as client:
                works(client)
            with connected() as early:
                expect(early.tree_connect(FROZEN).status == BAD_NETWORK_NAME, "the share is served")
        with lines.check("who is removed meanwhile is out at once"):
            with connected("somebody-else") as other:
                command("user", "delete", "somebody-else", "--force")
                expect(other.tree_connect(SHARE).status == USER_SESSION_DELETED, "the session goes on")
            with Raw() as again:
                again.negotiate()
                expect(again.login(username="somebody-else").status == LOGON_FAILURE, "the user signs in")
        disk.thaw()
        with lines.check("after the thaw the share is served, with the persistent open as it was"):
            wait("the share is served", lambda: tree_status() == SUCCESS, SERVED_SECONDS)
            with signed_in(FROZEN) as other:
                expect(other.call(CREATE, create_body("persistent")).status == FILE_NOT_AVAILABLE, "somebody else was let in")
            back = stack.enter_context(signed_in(FROZEN))
            again = create_context(b"DH2C", file + GUID + struct.pack("<I", PERSISTENT))
            reclaimed = back.call(CREATE, create_body("persistent", contexts=again))
            expect(reclaimed.status == SUCCESS, f"the open is lost: {reclaimed.status:#010x}")
            expect(back.call(READ, read_body(reclaimed.body[64:80], BLOCK_BYTES)).body[16:] == block(0), "its file holds something else")
        disk.freeze()
        with lines.check("SIGTERM while writes wait for the disk makes way for the next server"):
            back.send(WRITE, write_body(file, block(1)))
            started[0].send_signal(signal.SIGHUP)
            started[0].send_signal(signal.SIGTERM)
            wait("the port is free", lambda: not is_answered(), ENDS_SECONDS)
            started.append(start(again_for=ENDS_SECONDS))
            with signed_in(SHARE) as client:
                works(client)
        disk.thaw()
        with lines.check("after the thaw the old server is gone and the new one serves the share"):
            started[0].wait(ENDS_SECONDS)
            wait("the share is served", lambda: tree_status() == SUCCESS, SERVED_SECONDS)
        with lines.check("SIGTERM ends a server on whose shares nothing hangs"):
            started[1].send_signal(signal.SIGTERM)
            expect(started[1].wait(ENDS_SECONDS) == 0, "its exit code")


def start(again_for=0, words=None):
    """A server that answers, of this command. One that ends at once is started again for so many seconds: the data folder may not be free yet."""
    tried_until = time.monotonic() + again_for
    until = tried_until + STARTS_SECONDS
    server = launched(words)
    while not is_answered():
        if server.poll() is not None:
            expect(time.monotonic() < tried_until, "the server ended")
            server = launched(words)
        if time.monotonic() > until:
            kill([server.pid])
            raise AssertionError("the server does not answer")
        time.sleep(0.1)
    return server


def launched(words=None):
    with open(os.environ["SERVER_LOG"], "ab") as log:
        return subprocess.Popen(words or json.loads(os.environ["SERVER_COMMAND"]), stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def is_answered():
    return answers(os.environ["SMB_HOST"], int(os.environ["SMB_PORT"]), seconds=1)


def command(*words):
    program, *_ = json.loads(os.environ["SERVER_COMMAND"])
    subprocess.run([program, *words, "--data", os.environ["SERVER_DATA"]], check=True, capture_output=True, timeout=COMMAND_SECONDS)


def connected(user=None):
    """A client that is signed in and has no tree."""
    raw = Raw()
    raw.negotiate()
    status = raw.login(username=user).status
    expect(status == SUCCESS, f"the sign-in was refused: {status:#010x}")
    return raw


def tree_status(share=FROZEN):
    with connected() as raw:
        return raw.tree_connect(share).status


def works(client):
    made = answered(client, CREATE, create_body("meanwhile"))
    answered(client, CLOSE, close_body(made.body[64:80]))


def wait(what, is_so, seconds):
    until = time.monotonic() + seconds
    while not is_so():
        expect(time.monotonic() < until, f"not so after {seconds} s: {what}")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
