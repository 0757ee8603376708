"""What the server costs beside Samba: CPU time per operation, and memory per idle connection."""
