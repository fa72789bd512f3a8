"""The whole public interface through ctypes: enumerations, structures and functions are read from the headers.

    lm = Lamina("build/src/liblamina.so")
    m = lm.new("lm_model_open", b"model.gguf", None)                 the object of an out parameter; raises LaminaError
    lm.lm_engine_context(g)                                          any other function, as in C
"""
import ctypes
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(os.environ.get("LAMINA_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
STUDY = os.environ.get("LAMINA_STUDY", "yes")
UMBRELLA = "lamina/study.h" if STUDY else "lamina/lamina.h"
BASE = {"void": None, "bool": ctypes.c_bool, "_Bool": ctypes.c_bool, "char": ctypes.c_char, "int": ctypes.c_int, "unsigned": ctypes.c_uint, "float": ctypes.c_float,
        "double": ctypes.c_double, "size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64,
        "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64}


class LaminaError(Exception):
    def __init__(self, status, error):
        super().__init__(f"{status}: {error.where.decode()}: {error.message.decode()}")
        self.status, self.error = status, error


def preprocessed():
    """Return the headers as the compiler sees them, without what they include from elsewhere."""
    out = subprocess.run(["cc", "-E", "-U__GNUC__", "-D__extension__=", "-I", ROOT / "include", "-include", UMBRELLA, "-x", "c", os.devnull],
                         capture_output=True, text=True, check=True).stdout
    kept, ours = [], False
    for line in out.split("\n"):
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = "include/lamina/" in marker.group(1)
        elif ours:
            kept.append(line)
    return " ".join(" ".join(kept).split())


def split(text, by):
    """Split `text` at `by` outside brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == by and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


class Headers:
    """values: of enumerations; types: by name; fields: of structures; functions: name -> (result, [(type, parameter)]);
    outputs: name -> the indices of its lm_text and lm_tokens parameters that are written into."""

    def __init__(self):
        self.values, self.types, self.fields, self.functions, self.outputs = {}, dict(BASE), {}, {}, {}
        for statement in split(preprocessed(), ";"):
            enum = re.fullmatch(r"(?:typedef )?enum ?(\w*) ?\{(.*)\} ?(\w*)", statement)
            struct = re.fullmatch(r"typedef struct (\w+) ?\{(.*)\} ?\w+", statement)
            opaque = re.fullmatch(r"(?:typedef )?struct (\w+)(?: \w+)?", statement)
            alias = re.fullmatch(r"typedef (\w+) (\w+)", statement)
            function = re.fullmatch(r"([\w *]+?)\b(lm_\w+) ?\((.*)\)", statement)
            if enum:
                self.add_enum(enum.group(1), enum.group(2))
            elif struct:
                self.structure(struct.group(1))
                self.fields[struct.group(1)] = fields = [f for d in split(struct.group(2), ";") for f in self.members(d)]
                self.types[struct.group(1)]._fields_ = [(name, t) for name, t in fields]
            elif opaque:
                self.structure(opaque.group(1))
            elif alias:
                self.types[alias.group(2)] = self.types[alias.group(1)]
            elif function:
                result, name, params = function.groups()
                self.outputs[name] = [i for i, p in enumerate(split(params, ",")) if re.match(r"lm_(text|tokens) ?\*", p)]
                self.functions[name] = self.type(result), [self.members(p)[0][::-1] for p in split(params, ",") if p not in ("void", "...")]
            elif statement != "extern \"C\"":
                raise SyntaxError(statement)

    def structure(self, name):
        self.types.setdefault(name, type(name, (ctypes.Structure,), {}))

    def add_enum(self, name, body):
        n = -1
        for entry in split(body, ","):
            word, _, value = entry.partition("=")
            n = int(value, 0) if value else n + 1
            self.values[word.strip()] = n
        if name:
            self.types[name] = ctypes.c_uint if min(self.values.values()) >= 0 else ctypes.c_int

    def type(self, text):
        """Return the ctypes type of a C type such as `const lm_text *`."""
        words = re.sub(r"\b(const|struct|extern)\b", " ", text)
        stars, name = words.count("*"), words.replace("*", " ").split()[0]
        if name == "char" and stars:
            base, stars = ctypes.c_char_p, stars - 1
        elif name == "void" and stars:
            base, stars = ctypes.c_void_p, stars - 1
        else:
            base = self.types[name]
        for _ in range(stars):
            base = ctypes.POINTER(base)
        return base

    def members(self, declaration):
        """Return the name and type of each member in a declaration: `double one, all`, `lm_row *rows`, `bool (*text)(void *, size_t)`."""
        callback = re.fullmatch(r"(.*?)\(\*(\w+)\) ?\((.*)\)", declaration)
        if callback:
            result, name, params = callback.groups()
            return [(name, ctypes.CFUNCTYPE(self.type(result), *(self.members(p)[0][1] for p in split(params, ","))))]
        inner = re.fullmatch(r"struct \{(.*)\} (\w+)", declaration)
        if inner:
            fields = [f for d in split(inner.group(1), ";") for f in self.members(d)]
            return [(inner.group(2), type(inner.group(2), (ctypes.Structure,), {"_fields_": fields}))]
        first, *more = split(declaration, ",")
        kind, name = re.fullmatch(r"(.*?)(\w*(?: ?\[.*\])*)", first).groups()
        if not kind.replace("const", "").strip():        # a parameter without a name
            kind, name = first, "_"
        found = []
        for entry in [name, *more]:
            bare, *sizes = re.findall(r"\w+", entry)
            t = self.type(kind + "*" * entry.count("*") if entry is not name else kind)
            for size in reversed(sizes):
                t = t * int(self.values.get(size, size) if not size.isdigit() else size)
            found.append((bare, t))
        return found


class Lamina:
    """Functions and structures under their own names. `watch(name, function, arguments)` is called before each call."""

    def __init__(self, path, watch=None):
        self.headers, self.library, self.called, self.watch = Headers(), ctypes.CDLL(str(path)), set(), watch
        for name, value in {**self.headers.types, **self.headers.values}.items():
            setattr(self, name, value)
        for name, (result, parameters) in self.headers.functions.items():
            setattr(self, name, self.bind(name, result, [t for t, _ in parameters]))

    def bind(self, name, result, parameters):
        function = getattr(self.library, name)
        function.restype, function.argtypes = result, parameters
        fails = bool(parameters) and parameters[-1] is ctypes.POINTER(self.lm_error)

        def call(*arguments):
            self.called.add(name)
            if self.watch:
                self.watch(name, function, arguments)
            return function(*arguments)

        def checked(*arguments):
            if len(arguments) >= len(parameters):
                return call(*arguments)
            error = self.lm_error()
            status = call(*arguments, ctypes.byref(error))
            if status:
                raise LaminaError(self.lm_status_word(status).decode(), error)
            return status

        return checked if fails and not name.startswith(("lm_fail", "lm_error")) else call

    def new(self, name, *arguments):
        """Return the result of a function that writes it to its last parameter before the error."""
        out = self.headers.functions[name][1][-2][0]._type_()
        getattr(self, name)(*arguments, ctypes.byref(out))
        return out

    def text(self, name, *arguments):
        """Return what a function appends to an lm_text."""
        text = self.new(name, *arguments)
        data = ctypes.string_at(text.data, text.size) if text.size else b""
        self.lm_text_free(ctypes.byref(text))
        return data
