#!/usr/bin/env python3
"""Fits laws of the loss that quantization adds:  fits.py RESULTS.h5|POINTS.csv ... [--json] [--figures DIR]"""

import interpreter  # noqa: F401: before the first import that may fail
from qtraj.laws.command import main

if __name__ == "__main__":
    main()
