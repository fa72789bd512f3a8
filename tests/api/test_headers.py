"""The public headers compile alone and together in every standard, and keep the layout and names that programs were compiled against."""
import ctypes
import pathlib
import subprocess

import pytest
from lamina import ROOT, UMBRELLA, Headers

HEADERS = sorted(str(p.relative_to(ROOT / "include/lamina")) for p in (ROOT / "include/lamina").rglob("*.h"))
STANDARDS = [("cc", s) for s in ("c99", "c11", "c17")] + [("c++", s) for s in ("c++11", "c++14", "c++17", "c++20", "c++23")]
TABLE = ROOT / "tests/api/abi.txt"


@pytest.mark.parametrize("compiler, standard", STANDARDS)
def test_headers_compile(compiler, standard):
    each = "".join(f'#include "lamina/{h}"\n' for h in HEADERS)
    for text in [f'#include "lamina/{h}"\n' for h in HEADERS] + [each]:
        done = subprocess.run([compiler, f"-std={standard}", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                               "-I", ROOT / "include", "-x", "c++" if compiler == "c++" else "c", "-"],
                              input=text + "int main(void) { return 0; }\n", capture_output=True, text=True)
        assert done.returncode == 0, text + done.stderr


def table(headers, tmp_path):
    """Return the sizes and offsets of structures as compiled, values of enumerations, and names of functions: one per line."""
    lines = ['#include <stdio.h>\n#include "' + UMBRELLA + '"\n#define S(t) printf(#t " %zu\\n", sizeof(t));\n'
             '#define F(t, f) printf(#t "." #f " %zu %zu\\n", offsetof(t, f), sizeof((t *)0)->f);\n'
             "#define V(v) printf(#v \" %d\\n\", (int)(v));\nint main(void) {"]
    lines[0] = lines[0].replace("sizeof((t *)0)->f", "sizeof(((t *)0)->f)")
    for name, fields in sorted(headers.fields.items()):
        lines += [f"S({name})"] + [f"F({name}, {field})" for field, _ in fields]
    lines += [f"V({v})" for v in sorted(headers.values)] + ["return 0; }\n"]
    subprocess.run(["cc", "-I", ROOT / "include", "-x", "c", "-", "-o", tmp_path / "abi"], input="\n".join(lines), text=True, check=True)
    return subprocess.run([tmp_path / "abi"], capture_output=True, text=True, check=True).stdout + \
        "".join(f"{name}()\n" for name in sorted(headers.functions))


def test_layout_and_names_equal_the_table(tmp_path):
    """If this fails, programs compiled earlier fail too. Until 1.0 the table may change, with the version."""
    now = table(Headers(), tmp_path)
    pathlib.Path(tmp_path / "abi.txt").write_text(now)
    before, after = TABLE.read_text().splitlines(), now.splitlines()
    assert now == TABLE.read_text(), f"gone: {sorted(set(before) - set(after))[:20]}; new: {sorted(set(after) - set(before))[:20]}; {tmp_path}/abi.txt"


def test_python_lays_structures_out_as_c_does():
    expected = dict(line.split(" ", 1) for line in TABLE.read_text().splitlines() if "." in line.split(" ")[0])
    headers = Headers()
    for name, fields in headers.fields.items():
        for field, _ in fields:
            place = getattr(headers.types[name], field)
            assert expected[f"{name}.{field}"] == f"{place.offset} {place.size}"


def test_options_can_grow():
    """Each struct that a program fills in or receives has reserved words at its end, except those that never change."""
    fixed = {"lm_error", "lm_text", "lm_tokens", "lm_row", "lm_ops", "lm_rate", "lm_span", "lm_rendering", "lm_logit_bias", "lm_logprob", "lm_trigger", "lm_log", "lm_trace_choice",
             "lm_preset", "lm_device"}             # programs see the last two only by pointer
    headers = Headers()
    for name, fields in headers.fields.items():
        grows = fields[-1][0] == "reserved" and issubclass(fields[-1][1]._type_, ctypes.c_uint64)
        assert grows != (name in fixed), name
