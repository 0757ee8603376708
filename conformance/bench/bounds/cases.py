"""All the cases."""

from conformance.bench.bounds import listing, reads, strangers, users  # noqa: F401, they register themselves
