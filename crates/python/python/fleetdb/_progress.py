"""The progress of a long statement, on standard error."""

import sys
import time

_BAR = 30


def is_wanted(progress):
    """Whether to show progress: as the caller said, or on a terminal and in a notebook."""
    if progress is not None:
        return progress
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


class Progress:
    """Is called with the number of rows that are done, from time to time, and clears its line at the end."""

    def __init__(self, what, total=None):
        self._what = what
        self._total = total
        self._begun = time.monotonic()
        self._width = 0

    def __call__(self, rows):
        seconds = time.monotonic() - self._begun
        text = f"{self._what}: {rows:,} rows, {seconds:.0f} s" if rows else f"{self._what}: {seconds:.0f} s"
        if self._total:
            done = min(rows / self._total, 1.0)
            filled = round(done * _BAR)
            text = f"{self._what} [{'█' * filled}{' ' * (_BAR - filled)}] {done:4.0%} of {self._total:,} rows"
        self._write("\r" + text.ljust(self._width))
        self._width = len(text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Clears the line, if there is one."""
        if self._width:
            self._write("\r" + " " * self._width + "\r")
            self._width = 0

    def _write(self, text):
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            # Nobody reads standard error.
            pass
