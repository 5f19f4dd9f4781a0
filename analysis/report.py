#!/usr/bin/env python3
"""Writes a report on results cubes that can be sent to a colleague:  report.py RESULTS.h5 ... --out DIR"""

from qtraj.report.command import main

if __name__ == "__main__":
    main()
