"""What peers can make the server hold: its memory, and what a client notices that does no wrong, in the worst cases we know."""
