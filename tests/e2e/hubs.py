"""A hub on this machine, with injected faults where a test adds them. Its main repository is org/name."""
import hashlib
import http.server
import json
import os
import re
import threading

import pytest
from conftest import BARE, SOURCE, run

GOLDEN = SOURCE / "tests/golden/llama"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """Serve the files of org/name, and those of `others` under their names; a function in `faults` may answer instead."""

    def __init__(self, files, large=(), others=()):
        self.files, self.large, self.faults, self.seen = files, set(large), [], []
        self.repositories = {"org/name": files, **dict(others)}
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                hub.seen.append((self.path, dict(self.headers)))
                for fault in list(hub.faults):
                    if fault(self):
                        return
                hub.answer(self)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *args: None    # connections that the client resets
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()      # seconds between checks for shutdown()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def entry(self, path, data=None):
        data = self.files[path] if data is None else data
        if path in self.large:
            return {"type": "file", "oid": "0" * 40, "size": 130, "path": path, "lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}}
        return {"type": "file", "oid": git_hash(data), "size": len(data), "path": path}

    def answer(self, r):
        path = r.path.split("?")[0]
        found = re.fullmatch(rf"(?:/api/models)?/([^/]+/[^/]+)/(?:(revision)/.*|(tree)/{COMMIT}|resolve/{COMMIT}/(.*))", path)
        files = self.repositories.get(found[1]) if found else None
        if files is not None and found[2]:
            return self.send(r, 200, json.dumps({"sha": COMMIT}).encode())
        if files is not None and found[3]:
            names = sorted(files)
            half = (len(names) + 1) // 2
            entries = [self.entry(n) if files is self.files else self.entry(n, files[n]) for n in names]
            if "cursor" in r.path:
                return self.send(r, 200, json.dumps(entries[half:]).encode())
            more = {"Link": f'<{self.url}{path}?recursive=true&cursor=1>; rel="next"'}
            return self.send(r, 200, json.dumps(entries[:half]).encode(), more)
        if files is not None and found[4] in files:
            return self.file(r, files[found[4]])
        return self.send(r, 404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def file(self, r, data, stop=None):
        start, end = r.headers["Range"].split("=")[1].split("-") if r.headers["Range"] else ("", "")
        body = data[int(start or 0):int(end) + 1 if end else len(data)]
        r.send_response(206 if start else 200)
        if start:
            r.send_header("Content-Range", f"bytes {start}-{int(start) + len(body) - 1}/{len(data)}")
        r.send_header("Content-Length", str(len(body)))
        r.end_headers()
        r.wfile.write(body if stop is None else body[:stop])
        if stop is not None:
            r.close_connection = True

    @staticmethod
    def send(r, status, body, headers={}):
        r.send_response(status)
        for k, v in headers.items():
            r.send_header(k, v)
        r.send_header("Content-Length", str(len(body)))
        r.end_headers()
        r.wfile.write(body)


def folder_files():
    files = {f.name: f.read_bytes() for f in (GOLDEN / "sharded").iterdir() if f.suffix in (".json", ".safetensors") and f.name != "golden.safetensors"}
    files |= {"README.md": b"# hello\n", "original/model.pth": b"never", "model.bin": b"never", "additional_chat_templates/tools.jinja": b"{{ x }}"}
    return files


@pytest.fixture
def hub():
    """A hub whose repository is a folder of four shards."""
    files = folder_files()
    made = Hub(files, [n for n in files if n.endswith(".safetensors")])
    yield made
    made.server.shutdown()


def environment(hub, tmp_path, **more):
    """Return the environment of a process that knows only this hub."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and k.lower() not in ("http_proxy", "https_proxy", "all_proxy", "no_proxy")}
    return env | {**BARE, "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "hub"), "HOME": str(tmp_path), "HF_HUB_DOWNLOAD_TIMEOUT": "2", **more}


def one_line(done, status, *words):
    error = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == status and len(error) == 1 and all(w in error[0] for w in words), done.stderr


def leftovers(tmp_path):
    return [p for p in tmp_path.rglob("*") if ".incomplete" in p.name or p.name.endswith(".lamina") or p.name.startswith(".lamina-")]


def whole(hub, tmp_path):
    """Check that every file of the snapshot is a relative link to a blob with its bytes and that main is its commit; return its path."""
    root = tmp_path / "hub/models--org--name"
    snapshot = root / "snapshots" / COMMIT
    for path in snapshot.rglob("*"):
        if not path.is_dir():
            data = hub.files[str(path.relative_to(snapshot))]
            assert path.is_symlink() and os.readlink(path).startswith("../") and path.read_bytes() == data
            assert path.resolve().parent == root / "blobs" and path.resolve().name in (git_hash(data), hashlib.sha256(data).hexdigest())
    assert (root / "refs/main").read_bytes() == COMMIT.encode()
    return snapshot
