"""Loaded into llama-server's tests: its presets are started once only so that their models are fetched, and here none are."""
import utils

utils.ServerPreset.load_all = staticmethod(lambda: None)
