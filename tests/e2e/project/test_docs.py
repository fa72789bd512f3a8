"""The manual pages and the completions that `make install` installs, generated from the program's own table of flags."""
import json
import re
import shutil
import tempfile

import pytest
from conftest import explains, run


@pytest.fixture(scope="module")
def program(build):
    return json.loads(run(build / "src/cli/lamina", "help", "--json").stdout)


def spellings(flag):
    return [flag["name"], *(flag["also"] or "").split()]


def manual(build, name):
    """Return the text of a manual page, in one line."""
    text = (build / f"docs/{name}.1").read_text()
    if shutil.which("groff"):
        done = run("groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-z", build / f"docs/{name}.1")
        assert (done.returncode, done.stderr) == (0, "")
    text = re.sub(r"^\.(?:SH|SS) (.*)$", r"\1", text, flags=re.M)
    text = re.sub(r"^\..*\n", "", text, flags=re.M)
    for roff, plain in ((r"\fB", ""), (r"\fR", ""), (r"\-", "-"), (r"\&", ""), (r"\e", "\\")):
        text = text.replace(roff, plain)
    return " ".join(text.split())


def test_every_command_has_a_manual_page(build, program):
    overview = manual(build, "lamina")
    for command in program["commands"]:
        page = manual(build, f"lamina-{command['name']}")
        assert f"lamina-{command['name']}(1) {command['summary']}" in overview
        assert f"NAME lamina-{command['name']} - {command['summary']} SYNOPSIS lamina {command['name']}" in page
        assert " ".join((command["about"] or "").split()) in page
        assert f"EXAMPLES {' '.join(' '.join(command['examples']).split())} OPTIONS" in page
        for flag in [*command["flags"], *program["general"]]:
            value = "|".join(flag["words"]) or flag["value"] or ""
            assert " ".join(f"{', '.join(spellings(flag)[1:] + [flag['name']])} {value} {flag['help']}".split()) in page
        for section in ("EXIT STATUS", "ENVIRONMENT", "SEE ALSO"):
            assert section in page
    for flag in program["general"]:
        assert flag["help"] in overview


def test_the_manual_needs_the_commands_of_the_program(build, source, tmp_path):
    done = run(source / "scripts/manpage", tmp_path, source / "docs/man.md", build / "docs/help.json", "run", "chat")
    assert done.returncode == 1 and "pages were expected for ['run', 'chat']" in done.stderr
    assert list(tmp_path.iterdir()) == []


def complete(build, *words, **env):
    """Return what bash offers for the last word in an empty folder."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _lamina; printf "%s\\n" "${COMPREPLY[@]}"')
    with tempfile.TemporaryDirectory() as empty:
        done = run("bash", "-c", script, "bash", build / "docs/lamina", build / "src/cli/lamina", *words, cwd=empty,
                   env={"PATH": "/usr/bin:/bin", "HOME": empty, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_and_flags(build, program):
    assert complete(build, "") == [c["name"] for c in program["commands"]]
    assert complete(build, "vers") == ["version"]
    for command in program["commands"]:
        offered = complete(build, command["name"], "-")
        assert set(offered) >= {n for flag in command["flags"] for n in spellings(flag)} | {"--json", "--help"}
        for flag in command["flags"]:
            if flag["words"]:
                assert complete(build, command["name"], flag["name"], "") == flag["words"]


def names(build, *command, key="name"):
    document = json.loads(run(build / "src/cli/lamina", *command, "--json").stdout)
    return [x[key] for x in document]


@explains
def test_bash_completes_values(build, program, tmp_path):
    presets, devices = names(build, "presets"), names(build, "devices")
    topics = [t["topic"] for t in json.loads(run(build / "src/cli/lamina", "explain", "--json").stdout)["topics"]]
    assert complete(build, "explain", "") == [*topics, "forward"]
    assert complete(build, "help", "co") == ["compare", "convert"]
    assert complete(build, "compare", "gpt2", "llama-3.2-") == [p for p in presets if p.startswith("llama-3.2-")]
    assert complete(build, "fit", "gpt2", "--device", "rtx-4") == [d for d in devices if d.startswith("rtx-4")]
    assert complete(build, "inspect", "--view", "to") == ["torchinfo"] and "timeline" in complete(build, "compare", "--view", "")
    assert "flow" in complete(build, "explain", "--diagram", "") and "ref" in complete(build, "run", "--cpu", "")
    assert complete(build, "synth", "gpt2", "x.gguf", "--type", "q4_k") == ["q4_k_m", "q4_k_s"]
    assert complete(build, "run", "--verbose", "-n", "") == []
    assert complete(build, "audit", "x.md", "-m", "llama-3.2-") == [p for p in presets if p.startswith("llama-3.2-")] == \
        complete(build, "inspect", "-m", "llama-3.2-") == complete(build, "explain", "--diagram", "layer", "llama-3.2-")
    assert complete(build, "run", "-m", "llama-3.2-") == [], "a preset has no weights to run"
    assert complete(build, "eval", "x.gguf", "pe") == ["perplexity"] and complete(build, "pull", "ver") == ["verify-cache"]


def test_bash_completes_models_of_both_caches(build, tmp_path):
    ours, hub = tmp_path / "lamina", tmp_path / "hub"
    (ours / "models").mkdir(parents=True)
    (ours / "models/$(touch broken).gguf").write_bytes(b"GGUF")
    (ours / "models/tiny.Q4_0.gguf").write_bytes(b"GGUF")
    snapshot = hub / "models--org--name/snapshots/0123456789012345678901234567890123456789"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(b"x")
    (hub / "models--org--name/refs").mkdir()
    (hub / "models--org--name/refs/main").write_text(snapshot.name)
    caches = {"LAMINA_CACHE": str(ours), "HF_HUB_CACHE": str(hub)}
    assert complete(build, "run", "ti", **caches) == ["tiny.Q4_0.gguf"]
    assert complete(build, "run", "-m", "org", **caches) == ["org/name"]
    assert complete(build, "run", "$", **caches) == ["$(touch", "broken).gguf"]        # a name that is not executed
    assert not list(tmp_path.rglob("broken")) and complete(build, "tokenize", "org", **caches) == ["org/name"]


@pytest.mark.parametrize("shell, file", [("bash", "lamina"), ("zsh", "_lamina"), ("fish", "lamina.fish")])
def test_completions_are_sound(build, program, shell, file):
    text = (build / "docs" / file).read_text()
    assert all(command["name"] in text for command in program["commands"])
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here to read it")
    done = run(shell, "-n", build / "docs" / file)
    assert done.returncode == 0 and done.stderr == ""
