#!/usr/bin/env python3
"""converted.py: run llama.cpp on files of lamina convert and on files of its own converter, and compare.

    tools/oracle/converted.py LAMINA >tests/golden/convert/peers.tsv

lamina converts every golden model that convert_hf_to_gguf.py has written (model.gguf), to the same type, and llama.cpp computes the
logits of both for the ids of the golden. A line: model, type, SHA-256 of lamina's file, "bits" if all logits are identical, else the
largest |Δ logit| / max |logit| of a position; "neither" if llama.cpp reads neither file. The goldens' folders have no tokenizer, which
llama.cpp requires: it reads lamina's file with the invented tokenizer of the other file. Needs llama-cpp-python and gguf.
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import peer

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
KINDS = {0: "f32", 1: "f16", 32: "bf16"}


def copy_keys(reader, out, wanted):
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture" or not wanted(name):
            continue
        contents = field.contents()
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            out.add_key_value(name, contents, kind, sub_type=field.types[-1])
        else:
            out.add_key_value(name, contents, kind)


def with_tokenizer(ours, theirs, path):
    mine, other = gguf.GGUFReader(ours), gguf.GGUFReader(theirs)
    out = gguf.GGUFWriter(path, arch=mine.fields["general.architecture"].contents())
    copy_keys(mine, out, lambda name: not name.startswith("tokenizer."))
    copy_keys(other, out, lambda name: name.startswith("tokenizer."))
    for t in mine.tensors:
        out.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def ids_of(folder):
    """Return the rows of ids of the golden, as in peer.py."""
    data = (folder / "golden.safetensors").read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    name = next(k for k in header if k in ("input_ids", "ids", "tokens"))
    t = header[name]
    kind = {"I64": np.int64, "I32": np.int32, "U32": np.uint32}[t["dtype"]]
    at, end = t["data_offsets"]
    rows = np.frombuffer(data[8 + n + at:8 + n + end], kind).reshape(t["shape"])
    return rows if rows.ndim == 2 else rows[None]


def main():
    lamina = sys.argv[1]
    for twin in sorted(GOLDEN.glob("*/*/model.gguf")):
        folder = twin.parent
        if not list(folder.glob("model*.safetensors")) or not (folder / "golden.safetensors").exists():
            continue
        with tempfile.TemporaryDirectory() as at:
            at = pathlib.Path(at)
            field = gguf.GGUFReader(twin).fields.get("general.file_type")
            kind = KINDS.get(int(field.contents()) if field else -1, "auto")
            subprocess.run([lamina, "convert", folder.relative_to(ROOT), at / "ours.gguf", "--type", kind, "-q"], check=True, cwd=ROOT)
            digest = hashlib.sha256((at / "ours.gguf").read_bytes()).hexdigest()
            case = str(folder.relative_to(GOLDEN))
            with_tokenizer(at / "ours.gguf", twin, at / "read.gguf")
            rows, logits = ids_of(folder), []
            for file in (twin, at / "read.gguf"):
                try:
                    logits.append(peer.run(file, rows))
                except ValueError:                       # "Failed to load model"
                    logits.append(None)
            if logits[0] is None or logits[1] is None:
                found = "neither" if logits[0] is logits[1] else "only lamina's" if logits[0] is None else "only its own"
            elif all(np.array_equal(a, b) for a, b in zip(*logits)):
                found = "bits"
            else:
                found = "%.3g" % max(peer.relative(a, b) for a, b in zip(*logits))
            print(case, kind, digest, found, sep="\t", flush=True)


if __name__ == "__main__":
    main()
