"""What a program of analysis/ refuses, all in one process:  refusals.py PROGRAM <CASES

A line of CASES, quoted as in a shell, is a message and the arguments that lead to it. Prints each case that does not end
with a code other than 0 and that message, or that ends with a traceback, and exits 1 if there is one."""

import contextlib
import io
import pathlib
import runpy
import shlex
import sys
import traceback


def refusal(program, arguments):
    """The exit code and what the program writes to stderr, where sys.exit(TEXT) writes its text."""
    written = io.StringIO()
    sys.argv = [program, *arguments]
    with contextlib.redirect_stderr(written), contextlib.redirect_stdout(io.StringIO()):
        try:
            runpy.run_path(program, run_name="__main__")
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            code = traceback.format_exc()
    return (code, written.getvalue()) if isinstance(code, int) else (1, written.getvalue() + code)


def main():
    program, wrong, cases = sys.argv[1], 0, [shlex.split(line) for line in sys.stdin if line.strip()]
    sys.path.insert(0, str(pathlib.Path(program).parent))
    for message, *arguments in cases:
        code, said = refusal(program, arguments)
        if code == 0 or message not in said or "Traceback" in said:
            wrong += 1
            print(f"{arguments}: code {code}, expected {message!r}: {said}")
    sys.exit(wrong > 0 or not cases)


if __name__ == "__main__":
    main()
