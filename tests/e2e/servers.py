"""A server process for every suite that needs one. This module imports no client: importing openai alone takes a second."""
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time

from conftest import BARE, MODEL, PATIENCE, SANITIZED

ENDS = PATIENCE


class Server:
    """A `lamina serve` process, and plain HTTP requests to it. It computes with one thread unless its flags say otherwise: suites run beside each
    other, and threads that wait for a processor take a quarter more of it. No response depends on their number (tests/invariants)."""

    def __init__(self, build, *flags, model=MODEL, cwd=None):
        models = [] if model is None else [str(model)]       # None: flags name the models
        sandbox = ["--no-sandbox"] if SANITIZED else []      # at exit a sanitizer inspects the process from another one
        self.process = subprocess.Popen([str(build / "src/cli/lamina"), "serve", *models, "--port", "0", *sandbox, *map(str, flags)],
                                        stderr=subprocess.PIPE, text=True, env={"LAMINA_ARG_THREADS": "1", **os.environ, **BARE}, cwd=cwd)
        self.log = []
        while not (line := self.process.stderr.readline()).startswith("listening on "):
            assert line, self.log
            self.log.append(line)
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1]) if not self.url.startswith("unix") else 0
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def ready(self):
        return self.ready_at("/health")

    def ready_at(self, path):
        until = time.time() + PATIENCE
        while time.time() < until and self.process.poll() is None:
            with contextlib.suppress(OSError):
                if self.get(path)[0] == 200:
                    return self
            time.sleep(0.02)
        raise AssertionError("".join(self.log))

    def wait_for(self, text):
        """Wait for a line with `text` on its standard error."""
        until = time.time() + PATIENCE
        while not any(text in line for line in list(self.log)):
            assert self.process.poll() is None and time.time() < until, self.log
            time.sleep(0.01)

    def ask(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        c.request(method, path, body if body is None or isinstance(body, (str, bytes)) else json.dumps(body), headers or {})
        r = c.getresponse()
        text = r.read()
        c.close()
        kind = r.getheader("Content-Type") or ""
        return r.status, json.loads(text) if kind.startswith("application/json") and text else text, r.headers

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def post(self, path, body, **options):
        return self.ask("POST", path, body, **options)

    def close(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return status

    def descriptors(self):
        """Return the number of open descriptors; 0 if the server hides them from this user: then only root sees them."""
        try:
            return len(os.listdir(f"/proc/{self.process.pid}/fd"))
        except PermissionError:
            return 0

    def stream(self, body):
        """Send a streaming request and return the socket; the response is not read."""
        text = json.dumps(body | {"stream": True})
        s = socket.create_connection(("127.0.0.1", self.port))
        s.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        return s


def raw(server, text, wait=5.0):
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as s:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):    # the server may answer before it has read everything
            s.sendall(text)
        got = b""
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while True:
                more = s.recv(65536)
                if not more:
                    break
                got += more
    return got
