# h5py and xarray open the cube $QTRAJ_OPENS (20) times at random moments while runs go on and write it anew: every open succeeds
# and gives whole numbers.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy xarray
quickstart_sweep '1p;9p' fixed_text <<YAML
name: readers
results: x.h5
bits: [4]
methods: [{method: rtn, group_size: 64}]
evaluation: [{name: text, text: text.txt, length: 64, skip: 4, samples: 2}]
YAML
cd "$work" || exit 2
"$QTRAJ" run sweep.yaml 2>err || fail "the first run: exit code $?: $(cat err)"

"$python" -W ignore - "${QTRAJ_OPENS:-20}" >opens 2>&1 <<'PYTHON' &
import os, random, sys, time
import h5py, numpy, xarray

wanted, seen, failures = int(sys.argv[1]), set(), 0
opens, end = 0, time.monotonic() + 3600
while opens < wanted or len(seen) < 3:  # of three cubes at least
    assert time.monotonic() < end, "no new cube in an hour"
    time.sleep(random.random() / 20)
    seen.add(os.stat("x.h5").st_ino)
    try:
        if opens % 2:
            with h5py.File("x.h5") as f:
                assert numpy.all(f["status"][...] == 1) and numpy.all(numpy.isfinite(f["loss"][...]))
        else:
            with xarray.open_dataset("x.h5", engine="h5netcdf") as cube:
                assert float(cube.loss.sel(bits=4, quantizer="rtn").squeeze()) > 0
    except Exception as e:
        failures += 1
        print(f"open {opens}: {type(e).__name__}: {e}")
    opens += 1
print(f"{opens} opens of {len(seen)} cubes, {failures} failed")
sys.exit(failures > 0)
PYTHON
reader=$!
runs=0
while kill -0 $reader 2>/dev/null; do
    "$QTRAJ" run sweep.yaml --redo >/dev/null 2>err || { fail "run $runs: exit code $?: $(cat err)"; break; }
    runs=$((runs + 1))
done
wait $reader || fail "opening a cube: $(cat opens)"
echo "$(tail -n 1 opens) during $runs runs"
finish
