"""All the cases."""

from conformance.bench.bounds import listing, pipes, reads, strangers, together, users, waiting  # noqa: F401, they register themselves
