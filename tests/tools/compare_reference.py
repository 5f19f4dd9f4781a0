"""compare_reference.py CUBE REFERENCE.json [LABEL]: a cube of the quickstart trajectory against what transformers and
the reference GPTQ gave for it. LABEL: the quantizer that is held to be GPTQ (gptq). Exits 1 when something is off.

Full-precision losses within 1e-6 relative, those of round-to-nearest within 1e-5. The reference GPTQ runs in f32 and
differs from itself with the order of sums, which later layers amplify: its relative errors within 5 % of themselves
or 4e-4, whichever is more.
"""

import json
import sys

import numpy as np
import xarray as xr

MODELS = {"quickstart": "trajectory", "quickstart-cooldown": "cooldown"}
BITS = (2, 3, 4)


def places(cube):
    """(model, index, name) of every checkpoint that was evaluated."""
    for model in cube.model.values:
        one = cube.sel(model=model).isel(dataset=0)
        for index in np.flatnonzero(np.isfinite(one.baseline_loss.values)):
            yield str(model), int(index), str(one.checkpoint_name.values[index])


def main():
    label = sys.argv[3] if len(sys.argv) > 3 else "gptq"
    cube = xr.open_dataset(sys.argv[1], engine="h5netcdf").load()
    reference = json.load(open(sys.argv[2]))
    worst = {"baseline": 0.0, "rtn": 0.0, label: 0.0}
    checked = 0

    def hold(kind, what, difference, allowed):
        share = difference / allowed if np.isfinite(difference) else np.inf
        worst[kind] = max(worst[kind], share)
        if not share <= 1:
            print(f"{what}: off by {difference:.3g}, allowed {allowed:.3g}")

    for model, index, name in places(cube):
        expected = reference[MODELS[model]]
        loss = expected["loss_evaluation_blocks"][name]
        here = cube.sel(model=model).isel(checkpoint=index, dataset=0)
        hold("baseline", f"{model} {name}", abs(float(here.baseline_loss) - loss) / loss, 1e-6)
        for bits in BITS:
            error = expected["relative_error"][name][f"rtn{bits}"]
            got = float(here.loss.sel(bits=bits, quantizer="rtn"))
            hold("rtn", f"{model} {name} rtn {bits} bits", abs(got / (loss * (1 + error)) - 1), 1e-5)
            error = expected["relative_error"][name][f"gptq{bits}"]
            got = float(here.loss_relative.sel(bits=bits, quantizer=label))
            hold(label, f"{model} {name} {label} {bits} bits", abs(got - error), max(0.05 * abs(error), 4e-4))
        checked += 1
    print(f"{checked} checkpoints; of what is allowed, at worst:", {k: float(f"{v:.3g}") for k, v in worst.items()})
    sys.exit(0 if checked and max(worst.values()) <= 1 else 1)


main()
