"""The lines of docs/REST.md for az, the command line of Azure, run as they stand there."""

from conformance import rest_page

NAME = "rest_page_az"


def run(kind, report, options):
    rest_page.run_lines(kind, report, NAME, {"az": rest_page.az})
