#!/usr/bin/env bash
# Makes what is generated in configs/: the trajectory tables from configs/trajectories/*.ini, and the config.json of every
# model from configs/shapes/shapes.csv. Needs Python 3.8 and no network.
#   jobs/make_configs.sh           in place
#   jobs/make_configs.sh DIR       into DIR/trajectories and DIR/shapes, to compare
set -eu
out=${1:+$(realpath -m -- "$1")}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

out=${out:-configs}
mkdir -p "$out/trajectories" "$out/shapes"
for spec in configs/trajectories/*.ini; do
    python3 jobs/fetch_trajectory.py "$spec" --out "$out/trajectories"
done
python3 jobs/make_shapes.py configs/shapes/shapes.csv "$out/shapes"
