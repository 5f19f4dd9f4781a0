#!/usr/bin/env bash
# Makes the cubes of tests/tools/make_cubes.py in $CUBES, once for all tests of analysis/ that read them.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy xarray h5netcdf

rm -rf "$CUBES"
"$python" "$SOURCE/tests/tools/make_cubes.py" "$CUBES" || fail "no cubes"
finish
