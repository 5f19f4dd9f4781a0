#!/usr/bin/env python3
"""Draws the figures of a results cube:  figures.py RESULTS.h5 --out DIR [--bits 3,4] [--model NAME] [--only NAME,NAME]"""

from qtraj.figures.command import main

if __name__ == "__main__":
    main()
