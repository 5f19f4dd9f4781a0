#!/usr/bin/env python3
"""Draws the figures of a results cube:  figures.py RESULTS.h5 --out DIR [--bits 3,4] [--model NAME] [--only NAME,NAME]"""

import interpreter  # noqa: F401: before the first import that may fail
from qtraj.figures.command import main

if __name__ == "__main__":
    main()
