"""Runs the python blocks of a Markdown file one after the other in one namespace, each with the name of the cube
replaced:  run_blocks.py DOC.md CUBE.h5"""

import re
import sys


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    blocks = [(m.start(1), m.group(1)) for m in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)]
    space = {}
    for start, block in blocks:
        line = text.count("\n", 0, start)
        code = "\n" * line + re.sub(r'"results/quickstart\.h5"', repr(sys.argv[2]), block)
        exec(compile(code, sys.argv[1], "exec"), space)
    print(f"{len(blocks)} blocks")


if __name__ == "__main__":
    main()
