"""Helpers of the scripts in this folder: reading safetensors, and checks that are printed and counted."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tools"))
from safetensors_reader import load as load

failures = 0


def expect(ok, text):
    global failures
    print(("ok   " if ok else "FAIL ") + text)
    failures += not ok


def finish():
    """The last line of a script."""
    sys.exit(failures != 0)
