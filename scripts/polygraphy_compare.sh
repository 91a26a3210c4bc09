#!/usr/bin/env bash
# Compare an engine with ONNX Runtime, output by output, with Polygraphy.
#
# usage: scripts/polygraphy_compare.sh engines/lenet5-fp32.engine [polygraphy run options]
#
# Takes the .onnx that `lenet-trt build` left beside the engine. Needs a GPU that the engine was built for, and
# `pip install -e '.[polygraphy]'`. Without a GPU, --onnxrt alone runs: add --no-engine as the second argument.
# An engine with plugins wants --plugins FILE.so.
set -euo pipefail
engine=${1:?usage: $0 ENGINE [--no-engine] [polygraphy run options]}
shift
model=$engine.onnx
[ -f "$model" ] || { echo "$model is missing: build the engine with lenet-trt build" >&2; exit 1; }

if [ "${1:-}" = --no-engine ]; then
    shift
    exec polygraphy run "$model" --onnxrt "$@"
fi
tensorrt=tensorrt
# Engines of TensorRT-RTX load in TensorRT-RTX alone; the sidecar says which flavor built this one.
if grep -q '"flavor": "rtx"' "${engine%.engine}.json"; then
    export POLYGRAPHY_USE_TENSORRT_RTX=1
    tensorrt=tensorrt_rtx
fi
# Polygraphy opens plugin libraries before it imports TensorRT, and a library registers itself with a TensorRT that is there.
with_tensorrt="import $tensorrt, sys
from polygraphy.tools import main
sys.exit(main())"
"${PYTHON:-python}" -c "$with_tensorrt" run "$engine" --model-type engine --trt \
    --save-inputs inputs.json --save-outputs engine_outputs.json "$@"
polygraphy run "$model" --onnxrt --load-inputs inputs.json --load-outputs engine_outputs.json --atol 1e-3 --rtol 1e-3
