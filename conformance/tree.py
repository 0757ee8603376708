"""A folder tree to copy back and forth: made from a seed, so that every run and every client sees the same bytes."""

import filecmp
import os
import pathlib
import random
import shutil

from conformance.packages import cache
from conformance.report import expect

FILES = 5_200
SEED = 20_311
# One file in so many is of this size: (one in, smallest, largest), in bytes. The rest is up to 12 KiB.
LARGER = ((40, 64 << 10, 256 << 10), (400, 1 << 20, 3 << 20))
EMPTY_ONE_IN = 50
# Names that break clients and servers which think in ASCII, in bytes or in one case.
WORDS = ["report", "Émile", "straße", "日本語", "данные", "naïve café", "a+b=c", "semi;colon", "100%", "δοκιμή",
         "with space", "dot.dot.dot", "UPPER", "lower", "שלום", "emoji 🐧", "(copy)", "under_score", "[brackets]", "#hash"]
DEEP = 24  # folders in the deepest chain


def generated(files=FILES):
    """The tree's folder, made once per cache and machine."""
    folder = cache("trees") / f"seed-{SEED}-files-{files}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        write(folder / "tree", files, random.Random(SEED))
        (folder / "complete").touch()
    return folder / "tree"


def write(root, files, chance):
    folders = [root]
    root.mkdir(parents=True)
    deepest = root
    for depth in range(DEEP):
        deepest = deepest / f"{chance.choice(WORDS)} {depth}"
        deepest.mkdir()
        folders.append(deepest)
    for number in range(max(1, files // 25)):
        # Parents come from the first folders, so that paths stay well below the 1,024-character limit of clients.
        folder = chance.choice(folders[:60]) / f"{chance.choice(WORDS)}-{number}"
        folder.mkdir()
        folders.append(folder)
    for number in range(files):
        name = f"{chance.choice(WORDS)} {number}{chance.choice(['', '.txt', '.bin', '.tar.gz'])}"
        (chance.choice(folders) / name).write_bytes(chance.randbytes(size(number, chance)))


def size(number, chance):
    if number % EMPTY_ONE_IN == 0:
        return 0
    for one_in, smallest, largest in reversed(LARGER):
        if number % one_in == 1:
            return chance.randint(smallest, largest)
    return chance.randint(1, 12 << 10)


def count(root):
    """How many files lie below this folder."""
    return sum(len(files) for _, _, files in os.walk(root))


def expect_same(expected, actual):
    """Fails the running check unless both folders hold the same names and, byte for byte, the same files."""
    left, right = listing(expected), listing(actual)
    missing, extra = sorted(left - right), sorted(right - left)
    expect(not missing and not extra, f"missing {len(missing)}: {missing[:5]}, unexpected {len(extra)}: {extra[:5]}")
    differing = [name for name in sorted(left)
                 if (expected / name).is_file() and not filecmp.cmp(expected / name, actual / name, shallow=False)]
    expect(not differing, f"{len(differing)} files differ: {differing[:5]}")


def listing(root):
    """Every file and folder below the root, as relative paths."""
    root = pathlib.Path(root)
    return {os.path.relpath(os.path.join(folder, name), root)
            for folder, folders, files in os.walk(root) for name in folders + files}
