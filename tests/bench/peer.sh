#!/usr/bin/env bash
# One checkpoint, one bit-width, own Hessian: qtraj and another program, one after the other on the same machine.
#   QTRAJ=build/release/qtraj tests/bench/peer.sh [PEER_COMMAND ...]
# The peer is called as PEER_COMMAND DIR IDS.safetensors BITS THREADS and must print JSON with seconds.total, e.g. a script that
# loads with transformers and quantizes block by block with the reference GPTQ. Without a peer, only qtraj is timed.
# Shapes: llama, h 576, I 1536, 30 layers, 9 heads, 3 key/value heads, vocabulary 49152, bf16, random; 16 x 512 tokens each for calibration
# and evaluation. PYTHON (with numpy) makes them; PRODUCTS: qtraj's (default f32); THREADS (default 2); WORK: folder to keep them, default a temporary one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
qtraj=${QTRAJ:?set QTRAJ to the binary} python=${PYTHON:-python3} threads=${THREADS:-2}
if [ -n "${WORK:-}" ]; then work=$WORK; mkdir -p "$work"; else work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; fi
[ -f "$work/ids.safetensors" ] || {
  "$python" "$here/make_checkpoint.py" "$qtraj" "$work/model" --family llama --hidden 576 --layers 30 --heads 9 --kv-heads 3 \
    --intermediate 1536 --vocab 49152 --set tie_word_embeddings=true
  "$python" "$here/make_ids.py" "$work/ids.safetensors" 49152 calibration_ids=16,512 evaluation_ids=16,512
}
"$qtraj" inspect "$work/model" >/dev/null # the binary and the checkpoint are in memory from here on, for both
start=$(date +%s.%N)
OMP_NUM_THREADS=$threads "$qtraj" quantize "$work/model" --method gptq --bits 4 --products "${PRODUCTS:-f32}" \
  --calibration-ids "$work/ids.safetensors:calibration_ids" --evaluation-ids "$work/ids.safetensors:evaluation_ids" --json >"$work/qtraj.json"
end=$(date +%s.%N)
ours=$("$python" -c "print(f'{$end - $start:.2f}')")
echo "qtraj: $ours s with $threads threads, start to end; $("$python" -c "
import json; r = json.load(open('$work/qtraj.json')); print('loss', r['loss'], 'full precision', r['baseline_loss'])")"
[ $# -gt 0 ] || exit 0
"$@" "$work/model" "$work/ids.safetensors" 4 "$threads" | tee "$work/peer.json"
"$python" -c "
import json; peer = json.loads(open('$work/peer.json').read().splitlines()[-1])['seconds']['total']
print(f'the peer: {peer:.2f} s; qtraj is {peer / $ours:.1f} times faster')"
