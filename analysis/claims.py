#!/usr/bin/env python3
"""What cubes say of the claims of both papers:  claims.py CUBES [--json]"""

import interpreter  # noqa: F401: before the first import that may fail
from qtraj.claims.command import main

if __name__ == "__main__":
    main()
