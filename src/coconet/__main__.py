"""`python -m coconet` is the command `coconet`."""

from __future__ import annotations

from coconet.cli.main import main

main()
