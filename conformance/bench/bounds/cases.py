"""All the cases."""

from conformance.bench.bounds import listing, reads, strangers, users, waiting  # noqa: F401, they register themselves
