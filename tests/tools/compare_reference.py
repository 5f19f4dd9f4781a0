"""compare_reference.py CUBE REFERENCE.json [LABEL]: compares a cube of the quickstart trajectory with the results of
transformers and the reference GPTQ. LABEL: the quantizer to compare with GPTQ (default gptq). Exits 1 on a mismatch.

Full-precision losses within 1e-6 relative, those of round-to-nearest within 1e-5; GPTQ's relative errors within 5 % or 4e-4,
whichever is more, at 2 bits within 1 % or 1e-4.

A group's largest weight is exactly half-way between two codes (absmax / (2 absmax / (2^bits - 1))). At 3 and 4 bits a
difference of one unit in the last place, which depends on the order of f32 sums, moves it by a whole step and changes all later
layers. At 2 bits the division is exact and no code flips. About half of the cells equal the reference to 1e-5; in the others the
relative error differs by a standard deviation of about 3e-4.
"""

import json
import sys

import numpy as np
import xarray as xr

MODELS = {"quickstart": "trajectory", "quickstart-cooldown": "cooldown"}
GPTQ = {2: (0.01, 1e-4), 3: (0.05, 4e-4), 4: (0.05, 4e-4)}  # bits: of itself, absolute


def places(cube):
    """(model, index, name) of every checkpoint that was evaluated."""
    for model in cube.model.values:
        one = cube.sel(model=model).isel(dataset=0)
        for index in np.flatnonzero(np.isfinite(one.baseline_loss.values)):
            yield str(model), int(index), str(one.checkpoint_name.values[index])


def main():
    label = sys.argv[3] if len(sys.argv) > 3 else "gptq"
    with xr.open_dataset(sys.argv[1], engine="h5netcdf") as cube:
        cube = cube.load()
    with open(sys.argv[2]) as file:
        reference = json.load(file)
    worst = {"full precision": 0.0, "rtn": 0.0, "gptq": 0.0}
    checked = 0

    def hold(kind, what, difference, allowed):
        share = float(difference / allowed) if np.isfinite(difference) else np.inf
        worst[kind] = max(worst[kind], share)
        if not share <= 1:
            print(f"{what}: off by {difference:.3g}, allowed {allowed:.3g}")

    for model, index, name in places(cube):
        expected = reference[MODELS[model]]
        loss = expected["loss_evaluation_blocks"][name]
        here = cube.sel(model=model).isel(checkpoint=index, dataset=0)
        hold("full precision", f"{model} {name}", abs(float(here.baseline_loss) - loss) / loss, 1e-6)
        for bits, (share, least) in GPTQ.items():
            what = f"{model} {name} {bits} bits"
            error = expected["relative_error"][name][f"rtn{bits}"]
            got = float(here.loss.sel(bits=bits, quantizer="rtn"))
            hold("rtn", what + " rtn", abs(got / (loss * (1 + error)) - 1), 1e-5)
            error = expected["relative_error"][name][f"gptq{bits}"]
            got = float(here.loss_relative.sel(bits=bits, quantizer=label))
            hold("gptq", f"{what} {label}", abs(got - error), max(share * abs(error), least))
        checked += 1
    print(f"{checked} checkpoints; the worst differences as shares of what is allowed:")
    print(", ".join(f"{kind} {share:.3g}" for kind, share in worst.items()))
    sys.exit(0 if checked and max(worst.values()) <= 1 else 1)


main()
