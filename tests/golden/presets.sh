# The presets against the packages, on padded batches of documents of unequal length.
set -eu
for python in python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2>/dev/null && exec "$python" "$SOURCE/tests/golden/presets.py" "$QTRAJ" "$SOURCE/tests/fixtures"
done
echo "skipped: no python3 with numpy"
exit 77
