#!/usr/bin/env python3
"""Writes the malformed files of this folder. Deterministic, standard library only.

    gguf/ safetensors/ folder/ split/     broken as containers
    model/                                well-formed containers of impossible models (good.gguf: of a possible one)

Each is a well-formed small file with one thing wrong. What the reader must say about it is in expected.tsv, each line of
it read against the defect by a person (`bad_files --print` shows what is said now); the test wants one row for each file
and one file for each row.
"""
import pathlib
import shutil

from gguf_files import gguf_files, split_files
from model_files import model, model_files, model_folders
from safetensors_files import folder_files, safetensors_files

HERE = pathlib.Path(__file__).resolve().parent


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def main():
    for sub in ("gguf", "safetensors", "folder", "split", "model"):
        shutil.rmtree(HERE / sub, ignore_errors=True)
    for name, data in gguf_files().items():
        write(HERE / "gguf" / f"{name}.gguf", data)
    for name, data in safetensors_files().items():
        write(HERE / "safetensors" / f"{name}.safetensors", data)
    for name, files in folder_files().items():
        for file, data in files.items():
            write(HERE / "folder" / name / file, data)
    write(HERE / "model" / "good.gguf", model())
    for name, data in model_files().items():
        write(HERE / "model" / f"{name}.gguf", data)
    for name, files in model_folders().items():
        for file, data in files.items():
            write(HERE / "model" / name / file, data)
    for name, parts in split_files().items():
        count = 2
        for no, data in parts.items():
            write(HERE / "split" / name / f"m-{no:05}-of-{count:05}.gguf", data)
    print(f"{len(model_files())} + {len(model_folders())} models, {len(gguf_files())} GGUF, {len(split_files())} split, {len(safetensors_files())} safetensors, "
          f"{len(folder_files())} folders")


if __name__ == "__main__":
    main()
