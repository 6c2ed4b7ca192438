"""The command `fleetdb` of the package."""

import signal
import sys


def main():
    """Runs the command with the arguments of the process, and ends the process with its status."""
    from ._native import main as run

    # The command handles Ctrl-C itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run(["fleetdb", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
