"""Holds docs/figures.md against the package and configs/, with analysis/ in PYTHONPATH:  check_figures_page.py SOURCE FOLDER

Every figure that it names is one of a cube or of fits, every figure of a cube that shows errors is named or of one layer, every sweep is there with the
cells that the page states, and every command of the published law runs."""

import contextlib
import io
import pathlib
import re
import sys

from qtraj import figures
from qtraj.predict import command


def rows_of(page):
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 3:
            yield cells


def check_names(page):
    known = {one.__name__ for one in figures.FIGURES + figures.FIT_FIGURES}
    for subject, ours, _ in rows_of(page):
        for name in re.findall(r"`([a-z_]+)`", ours):
            assert name in known | {"level", "trained", "evaluation"}, f"{subject}: no figure {name}"
    unnamed = known - set(re.findall(r"`([a-z_]+)`", page))
    assert unnamed <= {"agreement", "layer_errors", "fit_tokens_or_rate", "fit_predictions"}, f"not on the page: {unnamed}"


def check_sweeps(page, configs):
    found = re.findall(r"`([a-z0-9.\-/]+\.yaml)`(?: \(([0-9]+)\))?", page)
    for name, cells in found:
        assert (configs / name).is_file(), f"no configs/{name}"
        if cells:
            stated = re.search(r"bit-widths: ([0-9]+) cells", (configs / name).read_text(encoding="utf-8"))
            assert stated and stated.group(1) == cells, f"{name}: {cells} cells on the page, {stated and stated.group(1)} in the file"
    missing = {path.name for path in configs.glob("*.yaml")} - {name for name, _ in found}
    assert not missing, f"not on the page: {missing}"


def check_commands(page, folder):
    (folder / "rows.csv").write_text("model,parameters,tokens,bits\na,7e9,1e11,3\n", encoding="utf-8")
    said = {one.rstrip() for one in re.findall(r"`predict\.py (published [^`]+)`", page)}
    assert len(said) >= 4, said
    for i, line in enumerate(sorted(said)):
        sys.argv = ["predict.py", *line.replace("CSV", str(folder / "rows.csv")).replace("FILE", str(folder / f"{i}.png")).split()]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            command.main()
        assert out.getvalue() and ("FILE" not in line or (folder / f"{i}.png").stat().st_size > 5000), line


def main():
    source, folder = map(pathlib.Path, sys.argv[1:3])
    page = (source / "docs/figures.md").read_text(encoding="utf-8")
    check_names(page)
    check_sweeps(page, source / "configs")
    check_commands(page, folder)


if __name__ == "__main__":
    main()
