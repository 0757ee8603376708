"""One client that holds a batch oplock and does not give it up, and one that waits for its file: prints `waits`, then `opened` once it has it.
Runs in a process with the packages that its client needs."""

from conformance.hostile.client import CREATE, PENDING, SUCCESS, client, create_body, parsed

BATCH = 9
# Longer than a client may take to acknowledge a break.
SECONDS = 60


def main():
    with client() as holder, client() as other:
        holder.open("held", oplock=BATCH)
        other.send(CREATE, create_body("held"))
        other.socket.settimeout(SECONDS)
        answer = parsed(other.receive_frame())
        if answer.status != PENDING:
            raise AssertionError(f"the other one did not wait: {answer.status:#010x}")
        print("waits", flush=True)
        answer = other.receive()
        if answer.status != SUCCESS:
            raise AssertionError(f"the other one was refused: {answer.status:#010x}")
        print("opened", flush=True)


if __name__ == "__main__":
    main()
