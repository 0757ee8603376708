"""Runs every case, and after each looks whether the server and another client are as before."""

from conformance.hostile import framing, negotiating, opens, requests, setup, sustained  # noqa: F401, they register their cases
from conformance.hostile.case import Bystander, all_cases, right, seen_by, told
from conformance.report import Lines

lines = Lines()


def main():
    bystander = Bystander()
    for item in all_cases():
        with lines.check(item.name):
            seen = seen_by(item)
            if not right(item, seen):
                allowed = " or ".join(told(expected) for expected in item.expected)
                raise AssertionError(f"expected {allowed}, seen {told(seen)}")
            try:
                bystander.works()
            except Exception:
                bystander = Bystander()
                raise


if __name__ == "__main__":
    main()
