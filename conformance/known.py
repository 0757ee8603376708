"""The lists of known failures: `name<TAB>reason` a line, one list for each kind of server."""

from conformance.packages import HERE
from conformance.report import TODO

LISTS = {"multilane": HERE / "known-failures.txt", "samba": HERE / "known-failures-samba.txt"}


def read(kind):
    """Check name to reason; a line that begins with `#` is a comment."""
    path = LISTS[kind.kind]
    if not path.exists():
        return {}
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("\t", 1) for line in lines)


def update(kind, reasons, results):
    """Rewrites a list, and `reasons` with it, from what smbtorture's tests did.

    Tests that did not run keep their line, known reasons are kept, and no reason is invented.
    """
    for test, result in results.items():
        if result == "pass":
            reasons.pop(test, None)
        else:
            reasons.setdefault(test, f"{TODO} ({result})")
    path = LISTS[kind.kind]
    head = [line for line in path.read_text().splitlines() if line.startswith("#")] if path.exists() else []
    path.write_text("\n".join([*head, *(f"{test}\t{reason}" for test, reason in sorted(reasons.items()))]) + "\n")
