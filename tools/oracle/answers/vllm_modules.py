"""What the tests of vLLM import, by name, without vLLM: modules whose members do nothing, and pytest's parametrize, which keeps its values.

collect(FILE) yields the names and the values of each @pytest.mark.parametrize in a test file."""
import importlib.abc
import importlib.machinery
import sys
import types

ABSENT = {"vllm", "transformers", "openai", "xgrammar", "tests", "partial_json_parser", "pytest", "torch", "regex", "pydantic", "huggingface_hub"}


class Anything:
    """Stands for whatever a test makes of the library."""
    def __init__(self, *arguments, **members):
        self.__dict__.update(members)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *arguments, **members):
        return arguments[0] if arguments and callable(arguments[0]) else Anything()

    def __getitem__(self, key):
        return Anything()

    def __iter__(self):
        return iter(())

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases):
        return (object,)


def parametrize(argnames, argvalues=(), **_):
    names = [n.strip() for n in argnames.split(",")] if isinstance(argnames, str) else list(argnames)

    def keep(function):
        function.__dict__.setdefault("given", []).append((names, argvalues))
        return function
    return keep


class Modules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] in ABSENT else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        if spec.name == "pytest":
            module.mark = Anything(parametrize=parametrize)
            module.param = lambda *values, **_: values
            module.fixture = lambda *a, **_: a[0] if a else lambda f: f

        def member(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Anything if name[0].isupper() else Anything()
        module.__getattr__ = member
        return module

    def exec_module(self, module):
        pass


def collect(path):
    sys.meta_path.insert(0, Modules())
    kept = dict(sys.modules)
    try:
        space = {"__name__": path.stem, "__file__": str(path)}
        exec(compile(path.read_text(), str(path), "exec"), space)
    finally:
        sys.meta_path.pop(0)
        for name in set(sys.modules) - set(kept):
            if name.split(".")[0] in ABSENT:
                del sys.modules[name]
    for v in list(space.values()):
        functions = [v] if isinstance(v, types.FunctionType) else list(vars(v).values()) if isinstance(v, type) else []
        for f in functions:
            yield from getattr(f, "given", []) if isinstance(f, types.FunctionType) else []
