#!/usr/bin/env python3
"""Writes a report on results cubes that can be sent to a colleague:  report.py RESULTS.h5 ... --out DIR"""

import interpreter  # noqa: F401: before the first import that may fail
from qtraj.report.command import main

if __name__ == "__main__":
    main()
