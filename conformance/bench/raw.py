"""What moving a MiB costs at least: the system calls alone, over loopback, in CPU time of the side that serves.

`python3 -m conformance.bench.raw [--folder /dev/shm] [--count 2000]`. A child process is the other side; only the parent's user and
system time counts. Python's own share is some microseconds a MiB.
"""

import argparse
import fcntl
import os
import socket
import tempfile
import time

MIB = 1 << 20
FILE_BYTES = 64 * MIB
PIPE_BYTES = MIB


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", default="/dev/shm", help="where the file lies")
    parser.add_argument("--count", type=int, default=2000, help="MiB that each loop moves, at most 100,000")
    options = parser.parse_args()
    count = min(options.count, 100_000)
    with tempfile.TemporaryFile(dir=options.folder) as file:
        for _ in range(FILE_BYTES // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        print("| loop | us of CPU time a MiB |\n| --- | ---: |")
        for name, loop, other in LOOPS:
            print(f"| {name} | {cost(loop, other, file.fileno(), count):.0f} |")


def cost(loop, other, file, count):
    """Microseconds of this process's CPU time for each MiB."""
    ours, theirs = connected()
    child = os.fork()
    if child == 0:
        ours.close()
        other(theirs, count)
        os._exit(0)
    theirs.close()
    with ours:
        began = time.process_time()
        loop(ours, file, count)
        used = time.process_time() - began
    os.waitpid(child, 0)
    return used / count * 1e6


def connected():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        two, _ = listener.accept()
    return one, two


def places(count):
    return ((number * MIB) % FILE_BYTES for number in range(count))


def pread_send(stream, file, count):
    buffer = bytearray(MIB)
    for place in places(count):
        os.preadv(file, [buffer], place)
        stream.sendall(buffer)


def sendfile(stream, file, count):
    for place in places(count):
        sent = 0
        while sent < MIB:
            sent += os.sendfile(stream.fileno(), file, place + sent, MIB - sent)


def recv_pwrite(stream, file, count):
    buffer = bytearray(MIB)
    for place in places(count):
        receive(stream, memoryview(buffer))
        os.pwritev(file, [buffer], place)


def splice(stream, file, count):
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    for place in places(count):
        moved = 0
        while moved < MIB:
            held = os.splice(stream.fileno(), into, MIB - moved)
            if held == 0:
                raise RuntimeError("the other side has gone")
            while held:
                written = os.splice(out, file, held, offset_dst=place + moved)
                held, moved = held - written, moved + written
    os.close(out)
    os.close(into)


def receive(stream, view):
    while view:
        received = stream.recv_into(view)
        if received == 0:
            raise RuntimeError("the other side has gone")
        view = view[received:]


def take_all(stream, count):
    buffer = memoryview(bytearray(MIB))
    for _ in range(count):
        receive(stream, buffer)


def give_all(stream, count):
    data = os.urandom(MIB)
    for _ in range(count):
        stream.sendall(data)


LOOPS = [
    ("`pread`, `send`", pread_send, take_all),
    ("`sendfile`", sendfile, take_all),
    ("`recv`, `pwrite`", recv_pwrite, give_all),
    ("`splice` to a pipe and on to the file", splice, give_all),
]

if __name__ == "__main__":
    main()
