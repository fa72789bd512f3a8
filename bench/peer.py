#!/usr/bin/env python3
"""Measure llama.cpp as llama-bench does, through llama-cpp-python's C interface; one JSON object a test, in its fields.

    build/peers/bin/python bench/peer.py MODEL [-p 512] [-n 64] [-d 0] [-t 2] [-r 1] [--no-repack]
    build/peers/bin/python bench/peer.py MODEL --logits FILE       measures nothing: logits of a few tokens, for `lamina verify`
"""
import argparse
import ctypes
import json
import os
import random
import statistics
import struct
import sys
import time


def numbers(text):
    return [int(x) for x in text.split(",")]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("-p", type=numbers, default=[512])
    p.add_argument("-n", type=numbers, default=[64])
    p.add_argument("-d", type=numbers, default=[0])
    p.add_argument("-t", type=int, default=os.cpu_count())
    p.add_argument("-r", type=int, default=1)
    p.add_argument("-ub", type=int, default=512)
    p.add_argument("--parallel", "-npl", type=numbers, default=[1])
    p.add_argument("--logits", metavar="FILE", help="write the logits of 12 tokens to FILE (safetensors) instead")
    p.add_argument("--no-repack", action="store_true", help="without llama.cpp's own repacked layouts")
    return p.parse_args()


class Peer:
    def __init__(self, o):
        import llama_cpp
        self.ll, self.o, self.rng = llama_cpp, o, random.Random(1)
        quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
        self.quiet = quiet
        llama_cpp.llama_backend_init()
        m = llama_cpp.llama_model_default_params()
        m.use_extra_bufts = not o.no_repack
        start = time.perf_counter()
        self.model = llama_cpp.llama_model_load_from_file(o.model.encode(), m)
        if not self.model:
            sys.exit(f"llama.cpp cannot open {o.model}")
        c = llama_cpp.llama_context_default_params()
        self.sequences = max(o.parallel)
        c.n_ctx = (max(o.d) + max(max(o.p), max(o.n)) + 256) * self.sequences
        c.n_batch, c.n_ubatch, c.n_seq_max = 2048, o.ub, self.sequences
        c.n_threads = c.n_threads_batch = o.t
        self.context = llama_cpp.llama_init_from_model(self.model, c)
        self.load_seconds = time.perf_counter() - start
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(2048, 0, 1)

    def decode(self, rows):
        """rows: (sequence, position, wants logits)"""
        b = self.batch
        b.n_tokens = len(rows)
        for i, (sequence, position, wanted) in enumerate(rows):
            b.token[i] = self.rng.randrange(self.vocab)
            b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = position, 1, sequence, wanted
        if self.ll.llama_decode(self.context, b):
            sys.exit("llama.cpp: llama_decode failed")
        self.ll.llama_synchronize(self.context)

    def prompt(self, sequence, at, n):
        for done in range(0, n, 2048):
            size = min(2048, n - done)
            self.decode([(sequence, at + done + i, done + i + 1 == n) for i in range(size)])

    def generate(self, sequences, at, n):
        for i in range(n):
            self.decode([(s, at + i, True) for s in range(sequences)])

    def once(self, sequences, depth, prompt, gen):
        self.ll.llama_memory_clear(self.memory, True)
        for s in range(sequences):
            if depth:
                self.prompt(s, 0, depth)
        start = time.perf_counter()
        if prompt:
            for s in range(sequences):
                self.prompt(s, depth, prompt)
        else:
            self.generate(sequences, depth, gen)
        return time.perf_counter() - start

    def logits(self, path, n=12):
        """Write the logits of every position and their input ids to `path`, in the format of a golden."""
        import numpy
        self.decode([(0, i, True) for i in range(n)])
        ids = numpy.array([[self.batch.token[i] for i in range(n)]], dtype="<i8")
        rows = numpy.array([[numpy.ctypeslib.as_array(self.ll.llama_get_logits_ith(self.context, i), (self.vocab,)) for i in range(n)]], dtype="<f4")
        header = {"__metadata__": {"source": f"llama-cpp-python {self.ll.__version__}"},
                  "input_ids": {"dtype": "I64", "shape": ids.shape, "data_offsets": [0, ids.nbytes]},
                  "logits": {"dtype": "F32", "shape": rows.shape, "data_offsets": [ids.nbytes, ids.nbytes + rows.nbytes]}}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + ids.tobytes() + rows.tobytes())

    def test(self, sequences, depth, prompt, gen):
        self.once(sequences, 0, min(prompt, 64), min(gen, 8))
        seconds = [self.once(sequences, depth, prompt, gen) for _ in range(self.o.r)]
        tokens = (prompt or gen) * sequences
        speeds = [tokens / s for s in seconds]
        print(json.dumps({
            "backends": "llama.cpp" + (" without repack" if self.o.no_repack else ""), "build_version": self.ll.__version__,
            "model_filename": self.o.model, "n_threads": self.o.t, "n_prompt": prompt, "n_gen": gen, "n_depth": depth,
            "n_sequences": sequences, "avg_ts": statistics.mean(speeds), "median_ts": statistics.median(speeds),
            "best_ts": max(speeds), "load_seconds": self.load_seconds}), flush=True)


def main():
    o = arguments()
    peer = Peer(o)
    if o.logits:
        peer.logits(o.logits)
        return
    for sequences in o.parallel:
        for depth in o.d:
            for n in filter(None, o.p):
                peer.test(sequences, depth, n, 0)
            for n in filter(None, o.n):
                peer.test(sequences, depth, 0, n)


if __name__ == "__main__":
    main()
