#!/usr/bin/env bash
# Does what the tutorial says, in an empty folder with the parts of the checkout that it uses.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy matplotlib xarray h5netcdf

mkdir -p "$work/checkout/build" "$work/bin"
ln -s "$SOURCE"/{analysis,configs,docs} "$work/checkout/"
ln -s "$(dirname "$QTRAJ")" "$work/checkout/build/release"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$python")" >"$work/bin/python3"
chmod +x "$work/bin/python3"
cd "$work/checkout" || exit 2
PATH=$work/bin:$PATH timeout -k 5 600 "$python" "$SOURCE/tests/tools/run_blocks.py" docs/tutorial.md >"$work/out" 2>&1 || fail "$(cat "$work/out")"
grep -qx '16 blocks' "$work/out" || fail "blocks that ran: $(tail -n 1 "$work/out")"
[ -s study/figures/relative_error.png ] || fail "no figure"
finish
