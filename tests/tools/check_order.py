"""What a column-major reader (Julia, Fortran) sees of a cube through the C library:  check_order.py CUBE.h5

Calls H5Dread and H5DSis_attached as HDF5.jl does for analysis/julia and compares with h5py and xarray: the names of the axes, and
every number at its labels when the flat buffer is taken column by column with the axes in reverse."""

import ctypes
import sys

import h5py
import numpy as np
import xarray as xr

HID = ctypes.c_int64
SIZE = ctypes.c_uint64


def loaded(name):
    """The library that h5py itself uses, so that there is one version of HDF5 in the process."""
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if name in line.split("/")[-1]}
    wanted = [path for path in paths if ("_hl" in path.split("/")[-1]) == ("_hl" in name)]
    assert wanted, f"h5py has not loaded {name}"
    return ctypes.CDLL(sorted(wanted)[0])


class File:
    def __init__(self, path):
        self.hdf5, self.hl = loaded("libhdf5"), loaded("_hl")
        for function in ("H5Fopen", "H5Dopen2", "H5Dget_space"):
            getattr(self.hdf5, function).restype = HID
        self.double = HID.in_dll(self.hdf5, "H5T_NATIVE_DOUBLE_g")
        self.id = HID(self.hdf5.H5Fopen(path.encode(), ctypes.c_uint(0), HID(0)))
        assert self.id.value >= 0, path

    def open(self, name):
        found = HID(self.hdf5.H5Dopen2(self.id, name.encode(), HID(0)))
        assert found.value >= 0, name
        return found

    def read(self, name):
        """The sizes of the axes as the library gives them, and the numbers in the order of the buffer that H5Dread fills."""
        dataset = self.open(name)
        space = HID(self.hdf5.H5Dget_space(dataset))
        sizes = (SIZE * self.hdf5.H5Sget_simple_extent_ndims(space))()
        self.hdf5.H5Sget_simple_extent_dims(space, sizes, None)
        flat = np.empty(int(np.prod(list(sizes))))
        status = self.hdf5.H5Dread(dataset, self.double, HID(0), HID(0), HID(0), flat.ctypes.data_as(ctypes.c_void_p))
        assert status >= 0, name
        return [int(size) for size in sizes], flat

    def axes(self, name, scales):
        """The name of the scale that is attached to each dimension."""
        dataset, found = self.open(name), []
        for place in range(len(self.read(name)[0])):
            attached = [scale for scale in scales
                        if self.hl.H5DSis_attached(dataset, self.open(scale), ctypes.c_uint(place)) > 0]
            assert len(attached) == 1, (name, place, attached)
            found += attached
        return found


def main():
    path = sys.argv[1]
    file = File(path)
    with h5py.File(path) as stored:
        scales = [name for name, thing in stored.items() if isinstance(thing, h5py.Dataset) and h5py.h5ds.is_scale(thing.id)]
        wanted = [name for name, thing in stored.items() if isinstance(thing, h5py.Dataset) and name not in scales
                  and thing.ndim > 0 and thing.dtype.kind == "f"]
        arrays = {name: stored[name][:] for name in wanted}
    cube = xr.open_dataset(path, engine="h5netcdf")
    for name in wanted:
        sizes, flat = file.read(name)
        axes = file.axes(name, scales)
        assert tuple(axes) == cube[name].dims, (name, axes, cube[name].dims)
        seen = flat.reshape(sizes[::-1], order="F")  # what Julia calls size(a) is sizes in reverse
        assert np.array_equal(seen.transpose(), arrays[name], equal_nan=True), f"{name}: permutedims(a, reverse(1:ndims(a)))"
        assert np.array_equal(seen.transpose(), cube[name].values, equal_nan=True), name
    cells = xr.open_dataset(path, engine="h5netcdf", group="cells").to_dataframe()
    sizes, flat = file.read("loss_relative")
    seen = flat.reshape(sizes[::-1], order="F")
    places = {axis: {label: i for i, label in enumerate(cube[axis].values)} for axis in cube.loss_relative.dims}
    for row in cells.itertuples():
        at = [places[axis][getattr(row, axis)] for axis in cube.loss_relative.dims]
        value = seen[tuple(at[::-1])]
        assert value == row.loss_relative or (np.isnan(value) and np.isnan(row.loss_relative)), row
    print(f"{len(wanted)} variables, {len(cells)} cells")


if __name__ == "__main__":
    main()
