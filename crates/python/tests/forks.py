"""Forks of the process of a test."""

import os
import signal

import fleetdb


def in_fork(work):
    """The lines that `work` returns in a fork of this process; none if it raises."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            # A lock that nobody opens ends the fork.
            signal.alarm(30)
            os.write(write, "\n".join(work()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as said:
        lines = said.read().splitlines()
    os.waitpid(child, 0)
    return lines


def refusals(*uses):
    """What each use of a connection raises in a fork: its code, and whether it names the process of the test."""
    said = []
    for use in uses:
        try:
            use()
            said.append("nothing")
        except fleetdb.ClosedError as error:
            said.append(f"{error.code} {str(os.getppid()) in str(error)}")
        except BaseException as error:
            said.append(repr(error))
    return said
