"""Imported first by the commands beside this file. They compute with one thread unless OMP_NUM_THREADS or
OPENBLAS_NUM_THREADS says otherwise. A command that was started by a Python without the modules starts
again in the one that slurm/python.sh chooses, or ends with the command that installs them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

chooser = Path(__file__).resolve().parent.parent / "slurm" / "python.sh"

signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends a command as it does others
# Matrices here are small: more threads of OpenBLAS only wait for each other, on a busy node for minutes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ.setdefault("OMP_NUM_THREADS", "1"))  # numpy reads them when it is imported


def choose():
    """Returns if this Python has the modules. Prefers it to the others, an activated environment's among them."""
    answer = subprocess.run([chooser], env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True)
    if answer.returncode != 0:
        sys.stderr.write(answer.stderr)
        sys.exit(2)
    python = answer.stdout.strip()
    if python != sys.executable:
        os.execv(python, [python, *sys.argv])


if chooser.is_file():
    choose()
