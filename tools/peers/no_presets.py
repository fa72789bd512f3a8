"""A plugin for llama-server's tests: they start all presets once only to fetch their models, which is not needed here."""
import utils

utils.ServerPreset.load_all = staticmethod(lambda: None)
