"""lamina pull against a correct hub and a faulty one: layout, resumption, hashes, tokens, statuses, names, kill -9."""
import hashlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
import zlib

import fastjsonschema
import pytest
from conftest import BARE, PATIENCE, SOURCE, run, some
from hubs import COMMIT, GOLDEN, Hub, environment, git_hash, hub, leftovers, one_line, whole


@pytest.fixture
def gguf():
    whole = (GOLDEN / "gqa/model.gguf").read_bytes()
    names = ["m-Q4_K_M.gguf", "m-UD-Q4_K_M.gguf", "m.Q8_0.gguf", "big-F16-00001-of-00002.gguf", "big-F16-00002-of-00002.gguf", "mmproj-Q8_0.gguf"]
    made = Hub({n: whole + n.encode() for n in names} | {"only/here-IQ2_M.gguf": whole}, names)
    yield made
    made.server.shutdown()


@pytest.fixture
def pull(build, tmp_path):
    return lambda hub, *args, **more: run(build / "src/cli/lamina", "pull", *args, env=environment(hub, tmp_path, **more))


def test_a_folder(hub, pull, build, tmp_path):
    done = pull(hub, "org/name", HF_TOKEN="hf_secret")
    assert done.returncode == 0, done.stderr
    snapshot = whole(hub, tmp_path)
    assert done.stdout == f"{snapshot}\n" and not leftovers(tmp_path)
    assert {str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if not p.is_dir()} == set(hub.files) - {"original/model.pth", "model.bin"}
    assert all(h.get("Authorization") == "Bearer hf_secret" for _, h in hub.seen)
    n = len(hub.seen)
    again = json.loads(pull(hub, "org/name", "--json").stdout)
    fastjsonschema.compile(json.loads((SOURCE / "docs/schema/pull.schema.json").read_text()))(again)
    assert again["fetched"] == 0 and again["commit"] == COMMIT and all("resolve" not in path for path, _ in hub.seen[n:])
    offline = pull(hub, "org/name", HF_HUB_OFFLINE="1")
    assert offline.returncode == 0 and offline.stdout == done.stdout and len(hub.seen) == n + 3
    verify = run(build / "src/cli/lamina", "verify", "org/name", GOLDEN / "sharded/golden.safetensors",
                 env={**os.environ, **BARE, "HF_HUB_CACHE": str(tmp_path / "hub")})
    assert verify.returncode == 0, verify.stderr


def test_types(gguf, pull, tmp_path):
    def path(name):
        done = pull(gguf, name)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().split(COMMIT + "/")[1]
    assert path("org/name:q8_0") == "m.Q8_0.gguf" and path("org/name:F16") == "big-F16-00001-of-00002.gguf"
    assert path("org/name:only/here-IQ2_M.gguf") == path("org/name:IQ2_M") == "only/here-IQ2_M.gguf"
    assert (tmp_path / f"hub/models--org--name/snapshots/{COMMIT}/big-F16-00002-of-00002.gguf").exists()
    one_line(pull(gguf, "org/name"), 1, "m-Q4_K_M.gguf", "m-UD-Q4_K_M.gguf")
    one_line(pull(gguf, "org/name:Q4_K_M"), 1, "2 GGUF files to choose from")
    one_line(pull(gguf, "org/name:Q5_0"), 1, "no GGUF file of the type Q5_0")
    whole(gguf, tmp_path)
    del gguf.files["big-F16-00002-of-00002.gguf"]
    one_line(pull(gguf, "org/name:F16"), 1, "1 of its 2 parts")


def test_a_dry_run(hub, pull, tmp_path):
    done = pull(hub, "org/name", "--dry-run", "--json")
    document = json.loads(done.stdout)
    assert document["path"] is None and sum(f["bytes"] for f in document["files"]) == document["bytes"] and not (tmp_path / "hub").exists()
    assert "model-00004-of-00004.safetensors" in pull(hub, "org/name", "--dry-run").stdout


# ---- faulty hub ----

TARGET = "model-00002-of-00004.safetensors"


def only_target(then, times=10 ** 6):
    left = [times]

    def fault(r):
        if not r.path.endswith(TARGET) or not left[0]:
            return False
        left[0] -= 1
        return then(r) is not False
    return fault


def test_connections_that_break(hub, pull, tmp_path):
    """Bodies are cut short: each attempt continues where the last one ended."""
    hub.faults = [only_target(lambda r: hub.file(r, hub.files[TARGET], 3000))]
    assert pull(hub, "org/name").returncode == 0
    whole(hub, tmp_path)
    ranges = [h.get("Range") for path, h in hub.seen if path.endswith(TARGET)]
    assert ranges[:3] == [None, "bytes=3000-", "bytes=6000-"] and not leftovers(tmp_path)


@pytest.mark.parametrize("name", some(["whole", "other part", "other total", "longer", "wrong hash", "html"]))
def test_wrong_bytes(hub, pull, tmp_path, name):
    """Wrong bytes never get the file's name; an ignored range is repaired, and after other faults the next pull succeeds."""
    data = hub.files[TARGET]

    def part(start, total):
        def answer(r):
            if not r.headers["Range"]:
                return hub.file(r, data, 3000)
            r.send_response(206)
            r.send_header("Content-Range", f"bytes {start}-{start + 99}/{total}")
            r.send_header("Content-Length", "100")
            r.end_headers()
            r.wfile.write(data[start:start + 100])
        return answer

    def ignore_range(r):
        if not r.headers["Range"]:
            return hub.file(r, data, 3000)
        hub.send(r, 200, data)
    faults = {"whole": ignore_range, "other part": part(0, len(data)), "other total": part(3000, len(data) + 1),
              "longer": lambda r: hub.send(r, 200, data + b"x"), "wrong hash": lambda r: hub.send(r, 200, data[:-1] + b"\xff"),
              "html": lambda r: hub.send(r, 200, b"<html>please log in</html>".ljust(len(data)))}
    hub.faults = [only_target(faults[name])]
    done = pull(hub, "org/name")
    blob = tmp_path / "hub/models--org--name/blobs" / hashlib.sha256(data).hexdigest()
    if name == "whole":
        assert done.returncode == 0, done.stderr
    else:
        one_line(done, 1, TARGET)
        assert not blob.exists() and not (tmp_path / "hub/models--org--name/refs/main").exists()
        hub.faults = []
        assert pull(hub, "org/name").returncode == 0
    whole(hub, tmp_path)
    assert not leftovers(tmp_path)


def test_redirects(hub, pull, tmp_path):
    """A redirect to another host and port is followed without the token; loops and other schemes are errors."""
    other = Hub(hub.files)
    other.faults = [lambda r: hub.file(r, hub.files[TARGET]) or True]
    hub.faults = [only_target(lambda r: hub.send(r, 302, b"", {"Location": f"{other.url}/signed?key=1"}))]
    assert pull(hub, "org/name", HF_TOKEN="hf_secret").returncode == 0
    assert other.seen and not any("Authorization" in h for _, h in other.seen)
    whole(hub, tmp_path)
    for where, words in (("/org/name/loop", "redirects"), ("ftp://127.0.0.1/x", "not https"), ("file:///etc/passwd", "not https")):
        def loop(r):
            if "resolve" in r.path or r.path.endswith("loop"):
                hub.send(r, 302, b"", {"Location": where})
                return True
        hub.faults = [loop]
        hub.files["README.md"] += b"."
        one_line(pull(hub, "org/name"), 1, words)
    other.server.shutdown()


def test_redirects_without_a_scheme(hub, pull):
    hub.faults = [only_target(lambda r: hub.send(r, 302, b"", {"Location": "//127.0.0.1:1/x"}))]
    one_line(pull(hub, "org/name", HF_TOKEN="hf_secret"), 1, "not https")


@pytest.mark.parametrize("first", [0, 3000])
def test_416(hub, pull, tmp_path, first):
    """A range begins past the end because the local part is longer than the server's file: an error, and nothing gets a name."""
    data = hub.files[TARGET]

    def answer(r):
        if not r.headers["Range"]:
            return hub.file(r, data, first or 1)
        hub.send(r, 416, b"", {"Content-Range": f"bytes */{first}"})
    hub.faults = [only_target(answer)]
    one_line(pull(hub, "org/name"), 1, TARGET, "status 416")
    assert not (tmp_path / "hub/models--org--name/blobs" / hashlib.sha256(data).hexdigest()).exists()
    hub.faults = []
    assert pull(hub, "org/name").returncode == 0
    whole(hub, tmp_path)


def test_gzip_bombs(hub, pull, tmp_path):
    """Nothing is inflated, whatever the header claims: neither a listing of 256 MiB compressed to a quarter of a MiB, nor a file."""
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(256)) + bomb.flush()
    hub.faults = [lambda r: hub.send(r, 200, body, {"Content-Encoding": "gzip"}) or True]
    one_line(pull(hub, "org/name"), 1, "did not answer as a hub does")
    hub.faults = [only_target(lambda r: hub.send(r, 200, body, {"Content-Encoding": "gzip"}))]
    one_line(pull(hub, "org/name"), 1, TARGET)
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file() and not p.is_symlink()) < sum(map(len, hub.files.values())) + 10000
    assert all(h.get("Accept-Encoding") == "identity" for _, h in hub.seen)


def test_changed_midway(hub, pull, tmp_path):
    """The file changes on the server after half of it: its hash differs, and the whole file is fetched again, once."""
    data, halves = hub.files[TARGET], []

    def changing(r):
        if halves:
            return False
        halves.append(1)
        hub.file(r, bytes(len(data)), 3000)
    hub.faults = [only_target(changing)]
    assert pull(hub, "org/name").returncode == 0
    whole(hub, tmp_path)
    ranges = [h.get("Range") for path, h in hub.seen if path.endswith(TARGET)]
    assert ranges == [None, "bytes=3000-", None]


def test_a_push_midway(hub, pull, tmp_path):
    """Every request names the commit found first, so that files of a later one are not mixed in."""
    def pushed(r):
        if "/revision/" in r.path and len(hub.seen) > 1:
            hub.send(r, 200, json.dumps({"sha": "f" * 40}).encode())
            return True
    hub.faults = [pushed]
    assert pull(hub, "org/name").returncode == 0
    assert all(COMMIT in path for path, _ in hub.seen[1:])
    whole(hub, tmp_path)


def test_resets_at_random(hub, pull, tmp_path):
    """Files are cut at random places, by a reset instead of an end; the download continues as long as bytes arrive."""
    dice = random.Random(7)

    def reset(r):
        if "/resolve/" not in r.path or dice.random() < 0.4:
            return False
        data = hub.files[r.path.split(f"{COMMIT}/")[1]]
        hub.file(r, data, dice.randrange(1, max(2, len(data) // 3)))
        r.wfile.flush()
        r.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        r.connection.close()
        return True
    hub.faults = [reset]
    for _ in range(6):
        if pull(hub, "org/name").returncode == 0:
            break
    else:
        raise AssertionError("never whole")
    whole(hub, tmp_path)
    assert not leftovers(tmp_path)


def test_proxies(hub, pull, tmp_path):
    """Every request goes to the proxy of the environment, and none does to a host that NO_PROXY exempts."""
    proxy = Hub(hub.files, hub.large)
    handle = proxy.answer

    def through(r):
        assert r.path.startswith(hub.url)
        r.path = r.path[len(hub.url):]
        handle(r)
    proxy.answer = through
    proxy.url = hub.url
    address = f"http://user:secret@127.0.0.1:{proxy.server.server_address[1]}"
    for name in ("http_proxy", "ALL_PROXY"):
        n = len(proxy.seen)
        done = pull(hub, "org/name", **{name: address})
        assert done.returncode == 0 and not hub.seen and len(proxy.seen) > n, done.stderr
        assert all(h.get("Proxy-Authorization", "").startswith("Basic ") for _, h in proxy.seen)
    n = len(proxy.seen)
    assert pull(hub, "org/name", http_proxy=address, NO_PROXY="127.0.0.1").returncode == 0
    assert len(proxy.seen) == n and hub.seen
    proxy.server.shutdown()
    one_line(pull(hub, "org/name", http_proxy="http://127.0.0.1:1"), 1, "org/name")


@pytest.mark.parametrize("status, headers, token, words", [
    (401, {}, "", "set HF_TOKEN"), (401, {}, "hf_x", "token is not valid"), (401, {"X-Error-Code": "GatedRepo"}, "", "log in"),
    (403, {"X-Error-Code": "GatedRepo"}, "hf_x", "terms"), (403, {"X-Error-Message": "Access to this resource is disabled."}, "", "disabled"),
    (404, {"X-Error-Code": "RepoNotFound"}, "", "no such model"), (404, {"X-Error-Code": "RevisionNotFound"}, "", "no such revision"),
    (418, {}, "", "418")])
def test_statuses(hub, pull, status, headers, token, words):
    hub.faults = [lambda r: hub.send(r, status, b"", headers) or True]
    one_line(pull(hub, "org/name", HF_TOKEN=token), 1, words)
    assert len(hub.seen) == 1


def test_busy(hub, pull, tmp_path):
    """pull waits and retries after 429 with Retry-After, 503 and 500, and reports the pause; too long a pause is an error."""
    answers = [(429, {"Retry-After": "1"}), (503, {}), (500, {})]

    def busy(r):
        if not answers:
            return False
        status, headers = answers.pop(0)
        hub.send(r, status, b"", headers)
        return True
    hub.faults = [busy]
    done = pull(hub, "org/name")
    assert done.returncode == 0 and "a pause of 1 s (status 429)" in done.stderr
    whole(hub, tmp_path)
    hub.faults = [lambda r: hub.send(r, 429, b"", {"Retry-After": "100000"}) or True]
    one_line(pull(hub, "org/name"), 1, "status 429")


def test_slow_bytes(hub, pull):
    def slow(r):
        r.send_response(200)
        r.send_header("Content-Length", "100000")
        r.end_headers()
        for _ in range(200):
            r.wfile.write(b"x")
            time.sleep(0.05)
    hub.faults = [only_target(slow)]
    hub.files[TARGET] = b"x" * 100000
    one_line(pull(hub, "org/name", HF_HUB_DOWNLOAD_TIMEOUT="1"), 1, TARGET)


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil", "a//b", "a\\b", "c:evil", "a\nb", "x" * 300, ".", "a/./b"])
def test_evil_names(hub, pull, tmp_path, path):
    hub.files[path] = b"evil"
    one_line(pull(hub, "org/name"), 1, "not safe")
    assert not (tmp_path / "hub").exists()


@pytest.mark.parametrize("name", ["name", "org/", "/name", "../name", "org/../x", "org/name:", "org/name@", "org/name@..", "a/b/c", "org/na me", "org/name:../x"])
def test_invalid_names(hub, pull, name):
    one_line(pull(hub, name), 2)
    assert not hub.seen


@pytest.mark.parametrize("length, refused", [(199, False), (200, True), (250, True)])
def test_a_long_revision_is_refused_and_never_cut(hub, pull, length, refused):
    for name, flags in ((f"org/name@{'r' * length}", []), ("org/name", ["--revision", "r" * length])):
        hub.seen.clear()
        done = pull(hub, name, *flags)
        if refused:
            one_line(done, 2, f"revision: {length} bytes; at most 199")
            assert not hub.seen
        else:
            assert any(path.endswith("r" * length) for path, _ in hub.seen)


def test_a_long_listing_is_refused(hub, pull):
    """A page of the listing is parsed in memory, of which it takes many times its size."""
    page = json.dumps([hub.entry("config.json")] * 60000).encode()
    assert len(page) > 4 << 20
    hub.faults = [lambda r: "/tree/" in r.path and (hub.send(r, 200, page) or True)]
    one_line(pull(hub, "org/name"), 1, "4194304")


def test_a_hub_that_ignores_ranges_is_given_up(hub, pull):
    """Each answer begins at the first byte and breaks a little earlier or later: only bytes beyond the furthest count as progress."""
    sizes = iter([3000, *[n for _ in range(2000) for n in (1000, 2000)]])
    def breaking(r):
        del r.headers["Range"]
        hub.file(r, hub.files[TARGET], next(sizes))
    hub.faults = [only_target(breaking)]
    one_line(pull(hub, "org/name"), 1, TARGET)
    assert len([1 for path, _ in hub.seen if path.endswith(TARGET)]) < 10


def test_an_index_of_many_tensors(hub, pull, tmp_path):
    """400,000 tensors in 4,000 files are matched in the time of a sort, not of a product."""
    shards = {f"model-{i:05}.safetensors": b"x" for i in range(4000)}
    names = sorted(shards)
    hub.files |= shards | {"model.safetensors.index.json": json.dumps({"weight_map": {f"t{i}": names[-1 - i % 7] for i in range(400000)}}).encode()}
    done = pull(hub, "org/name", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert [f["path"] for f in json.loads(done.stdout)["files"] if f["path"].startswith("model-0")] == names[-7:]


def test_invalid_listings(hub, pull):
    for body in (b"", b"<html>", b"{}", b"[1]", b"[" * 100000, json.dumps({"sha": "../../x"}).encode(), json.dumps({"sha": COMMIT.upper()}).encode()):
        hub.faults = [lambda r: hub.send(r, 200, body) or True]
        one_line(pull(hub, "org/name"), 1, "did not answer as a hub does")
    for entry in ({"size": -1}, {"size": "12"}, {"oid": "xyz"}, {"size": 1.5}):
        def listing(r):
            if "/tree/" not in r.path:
                return False
            hub.send(r, 200, json.dumps([{**hub.entry("config.json"), **entry}]).encode())
            return True
        hub.faults = [listing]
        one_line(pull(hub, "org/name"), 1, "config.json", "size and hash")
    hub.faults = [lambda r: "/tree/" in r.path and (hub.send(r, 200, b"[]", {"Link": '<http://127.0.0.2:1/x>; rel="next"'}) or True)]
    one_line(pull(hub, "org/name"), 1, "another address")


# ---- concurrency ----

def test_connections(hub, pull, tmp_path):
    """As many files are fetched concurrently as --connections allows; the default is 4."""
    for given, expected in (((), 4), (("--connections", "1"), 1), (("--connections", "3"), 3)):
        lock, reached, now, most = threading.Lock(), threading.Event(), [0], [0]

        def counted(r):
            """Hold every request until the expected number runs at once, however slow the machine is."""
            if "/resolve/" not in r.path or r.path.endswith(".index.json"):      # fetched alone, before the others
                return False
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
                if now[0] >= expected:
                    reached.set()
            reached.wait(PATIENCE)
            time.sleep(0.05)                # time in which one connection too many would be counted
            with lock:
                now[0] -= 1
            return False
        for blob in (tmp_path / "hub").rglob("blobs/*"):
            blob.unlink()
        hub.faults = [counted]
        assert pull(hub, "org/name", *given, HF_HUB_DOWNLOAD_TIMEOUT=str(PATIENCE)).returncode == 0      # held requests are not repeated
        assert most[0] == expected
        whole(hub, tmp_path)


def test_processes_at_once(hub, build, tmp_path):
    """Three concurrent pulls of one model succeed, and every file is fetched once."""
    hub.faults = [lambda r: time.sleep(0.02)]
    made = [subprocess.Popen([build / "src/cli/lamina", "pull", "org/name", "-q"], env=environment(hub, tmp_path), stdout=subprocess.PIPE) for _ in range(3)]
    paths = {p.communicate(timeout=PATIENCE)[0] for p in made}
    assert [p.returncode for p in made] == [0, 0, 0] and len(paths) == 1
    whole(hub, tmp_path)
    requested = [path for path, _ in hub.seen if "/resolve/" in path]
    assert len(requested) == len(set(requested)) and not leftovers(tmp_path)


def test_progress(hub, build, tmp_path):
    """A terminal shows the rate, the remaining time and the number of files; without a terminal nothing is shown."""
    hub.files[TARGET] = os.urandom(400_000)

    def slow(r):
        data = hub.files[TARGET]
        r.send_response(200)
        r.send_header("Content-Length", str(len(data)))
        r.end_headers()
        for at in range(0, len(data), 10_000):
            r.wfile.write(data[at:at + 10_000])
            time.sleep(0.06)
    hub.faults = [only_target(slow)]
    master, slave = os.openpty()
    made = subprocess.Popen([build / "src/cli/lamina", "pull", "org/name"], env=environment(hub, tmp_path, TERM="xterm"), stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    text = b""
    try:
        while piece := os.read(master, 4096):
            text += piece
    except OSError:
        pass
    assert made.wait(timeout=PATIENCE) == 0
    assert re.search(rb"fetching \[#+ *\] +\d+ %  [\d.]+ [kM]?B/s, \d+ s left, \d+/\d+ files", text), text[-2000:]
    quiet = run(build / "src/cli/lamina", "pull", "org/name", env=environment(hub, tmp_path))
    assert quiet.stderr == ""


# ---- SIGKILL ----

def test_killed_at_many_points(hub, build, tmp_path):
    """Blobs under their final names are whole; the next pull completes and leaves no partial file behind."""
    hub.files[TARGET] = os.urandom(3_000_000)
    hub.files["model.safetensors.index.json"] = json.dumps({"weight_map": {"a": TARGET}}).encode()
    env = environment(hub, tmp_path)
    for i in range(12 if len(some(range(4))) == 1 else 50):
        made = subprocess.Popen([build / "src/cli/lamina", "pull", "org/name", "-q"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.002 * i)
        made.send_signal(signal.SIGKILL)
        made.wait()
        for blob in (tmp_path / "hub").rglob("blobs/*"):
            if ".incomplete" not in blob.name:
                data = blob.read_bytes()
                assert blob.name in (git_hash(data), hashlib.sha256(data).hexdigest())
        if i % 8 == 7:
            for blob in (tmp_path / "hub").rglob("blobs/*"):
                blob.unlink()
    assert run(build / "src/cli/lamina", "pull", "org/name", env=env).returncode == 0
    whole(hub, tmp_path)
    assert not [p for p in leftovers(tmp_path) if ".incomplete" in p.name]
