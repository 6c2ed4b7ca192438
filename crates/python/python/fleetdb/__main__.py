"""`python -m fleetdb` is the command `fleetdb`."""

from ._command import main

if __name__ == "__main__":
    main()
