"""The cache: list, rm, verify-cache; lamina reads the cache of huggingface_hub, and huggingface_hub reads lamina's."""
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys

import fastjsonschema
import pytest
from conftest import BARE, PATIENCE, SOURCE, run
from hubs import COMMIT, GOLDEN, Hub, environment, git_hash, hub, leftovers, one_line, whole

OTHER = "f" * 40
SCHEMA = fastjsonschema.compile(json.loads((SOURCE / "docs/schema/pull.schema.json").read_text()))


@pytest.fixture
def pull(build, tmp_path):
    return lambda hub, *args, **more: run(build / "src/cli/lamina", "pull", *args, env=environment(hub, tmp_path, **more))


def document(done):
    found = json.loads(done.stdout)
    SCHEMA(found)
    return found


def two_snapshots(hub, pull, tmp_path):
    """Create a snapshot of main and one of an older commit, which shares all blobs except one and has one of its own."""
    assert pull(hub, "org/name").returncode == 0
    root = tmp_path / "hub/models--org--name"
    old = root / "snapshots" / OTHER
    shutil.copytree(root / "snapshots" / COMMIT, old, symlinks=True)
    (old / "README.md").unlink()
    blob = root / "blobs" / git_hash(b"older")
    blob.write_bytes(b"older")
    (old / "README.md").symlink_to(f"../../blobs/{blob.name}")
    (root / "refs/v1").mkdir()
    (root / "refs/v1/old").write_text(OTHER)
    return root, old, blob


def test_list(hub, pull, tmp_path):
    empty = pull(hub, "list")
    assert empty.returncode == 0 and empty.stdout == "" and "no models" in empty.stderr
    root, old, _ = two_snapshots(hub, pull, tmp_path)
    (tmp_path / "hub/models--evil").mkdir()
    (tmp_path / "hub/models--a--b").symlink_to("/etc")
    n = len(hub.seen)
    table = pull(hub, "list").stdout.splitlines()
    assert len(table) == 3 and table[1].split()[:3] == ["org/name", "main", COMMIT[:12]] and table[2].split()[:3] == ["org/name", "v1/old", OTHER[:12]]
    found = document(pull(hub, "list", "--json"))["snapshots"]
    wanted = {n: d for n, d in hub.files.items() if n not in ("original/model.pth", "model.bin")}
    assert [s["revisions"] for s in found] == [["main"], ["v1/old"]] and found[0]["files"] == len(wanted)
    assert found[0]["bytes"] == sum(map(len, wanted.values())) and found[0]["missing"] == 0 and found[0]["path"] == str(root / "snapshots" / COMMIT)
    assert [s["commit"] for s in document(pull(hub, "list", "org/name@v1/old", "--json"))["snapshots"]] == [OTHER]
    one_line(pull(hub, "list", "org/none"), 1, "org/none", "not in the cache")
    assert len(hub.seen) == n


def test_rm(hub, pull, tmp_path):
    root, old, blob = two_snapshots(hub, pull, tmp_path)
    dry = document(pull(hub, "rm", "org/name@v1/old", "--dry-run", "--json"))
    assert not dry["removed"] and dry["freed"] == 5 and blob.exists()
    done = pull(hub, "rm", "org/name@v1/old")
    assert done.returncode == 0 and done.stdout == "" and "5 B" in done.stderr
    assert not old.exists() and not blob.exists() and not (root / "refs/v1/old").exists()
    whole(hub, tmp_path)
    gone = document(pull(hub, "rm", "org/name", "--json"))
    assert gone["removed"] and gone["freed"] == sum(len(d) for n, d in hub.files.items() if n not in ("original/model.pth", "model.bin"))
    assert not root.exists()
    one_line(pull(hub, "rm", "org/name"), 1, "not in the cache")
    one_line(pull(hub, "rm"), 2, "requires a model")
    one_line(pull(hub, "rm", "org/name", "--connections", "2"), 2, "takes no flag but --dry-run")
    one_line(pull(hub, "rm", "../name"), 2)


def test_rm_keeps_needed_files(hub, pull, tmp_path):
    root, old, blob = two_snapshots(hub, pull, tmp_path)
    assert pull(hub, "rm", f"org/name@{COMMIT}").returncode == 0
    assert {p.name for p in (root / "blobs").iterdir()} == {p.resolve().name for p in old.rglob("*") if p.is_symlink()}
    assert not (root / "refs/main").exists() and (root / "refs/v1/old").exists() and not (root / "snapshots" / COMMIT).exists()


def test_rm_of_a_type(pull, tmp_path):
    whole_file = (GOLDEN / "gqa/model.gguf").read_bytes()
    names = ["m-Q4_K_M.gguf", "m.Q8_0.gguf", "big-F16-00001-of-00002.gguf", "big-F16-00002-of-00002.gguf"]
    hub = Hub({n: whole_file + n.encode() for n in names}, names)
    for kind in ("Q4_K_M", "Q8_0", "F16"):
        assert pull(hub, f"org/name:{kind}").returncode == 0
    assert pull(hub, "rm", "org/name:F16").returncode == 0
    snapshot = tmp_path / f"hub/models--org--name/snapshots/{COMMIT}"
    assert sorted(p.name for p in snapshot.iterdir()) == names[:2] and len(list((tmp_path / "hub/models--org--name/blobs").iterdir())) == 2
    one_line(pull(hub, "rm", "org/name:Q5_0"), 1, "not in the cache")
    for kind in ("Q4_K_M", "Q8_0"):
        assert pull(hub, "rm", f"org/name:{kind}").returncode == 0
    assert not (tmp_path / "hub/models--org--name").exists()
    hub.server.shutdown()


def test_rm_follows_no_link(hub, pull, tmp_path):
    """Planted links that lead out of the cache are removed; their targets are not."""
    assert pull(hub, "org/name").returncode == 0
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ("a" * 40)).write_bytes(b"mine")
    root = tmp_path / "hub/models--org--name"
    (root / "snapshots" / COMMIT / "evil.json").symlink_to(outside / ("a" * 40))
    (root / "snapshots" / COMMIT / "further").symlink_to(outside)
    (root / "snapshots" / COMMIT / "up.json").symlink_to(f"../../../../outside/blobs/{'a' * 40}")
    flaws = {f["path"]: f["problem"] for f in document(pull(hub, "verify-cache", "--json"))["flaws"]}
    assert flaws == {"evil.json": "missing", "further": "missing", "up.json": "missing"}
    assert pull(hub, "rm", "org/name").returncode == 0
    assert not root.exists() and (outside / ("a" * 40)).read_bytes() == b"mine"


@pytest.mark.parametrize("planted", ["snapshots/COMMIT", "snapshots", "blobs", "refs"])
def test_rm_follows_no_folder_that_is_a_link(hub, pull, tmp_path, planted):
    """A folder of the cache that leads elsewhere: nothing there is removed."""
    assert pull(hub, "org/name").returncode == 0
    root, outside = tmp_path / "hub/models--org--name", tmp_path / "outside"
    at = root / planted.replace("COMMIT", COMMIT)
    shutil.move(at, outside)
    at.symlink_to(outside)
    before = sorted(p.relative_to(outside) for p in outside.rglob("*"))
    done = pull(hub, "rm", "org/name")
    assert sorted(p.relative_to(outside) for p in outside.rglob("*")) == before and before
    assert done.returncode == (1 if planted in ("blobs", "refs") else done.returncode), done.stderr


@pytest.mark.parametrize("planted", ["", "snapshots", "snapshots/COMMIT", "blobs", "refs", ".locks"])
def test_a_pull_writes_through_no_link(hub, pull, tmp_path, planted):
    root, outside = tmp_path / "hub/models--org--name", tmp_path / "outside"
    at = tmp_path / "hub/.locks" if planted == ".locks" else root / planted.replace("COMMIT", COMMIT)
    at.parent.mkdir(parents=True)
    outside.mkdir()
    at.symlink_to(outside)
    one_line(pull(hub, "org/name"), 1, "is a link, which is not followed")
    assert not list(outside.iterdir())


def test_rm_during_a_pull(hub, pull, tmp_path):
    assert pull(hub, "org/name").returncode == 0
    lock = next((tmp_path / "hub/.locks/models--org--name").iterdir())
    with open(lock) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        one_line(pull(hub, "rm", "org/name"), 2, "org/name", "another process fetches it now")
    whole(hub, tmp_path)


def test_verify_cache(hub, pull, tmp_path):
    root, old, _ = two_snapshots(hub, pull, tmp_path)
    done = pull(hub, "verify-cache")
    assert done.returncode == 0 and done.stdout == "" and "the bytes of their hashes" in done.stderr
    shard = root / "blobs" / hashlib.sha256(hub.files["model-00001-of-00004.safetensors"]).hexdigest()
    data = shard.read_bytes()
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    (root / "blobs" / git_hash(hub.files["config.json"])).unlink()
    found = pull(hub, "verify-cache", "--json")
    flaws = {(f["path"], f["problem"]) for f in document(found)["flaws"]}
    assert found.returncode == 5 and flaws == {("config.json", "missing"), ("model-00001-of-00004.safetensors", "damaged")}
    text = pull(hub, "verify-cache", "org/name@main")
    one_line(text, 5, "2 files of")
    assert text.stdout.splitlines() == ["missing  org/name config.json", "damaged  org/name model-00001-of-00004.safetensors"]
    mended = pull(hub, "verify-cache", "--repair")
    one_line(mended, 5)
    assert "(removed)" in mended.stdout and not shard.exists()
    n = len(hub.seen)
    assert pull(hub, "org/name").returncode == 0
    assert sorted(path.split("/")[-1] for path, _ in hub.seen[n:] if "resolve" in path) == ["config.json", "model-00001-of-00004.safetensors"]
    assert pull(hub, "verify-cache").returncode == 0
    whole(hub, tmp_path)


# ---- huggingface_hub ----

PYTHON = """
import json, sys
import huggingface_hub as h
from huggingface_hub import scan_cache_dir, snapshot_download
what, arguments = sys.argv[1], json.loads(sys.argv[2])
if what == "download":
    print(snapshot_download("org/name", **arguments))
else:
    info = scan_cache_dir()
    assert not info.warnings, info.warnings
    print(json.dumps([[r.repo_id, v.commit_hash, sorted(v.refs), sorted((f.file_name, f.size_on_disk) for f in v.files)]
                      for r in info.repos for v in r.revisions]))
"""


def with_huggingface_hub():
    """Return an interpreter that has huggingface_hub: the tests' own, or that of build/oracle; None if neither has it."""
    for found in (sys.executable, SOURCE / "build/oracle/bin/python"):
        if shutil.which(found) and run(found, "-c", "import huggingface_hub").returncode == 0:
            return found
    return None


def python(hub, tmp_path, what, **arguments):
    env = environment(hub, tmp_path, HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1",
                      HF_HUB_DISABLE_SHARED_BLOBS="1", HF_HUB_OFFLINE="1" if arguments.pop("offline", False) else "0")
    done = run(with_huggingface_hub(), "-c", PYTHON, what, json.dumps(arguments), env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def heads(hub):
    """Answer what huggingface_hub requests in addition: the model's document, and HEAD of every file."""
    handler = hub.server.RequestHandlerClass

    def do_head(r):
        hub.seen.append((r.path, dict(r.headers)))
        name = r.path.split("?")[0].split(f"{COMMIT}/")[-1]
        data = hub.files[name]
        r.send_response(200)
        r.send_header("X-Repo-Commit", COMMIT)
        r.send_header("ETag", f'"{git_hash(data)}"')
        if name in hub.large:
            r.send_header("X-Linked-Etag", f'"{hashlib.sha256(data).hexdigest()}"')
            r.send_header("X-Linked-Size", str(len(data)))
        r.send_header("Content-Length", str(len(data)))
        r.end_headers()
    handler.do_HEAD = do_head

    def model(r):
        if r.path.split("?")[0].startswith("/api/models/org/name/revision/"):
            hub.send(r, 200, json.dumps({"id": "org/name", "sha": COMMIT, "siblings": [{"rfilename": n} for n in hub.files]}).encode())
            return True
    hub.faults = [model]


@pytest.fixture
def both(hub):
    if not with_huggingface_hub():
        pytest.skip("huggingface_hub is not installed here")
    heads(hub)
    return hub


def test_python_finds_downloads_of_lamina(both, pull, tmp_path):
    assert pull(both, "org/name").returncode == 0
    snapshot = whole(both, tmp_path)
    wanted = sorted((n.split("/")[-1], len(d)) for n, d in both.files.items() if n not in ("original/model.pth", "model.bin"))
    assert json.loads(python(both, tmp_path, "scan")) == [["org/name", COMMIT, ["main"], [list(w) for w in wanted]]]
    n = len(both.seen)
    assert python(both, tmp_path, "download", offline=True) == str(snapshot) and len(both.seen) == n
    python(both, tmp_path, "download", ignore_patterns=["*.bin", "*.pth"])
    blobs = {p.name for p in (tmp_path / "hub/models--org--name/blobs").iterdir()}
    assert len(blobs) == len({d for name, d in both.files.items() if not name.endswith((".bin", ".pth"))})


def test_lamina_finds_downloads_of_python(both, pull, build, tmp_path):
    path = python(both, tmp_path, "download", ignore_patterns=["*.bin", "*.pth"])
    n = len(both.seen)
    done = pull(both, "org/name", "--json")
    assert document(done)["fetched"] == 0 and document(done)["path"] == path, done.stderr
    assert not [p for p, _ in both.seen[n:] if "/resolve/" in p]
    assert pull(both, "verify-cache").returncode == 0 and not leftovers(tmp_path)
    found = document(pull(both, "list", "--json"))["snapshots"]
    assert [(s["model"], s["commit"], s["revisions"], s["missing"]) for s in found] == [("org/name", COMMIT, ["main"], 0)]
    verify = run(build / "src/cli/lamina", "verify", "org/name", GOLDEN / "sharded/golden.safetensors",
                 env={**os.environ, **BARE, "HF_HUB_CACHE": str(tmp_path / "hub")})
    assert verify.returncode == 0, verify.stderr
    assert pull(both, "rm", "org/name").returncode == 0
    assert json.loads(python(both, tmp_path, "scan")) == []


def test_both_at_once(both, build, tmp_path):
    """lamina and Python use the same lock: concurrent downloads of the same files give one result."""
    made = subprocess.Popen([build / "src/cli/lamina", "pull", "org/name", "-q"], env=environment(both, tmp_path), stdout=subprocess.PIPE)
    path = python(both, tmp_path, "download", ignore_patterns=["*.bin", "*.pth"])
    out, _ = made.communicate(timeout=PATIENCE)
    assert made.returncode == 0 and out.decode().strip() == path
    whole(both, tmp_path)
