"""`python -m fleetdb` is the command `fleetdb`."""

from ._command import main

main()
