# GPTQ's orders, range search and RTN on a whole model against GPTQModel and the reference.
set -eu
for python in python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2>/dev/null && exec "$python" "$SOURCE/tests/golden/gptq_methods.py" "$QTRAJ" "$SOURCE/tests/fixtures"
done
echo "skipped: no python3 with numpy"
exit 77
