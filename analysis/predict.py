#!/usr/bin/env python3
"""What a law of the added loss says of other models:  predict.py FIT.json|published --parameters N --tokens D --bits P,P"""

import interpreter  # noqa: F401: before the first import that may fail
from qtraj.predict.command import main

if __name__ == "__main__":
    main()
