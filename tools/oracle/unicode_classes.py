#!/usr/bin/env python3
"""Write src/text/unicode/unicode_tables.c: where the Unicode of the tokenizers library differs from that of our libraries.

The script queries the library for every code point: its regular expressions implement Unicode 16, its Digits 17, its Punctuation 6,
its normalisation forms 9. PCRE2 10.42 implements 14 (as does the unicodedata of Python 3.11, which this script must run
under), utf8proc 2.8 implements 15 (queried through ctypes). usage: unicode_classes.py OUT.c
"""
import ctypes
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL = "".join(map(chr, CODE_POINTS))
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()

# Per class and length in UTF-8, an old character with the same class and length that no pattern names in a separate range. It is on the
# same side of U+4E00 and U+9FA5, the bounds of ranges in DeepSeek's patterns.
ABOVE_HAN = {("Lu", 3): 0xA7C2, ("Ll", 3): 0xA7C3}
STAND_INS = {
    ("Lu", 3): 0x10C7, ("Ll", 3): 0x10D0, ("Po", 3): 0x1805, ("Mn", 3): 0x0900, ("Mc", 3): 0x0903, ("So", 3): 0x2400,
    ("Cf", 3): 0x2060, ("Lo", 4): 0x10480, ("Han", 4): 0x20000, ("So", 4): 0x1F000, ("Nd", 4): 0x104A0, ("Lm", 4): 0x16B40,
    ("Mn", 4): 0x11001, ("Po", 4): 0x10100, ("Ll", 4): 0x16E60, ("Lu", 4): 0x16E40, ("Mc", 4): 0x11000, ("No", 4): 0x10107,
    ("Cf", 4): 0xE0001, ("Sm", 4): 0x1D6C1, ("Pd", 4): 0x10EAD,
    ("Mn not alphabetic", 3): 0x093C, ("Mn not alphabetic", 4): 0x11046, ("Mc not alphabetic", 4): 0x1134D, ("Lm lowercase", 4): 0x10780,
}


def regex_class(inside):
    """Return the code points in a character class of the library's regular expressions."""
    pieces = pre_tokenizers.Split(Regex(f"[^{inside}]+"), "removed").pre_tokenize_str(ALL)
    return {ord(c) for piece, _ in pieces for c in piece}


def isolated(splitter):
    """Return the code points that a pre-tokenizer splits into separate pieces."""
    found = set()
    for at in range(0, len(CODE_POINTS), 1 << 16):
        text = "".join(f"a{chr(c)}a" for c in CODE_POINTS[at:at + (1 << 16)])
        found |= {ord(piece) for piece, _ in splitter.pre_tokenize_str(text) if len(piece) == 1}
    return found - {ord("a")}


def stand_ins():
    """Return the code points that PCRE2 puts into another class, with the characters that PCRE2 gets instead."""
    category = {}
    for name in CATEGORIES:
        for c in regex_class(rf"\p{{{name}}}"):
            category[c] = name
    assert len(category) == len(CODE_POINTS)
    han, emoji = regex_class(r"\p{Han}"), regex_class(r"\p{Emoji}")
    alphabetic, lowercase = regex_class(r"\p{Alphabetic}"), regex_class(r"\p{Lowercase}")

    def kind(c):
        if c in han:
            return "Han"
        now = category[c]
        return now + (" not alphabetic" if now in ("Mn", "Mc") and c not in alphabetic else " lowercase" if now == "Lm" and c in lowercase else "")

    rows = {}
    for c in CODE_POINTS:
        now, then = category[c], unicodedata.category(chr(c))
        if now != then:
            key = kind(c), len(chr(c).encode())
            if c in emoji:
                rows[c] = max(old for old in emoji if old < c and unicodedata.category(chr(old)) == now)
                continue
            rows[c] = ABOVE_HAN[key] if c > 0x9FFF and key in ABOVE_HAN else STAND_INS[key]
            assert key[1] > 3 or (c < 0x4E00) == (rows[c] < 0x4E00), hex(c)
    for (name, size), c in [*STAND_INS.items(), *ABOVE_HAN.items()]:
        assert len(chr(c).encode()) == size and unicodedata.category(chr(c)) == category[c], hex(c)
        assert kind(c) == name, hex(c)
    assert 0x180E not in regex_class(r"\s")
    rows[0x180E] = STAND_INS["Cf", 3]       # PCRE2's \s still matches it
    return rows


class Property(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int16) for n in ("category", "combining_class", "bidi", "decomposition_type")] + \
               [(n, ctypes.c_uint16) for n in ("decomposition", "fold", "upper", "lower", "title", "composition")]


def inert():
    """Return the code points that utf8proc reorders, decomposes or composes and the library does not."""
    utf8proc = ctypes.CDLL("libutf8proc.so.2")
    utf8proc.utf8proc_get_property.restype = ctypes.POINTER(Property)
    nfd, nfkd = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str
    found = set()
    for c in CODE_POINTS:
        p, s = utf8proc.utf8proc_get_property(c).contents, chr(c)
        if p.combining_class and nfd(f"a{s}\u0334") == f"a{s}\u0334" and nfd(f"a\u0345{s}") == f"a\u0345{s}":
            found.add(c)
        if (p.decomposition != 0xFFFF or p.decomposition_type) and nfkd(s) == s:
            found.add(c)
            found |= {int(x, 16) for x in unicodedata.decomposition(s).split()[1:] if "<" not in unicodedata.decomposition(s)}
    return found


def lower_pairs():
    """Return the letters that the library and utf8proc lower-case differently, with the library's result."""
    utf8proc = ctypes.CDLL("libutf8proc.so.2")
    utf8proc.utf8proc_tolower.restype = ctypes.c_int32
    lower = normalizers.Lowercase().normalize_str
    return {c: ord(lower(chr(c))) for c in CODE_POINTS
            if len(lower(chr(c))) == 1 and ord(lower(chr(c))) != utf8proc.utf8proc_tolower(c)}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(f, name, type_, rows, per_line):
    f.write(f"\nconst {type_} {name}[{len(rows)}] = {{\n")
    for at in range(0, len(rows), per_line):
        f.write("    " + " ".join("{ " + ", ".join(f"0x{v:04X}" for v in row) + " }," for row in rows[at:at + per_line]) + "\n")
    f.write("};\n" + f"const size_t {name}_n = {len(rows)};\n")


def main(path):
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    shown = stand_ins()
    rows = []
    for c in sorted(shown):
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == shown[c]:
            rows[-1][1] = c
        else:
            rows.append([c, c, shown[c]])
    with open(path, "w") as f:
        f.write("/* unicode_tables.c - written by tools/oracle/unicode_classes.py, which asks the tokenizers library. */\n"
                '#include "text/unicode/unicode_class.h"\n')
        table(f, "lm_substitutes", "lm_substitute", rows, 4)
        table(f, "lm_numeric", "lm_range", ranges(isolated(pre_tokenizers.Digits(True))), 6)
        table(f, "lm_punctuation", "lm_range", ranges(isolated(pre_tokenizers.Punctuation("isolated"))), 6)
        table(f, "lm_inert", "lm_range", ranges(inert()), 6)
        table(f, "lm_lower", "lm_lower_pair", sorted(lower_pairs().items()), 6)


if __name__ == "__main__":
    main(sys.argv[1])
