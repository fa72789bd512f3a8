"""lamina doctor: the shape that scripts read, and plausible numbers. No test here judges speed."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import MODEL, explains, run

os.environ.pop("LAMINA_CPU", None)                       # doctor describes the whole machine; tests below select lower levels


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def doctor(lamina, cache, *flags, **environment):
    env = {**os.environ, "LAMINA_CACHE": str(cache), **environment}
    done = run(lamina, "doctor", "--json", *flags, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def cache(limits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    shutil.copy(limits, folder)
    return folder


ONE = ("--threads", "1")             # what is measured now: on all threads it would take as much more of the processors, and show the same


@pytest.fixture(scope="module")
def measured(lamina, tmp_path_factory):
    """Return the file of the limits of one thread, marked as made without load: one made under load is measured again after ten minutes."""
    folder = tmp_path_factory.mktemp("measured")
    assert doctor(lamina, folder, *ONE)["limits"]["measured_now"]
    (path,) = folder.glob("limits-*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"busy": 0.0}))
    return path


def test_shape(lamina, cache):
    d = doctor(lamina, cache)
    assert list(d) == ["schema", "version", "cpu", "limits", "memory", "ulimit", "disk", "libraries", "locale", "cache", "warnings"]
    cpu, limits = d["cpu"], d["limits"]
    assert cpu["name"] and 1 <= cpu["cores"] <= cpu["threads"]
    assert cpu["levels"][0] == "ref" and cpu["levels"][-1] == cpu["detected"] and cpu["usable"] in cpu["levels"]
    assert limits["level"] == cpu["usable"] and limits["threads"] == cpu["cores"]
    for kind in ("int8", "bf16", "f32", "memory"):
        rate = limits[kind]
        assert rate is None and kind == "bf16" or rate["best"] >= rate["all_threads"] > 1e6 and rate["one_thread"] > 1e6 and rate["by"]
    assert 0 <= limits["busy"] < 1 and (limits["busy"] > 0.1) == any("other work" in w for w in d["warnings"])
    assert 0 < d["memory"]["available"] <= d["memory"]["total"]
    assert set(d["libraries"]) - {"MPI"} == {"glibc", "jansson", "pcre2", "utf8proc", "libsodium", "libedit"}
    assert all(v[0].isdigit() for name, v in d["libraries"].items() if name != "MPI")
    assert re.search(r"MPI.*\d+\.\d+|MPICH", d["libraries"].get("MPI", "MPI 0.0"))
    assert d["cache"]["exists"] and d["cache"]["models"] == []


def test_measurements_are_stored_until_fresh_ones_are_requested(lamina, measured, tmp_path):
    path = pathlib.Path(shutil.copy(measured, tmp_path))
    first, again = (doctor(lamina, tmp_path, *ONE)["limits"] for _ in range(2))
    assert not again["measured_now"] and again["seconds"] == 0 and again["memory"] == first["memory"]
    fresh = doctor(lamina, tmp_path, *ONE, "--fresh")["limits"]
    assert fresh["measured_now"] and (fresh["memory"] != first["memory"] or fresh["mark"] == "below the best known")
    kept = doctor(lamina, tmp_path, *ONE)["limits"]                        # the better of both
    assert all(kept[kind]["all_threads"] == max(first[kind]["all_threads"], fresh[kind]["all_threads"]) for kind in ("int8", "memory"))
    path.write_text("{")                                                   # a broken file is measured again, not trusted
    assert doctor(lamina, tmp_path, *ONE)["limits"]["measured_now"]


def test_lower_measurements_are_not_the_limit(lamina, measured, tmp_path):
    """If the cached limits are a thousand times what the machine reaches, doctor measures again, but reports and stores the cached ones."""
    path = pathlib.Path(shutil.copy(measured, tmp_path))
    known = json.loads(path.read_text())
    for kind in ("int8", "bf16", "f32", "memory"):
        known[kind] |= {key: 1000 * known[kind][key] for key in ("one", "all", "best")}
    path.write_text(json.dumps(known | {"busy": 0.0}))
    d = doctor(lamina, tmp_path, *ONE, "--fresh")
    assert d["limits"]["mark"] == "below the best known" and d["limits"]["below"] > 0.1 and d["limits"]["measured_now"]
    assert any("slower just now" in w for w in d["warnings"])
    assert d["limits"]["int8"]["all_threads"] == known["int8"]["all"] and d["limits"]["memory"]["all_threads"] == known["memory"]["all"]
    after = json.loads(path.read_text())
    assert all(after[kind]["all"] == known[kind]["all"] for kind in ("int8", "f32", "memory"))


@explains
def test_a_busy_machine_has_no_speed(lamina, limits, tmp_path):
    """Limits measured under load are not dropped with age while nothing better is known, but no speed is derived from them."""
    path = pathlib.Path(shutil.copy(limits, tmp_path))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"busy": 0.4}))
    os.utime(path, (1, 1))
    env = {**os.environ, "LAMINA_CACHE": str(tmp_path), "LC_ALL": "C.UTF-8"}
    for command in (["inspect", "llama-3.2-1b"], ["inspect", MODEL], ["report", "llama-3.2-1b"]):
        shown = run(lamina, *command, env=env).stdout
        assert "other programs" in shown and "tokens/s generating" not in shown and "predicted-speed" not in shown, command
    assert run(lamina, "inspect", "llama-3.2-1b", "--query", "speed.too_low", env=env).stdout.strip() == "true"
    os.utime(path)
    assert json.loads(run(lamina, "fit", "llama-3.2-1b", "--json", env=env).stdout)["machine"]["mark"] == "busy"
    rows = json.loads(run(lamina, "fit", "llama-3.2-1b", "--json", env=env).stdout)["precisions"]
    assert rows and all(row["generating"] is None and row["reading"] is None for row in rows)
    shown = run(lamina, "fit", "llama-3.2-1b", env=env).stdout
    assert "speed not known: other programs ran during the measurement" in shown and "memory-bound" not in shown
    best = json.loads(run(lamina, "cluster", "plan", "--nodes", "2", "llama-3.2-1b", "--json", env=env).stdout)
    assert all(row["one_stream"] is None for row in best["splits"]), best["splits"][0]


def test_busy_measurements_are_repeated_once(lamina, measured, tmp_path):
    """Limits measured under load are measured again after ten minutes, but only once, even if no better ones are found."""
    path = pathlib.Path(shutil.copy(measured, tmp_path))
    known = json.loads(path.read_text())
    for kind in ("int8", "bf16", "f32", "memory"):
        known[kind] |= {key: 1000 * known[kind][key] for key in ("one", "all", "best")}
    path.write_text(json.dumps(known | {"busy": 0.4, "measured_at": 1}))
    os.utime(path, (1, 1))
    assert doctor(lamina, tmp_path, *ONE)["limits"]["measured_now"]
    written = path.stat().st_mtime                                         # by the command; marked below as under load again
    path.write_text(json.dumps(json.loads(path.read_text()) | {"busy": 0.4}))
    os.utime(path, (written, written))
    assert not doctor(lamina, tmp_path, *ONE)["limits"]["measured_now"]


def test_levels_and_threads_are_measured_apart(lamina, cache):
    plain = doctor(lamina, cache, "--cpu", "ref", "--threads", "1")
    assert plain["limits"]["level"] == "ref" and plain["limits"]["threads"] == 1 and plain["limits"]["bf16"] is None
    assert plain["limits"]["int8"]["by"] == "plain C"
    limited = doctor(lamina, cache, "--threads", "1", LAMINA_CPU="ref")
    assert limited["limits"] == plain["limits"] | {"measured_now": False, "seconds": 0}
    assert limited["cpu"]["usable"] == "ref"
    if limited["cpu"]["detected"] != "ref":
        assert limited["cpu"]["limited_by"] == "ref" and any("LAMINA_CPU" in w for w in limited["warnings"])


def test_models_of_the_cache(lamina, cache):
    (cache / "models/folder").mkdir(parents=True)
    (cache / "models/a.gguf").write_bytes(b"x" * 1000)
    (cache / "models/folder/model.safetensors").write_bytes(b"x" * 50)
    (cache / "models/.partial").write_bytes(b"x")
    assert doctor(lamina, cache)["cache"]["models"] == [{"name": "a.gguf", "bytes": 1000}, {"name": "folder", "bytes": 50}]


def test_unusual_conditions_are_reported(lamina, cache, tmp_path):
    assert any("UTF-8" in w for w in doctor(lamina, cache, LC_ALL="C")["warnings"])
    assert doctor(lamina, cache, LC_ALL="C.UTF-8")["locale"]["utf8"]
    nowhere = doctor(lamina, tmp_path / "not/there", *ONE)                 # cannot be created: all is measured, nothing is stored
    assert nowhere["limits"]["measured_now"] and not nowhere["cache"]["exists"]


def test_the_page(lamina, cache):
    done = run(lamina, "doctor", env={**os.environ, "LAMINA_CACHE": str(cache), "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0
    for word in ("CPU", "limits", "memory", "libraries", "locale", "models"):
        assert any(line.startswith(word) for line in done.stdout.split("\n"))
    assert "\x1b" not in done.stdout


def test_a_busy_machine_is_noticed(lamina, tmp_path):
    """With a spinning program on its core, measuring gets half of the time and says so."""
    def on_one_core():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    spinner = subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=on_one_core)
    try:
        done = run(lamina, "doctor", "--json", "--fresh", env={**os.environ, "LAMINA_CACHE": str(tmp_path)}, preexec_fn=on_one_core)
    finally:
        spinner.kill()
        spinner.wait()
    busy = json.loads(done.stdout)
    assert busy["limits"]["threads"] == 1 and busy["limits"]["busy"] > 0.1
    assert any("--fresh measures again" in w for w in busy["warnings"])
