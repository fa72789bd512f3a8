#!/usr/bin/env python3
"""Write src/tensor/codebooks_tables.c: the grids of the IQ types from the gguf package, one u16 per entry."""
import sys
from math import ceil, log2

import numpy as np
from gguf import quants

GRIDS = [
    ("lm_grid_iq2_xxs", quants.IQ2_XXS),
    ("lm_grid_iq2_xs", quants.IQ2_XS),
    ("lm_grid_iq2_s", quants.IQ2_S),
    ("lm_grid_iq1", quants.IQ1_S),
    ("lm_grid_iq3_xxs", quants.IQ3_XXS),
    ("lm_grid_iq3_s", quants.IQ3_S),
]


def entries(cls):
    """Pack each row of the package's expanded grid as digits of its alphabet, in the layout of codebooks.h."""
    cls.init_grid()
    grid = cls.grid.reshape(cls.grid_shape)
    digit = {float(v): i for i, v in enumerate(cls.grid_map)}
    bits = 2 if ceil(log2(len(cls.grid_map))) == 2 else 4
    return [sum(digit[float(v)] << (bits * e) for e, v in enumerate(row)) for row in grid]


def main(path):
    with open(path, "w") as f:
        f.write("/* codebooks_tables.c - written by tools/oracle/codebooks.py; the layout is in codebooks.h.\n"
                " * Data of the GGUF formats, Copyright (c) 2023-2026 The ggml authors, MIT licence. */\n"
                '#include "tensor/codebooks.h"\n')
        for name, cls in GRIDS:
            values = entries(cls)
            assert len(values) == cls.grid_shape[0] and max(values) < 65536
            f.write(f"\nconst uint16_t {name}[{len(values)}] = {{\n")
            for at in range(0, len(values), 14):
                f.write("    " + ", ".join(f"0x{v:04x}" for v in values[at:at + 14]) + ",\n")
            f.write("};\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "src/tensor/codebooks_tables.c")
