"""atom.py FIXTURE CUBE: whether the loss of each quantizer is that of Atom's code (model.atom.QUANTIZER.nll)."""
import sys

import h5py
import numpy as np

from safetensors_reader import load

reference = load(sys.argv[1])
with h5py.File(sys.argv[2]) as cube:
    for i, name in enumerate(cube["quantizer"].asstr()[:]):
        loss, want = np.nansum(cube["loss"][0, 0, :, i]), reference[f"model.atom.{name}.nll"].mean()
        print(f"{name}: {loss:.7f}, reference {want:.7f}")
        assert abs(loss - want) < 2e-6, (name, loss, want)
