"""Runs files of Python that assert, all in one process, which imports the packages once:  checks.py FILE...

Each has a namespace of its own. Prints the traceback of each that fails, and exits with 1 if there is one."""

import pathlib
import runpy
import sys
import traceback

failed = 0
for path in sys.argv[1:]:
    try:
        runpy.run_path(path, run_name="__main__")
    except BaseException:  # sys.exit too
        failed += 1
        print(f"{pathlib.Path(path).stem}: {traceback.format_exc()}")
sys.exit(failed > 0)
