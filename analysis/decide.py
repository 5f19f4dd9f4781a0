#!/usr/bin/env python3
"""Says which checkpoint is best once it is quantized:  decide.py RESULTS.h5 ... --bits 3 [--compare COLUMN]"""

import interpreter  # noqa: F401: before the first import that may fail
from qtraj.runs.command import main

if __name__ == "__main__":
    main()
