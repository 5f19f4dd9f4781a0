"""The blocks of docs/julia.md in both languages:  julia_blocks.py PAGE CUBE [--compare OUT]

Prints the Julia blocks as one program that ends with its numbers, a name and a number a line; --compare runs the Python blocks and
compares their numbers with those lines to 1e-10."""

import contextlib
import io
import re
import sys

from run_blocks import CUBE, blocks_of

NUMBERS = """
for (at_checkpoint, checkpoint) in enumerate(errors.labels[1]), quantizer in errors.labels[2]
    println("number error/", at_checkpoint - 1, "/", quantizer, " ", errors.data[at_checkpoint, findfirst(==(quantizer), errors.labels[2])])
end
for bits in cube.axes["bits"], quantizer in cube.axes["quantizer"]
    found = filter(isfinite, at(cube["loss_relative"]; bits = bits, quantizer = quantizer).data)
    isempty(found) || println("number mean/", bits, "/", quantizer, " ", mean(found))
end
for quantizer in cube.axes["quantizer"]
    println("number seconds/", quantizer, " ", sum(filter(isfinite, [table.seconds[r] for r in rows if table.quantizer[r] == quantizer])))
end
println("number done/ ", count(==(1), table.status[rows]))
println("number exponent/ ", exponent)
"""


def of_python(blocks, path):
    """name -> number, by the Python blocks."""
    space = {"__name__": "page"}
    with contextlib.redirect_stdout(io.StringIO()):
        for language, _, code in blocks:
            if language == "python":
                exec(re.sub(CUBE, repr(path), code), space)
    labels = space["labels"]
    out = {f"error/{i}/{q}": value for i, row in enumerate(space["by_h5py"]) for q, value in zip(labels["quantizer"], row)}
    out.update({f"mean/{b}/{q}": space["mean_by_h5py"][i, j] for i, b in enumerate(labels["bits"]) for j, q in enumerate(labels["quantizer"])})
    out.update({f"seconds/{q}": value for q, value in space["time_by_h5py"].items()})
    return {**out, "done/": space["count_by_h5py"], "exponent/": space["exponent"]}


def main():
    page, path = sys.argv[1:3]
    with open(page, encoding="utf-8") as file:
        blocks = list(blocks_of(file.read()))
    if len(sys.argv) == 3:
        print("\n".join(re.sub(CUBE, f'"{path}"', code) for language, _, code in blocks if language == "julia"), NUMBERS)
        return
    wanted = {name: value for name, value in of_python(blocks, path).items() if value == value}
    with open(sys.argv[4], encoding="utf-8") as file:
        lines = [line.split()[1:] for line in file if line.startswith("number ")]
    found = {name: float(text) for name, text in lines if text != "NaN"}
    if wanted.keys() != found.keys():
        sys.exit(f"only one of both languages has {sorted(wanted.keys() ^ found.keys())[:5]}")
    worst = max(abs(found[name] - wanted[name]) / abs(wanted[name] or 1) for name in wanted)
    print(f"{len(wanted)} numbers equal Python's, the worst to {worst:.1e}")
    if worst > 1e-10:
        sys.exit("they differ by more than 1e-10")


if __name__ == "__main__":
    main()
