"""Builds the packages from two checkouts of the last commit in different places, and compares them byte by byte. Takes two release builds:
`python3 -m conformance.reproducible`."""

import pathlib
import subprocess
import sys
import tempfile

from conformance import packages

# Of different lengths, so that a path that is kept moves what stands behind it.
PLACES = ("one", "another/place/that/is/deeper")
# Tools that an earlier run has installed serve both.
TOOLS = packages.ROOT / "target/package/tools"


def main():
    # Outside of the repository, where no settings of Cargo's apply to both.
    with tempfile.TemporaryDirectory(prefix="reproducible-") as scratch:
        first, second = (package(pathlib.Path(scratch) / place) for place in PLACES)
        outcomes = [compared(first[name], second[name]) for name in sorted(first.keys() | second.keys())]
    print(f"{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed, 0 skipped")
    return 0 if all(outcomes) else 1


def package(checkout):
    """Makes all packages in a new checkout, and gives them by their names."""
    checkout.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "-c", "advice.detachedHead=false", "clone", "--quiet", str(packages.ROOT), str(checkout)], check=True)
    if TOOLS.exists():
        (checkout / "target/package").mkdir(parents=True)
        (checkout / "target/package/tools").symlink_to(TOOLS)
    words = ["cargo", "xtask", "package", "all"]
    environment = packages.environment_without("CARGO_TARGET_DIR", "SOURCE_DATE_EPOCH")
    made = subprocess.run(words, cwd=checkout, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    return {pathlib.Path(path).name: path for path in made.stdout.split()}


def compared(first, second):
    same = pathlib.Path(first).read_bytes() == pathlib.Path(second).read_bytes()
    print(f"{'pass' if same else 'fail':5} reproducible: {pathlib.Path(first).name} has the same bytes", flush=True)
    return same


if __name__ == "__main__":
    sys.exit(main())
