# Curvature of the parity fixtures against double backward in f64.
set -eu
for python in python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2>/dev/null && exec "$python" "$SOURCE/tests/golden/curvature.py" "$QTRAJ" "$SOURCE/tests/fixtures/models"
done
echo "skipped: no python3 with numpy"
exit 77
