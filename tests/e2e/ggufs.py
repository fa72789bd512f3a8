"""Read GGUF files without the program."""
import struct


def keys_and_tensors(data):
    """Return a GGUF file's keys, {tensor: (dims, type, offset)}, and the offset of its data."""
    at = 8

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, n = take("IQ")
            return [value(inner) for _ in range(n)]
        return take({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}[kind])

    n_tensors, n_keys = take("QQ")
    keys = {text(): value(take("I")) for _ in range(n_keys)}
    tensors = {}
    for _ in range(n_tensors):
        name, n_dims = text(), take("I")
        dims = [take("Q") for _ in range(n_dims)]
        tensors[name] = (dims, *take("IQ"))
    return keys, tensors, (at + 31) // 32 * 32


def floats(data):
    """Return {tensor: its numbers} of the float32 tensors of a GGUF file."""
    _, tensors, start = keys_and_tensors(data)
    found = {}
    for name, (dims, kind, offset) in tensors.items():
        n = 1
        for d in dims:
            n *= d
        if kind == 0:
            found[name] = struct.unpack_from(f"<{n}f", data, start + offset)
    return found
