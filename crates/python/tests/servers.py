"""A server for tests: the command `fleetdb serve` on a directory that is removed at the end."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time


def command():
    """The program `fleetdb`: FLEETDB_COMMAND, or the one on the path; None if there is none."""
    return os.environ.get("FLEETDB_COMMAND") or shutil.which("fleetdb")


class Server:
    """A running server."""

    def __init__(self, *options, data=None):
        self._made = None if data else tempfile.mkdtemp(prefix="fleetdb-test-")
        self.data = data or self._made
        self._log = tempfile.TemporaryFile("w+")
        arguments = ["serve", "--data", self.data, "--http", "127.0.0.1:0", "--postgres", "off", *options]
        self._process = subprocess.Popen([command(), *arguments], stderr=self._log, stdout=self._log)
        self.url = f"http://{self._address()}"

    def _address(self):
        for _ in range(300):
            self._log.seek(0)
            found = re.search(r"127\.0\.0\.1:(\d+)", self._log.read())
            if found:
                return found[0]
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        self._log.seek(0)
        raise RuntimeError(f"the server does not start: {self._log.read()}")

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self):
        self._process.terminate()
        self._process.wait()
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)
