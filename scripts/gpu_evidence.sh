#!/usr/bin/env bash
# Everything that has to be seen on a GPU with TensorRT, in pieces of at most nine minutes; each leaves its records.
#
# usage: scripts/gpu_evidence.sh [--list | --print] FOLDER [PIECE...]
#
#   scripts/gpu_evidence.sh --list evidence                  the pieces
#   scripts/gpu_evidence.sh evidence builds                  one piece, in the foreground
#   scripts/gpu_evidence.sh --print evidence builds          what it would run
#
# A piece writes into FOLDER/PIECE and FOLDER/PIECE.log; of the log, the end is shown. The status is 0 when every command
# of it ended well. One that ran out of time ends with 124: `optimize-...` goes on where it was when it is run again.
# Needs the plugin library (./liblenet_trt_plugins.so, or LIBRARY), made by `lenet-trt library`, and for the engines-... pieces
# trtexec on the PATH, and cuBLAS and cuDNN of its TensorRT for rows with their kernels. FLAVOR=rtx takes TensorRT-RTX. Run it from the root of a clone; the checks of `service` are tests.
set -uo pipefail

SECONDS_A_PIECE=530
flavor=${FLAVOR:-tensorrt}
SHOWN_LINES=40
PIECES=(
    engines-lenet5-fp32-small engines-lenet5-fp32-large engines-lenet5-fp16-small engines-lenet5-fp16-large
    engines-lenet5-int8-small engines-lenet5-int8-large
    engines-matmul-fp32 engines-matmul-fp16 engines-conv engines-conv-pool engines-conv-int8
    engines-layers-fp32 engines-layers-fp16 engines-kernels
    builds quantized service sanitizer nsys polygraphy latency optimize-matmul optimize-lenet5 optimize-conv
)

usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

# Runs a command, or prints it; after one that failed nothing more of the piece is run.
step() {
    if [ "$mode" = --print ]; then
        printf '%q ' "$@"
        echo
        return
    fi
    echo "\$ $*"
    "$@" || exit $?
}

lenet() { step "${LENET_TRT:-lenet-trt}" "$@"; }

engines() { # TEXT [BATCH...]
    local only=$1
    shift
    lenet bench engines --best-peers --only "$only" ${1:+--batch "$@"} --library "$library" -o "$out" --overwrite
}

builds() {
    for precision in fp32 fp16; do
        lenet build --flavor "$flavor" "--$precision" --force -o "$out/$precision.engine"
        lenet run "$out/$precision.engine" --runtime tensorrt
        lenet build --flavor "$flavor" "--$precision" --force --plugins lenet5 --plugin-route library --library "$library" \
            -o "$out/$precision-plugins.engine"
        lenet run "$out/$precision-plugins.engine" --runtime tensorrt --library "$library"
    done
}

# Where the time of int8 goes, layer by layer, beside fp32 and fp16; and the int8 kernel of the tests, integer by integer.
quantized() {
    for precision in fp32 fp16 int8 int8-fp16; do
        local model="--$precision"
        [ "$precision" != int8-fp16 ] || model="export/models/lenet5.int8.onnx --fp16"
        # shellcheck disable=SC2086  # a model and an option
        lenet build --flavor "$flavor" $model --batch 1:1024:10000 --force -o "$out/$precision.engine"
        lenet run "$out/$precision.engine" --runtime tensorrt
        for batch in 32 1024 10000; do
            local timeline=$out/$precision-$batch.timeline.json
            lenet profile "$out/$precision.engine" --trtexec --shapes "images:${batch}x1x28x28" -o "$timeline" --overwrite
            lenet report "$timeline" --model "$out/$precision.engine.onnx" -o "$out/$precision-$batch.html" --overwrite
        done
    done
    step "${PYTHON:-python}" -m pytest -q -k int8 tests/gpu/test_kernels.py
}

# A few shapes, so that several variants of the kernel run.
SANITIZED='import sys, numpy as np
from lenet_trt.run import load
network = load(sys.argv[1], "tensorrt", library=sys.argv[2])
for batch in (1, 3, 33, 1000):
    print(batch, network(np.ones((batch, 1, 28, 28), np.float32)).argmax(1)[:1])'

sanitizer() {
    lenet build --flavor "$flavor" --fp32 --force --plugins lenet5 --plugin-route library --library "$library" \
        -o "$out/lenet5.engine"
    for tool in memcheck initcheck; do
        step compute-sanitizer --tool "$tool" --error-exitcode 86 "${PYTHON:-python}" -c "$SANITIZED" \
            "$out/lenet5.engine" "$library"
    done
}

# TensorRT's program under Nsight Systems, and the traces as timelines.
nsys_traces() {
    local model
    for model in matmul lenet5; do
        local shapes=() profile=()
        [ "$model" != lenet5 ] || shapes=(--shapes=images:32x1x28x28) profile=(--{min,opt,max}Shapes=images:32x1x28x28)
        lenet export "$model" -o "$out/$model.onnx" --overwrite
        lenet fuse "$out/$model.onnx" --embed -o "$out/$model.fused.onnx" --overwrite
        step trtexec "--onnx=$out/$model.fused.trt.onnx" "--staticPlugins=$library" --profilingVerbosity=detailed \
            "${profile[@]}" "--saveEngine=$out/$model.engine"
        step scripts/nsys_profile.sh "$out/$model" trtexec "--loadEngine=$out/$model.engine" "--staticPlugins=$library" \
            "${shapes[@]}" --profilingVerbosity=detailed --noDataTransfers --warmUp=0 --duration=0 --iterations=20
        lenet profile --from "$out/$model.nsys-rep" -o "$out/$model.timeline.json" --overwrite
    done
}

compared() {
    lenet build --flavor "$flavor" --fp32 --force --plugins lenet5 --plugin-route library --library "$library" \
        -o "$out/lenet5.engine"
    step scripts/polygraphy_compare.sh "$out/lenet5.engine" --plugins "$library"
}

optimized() { # MODEL BATCH...
    local model=$1
    shift
    [ "$mode" = --print ] || cd "$out" || exit # so that the record names no folder of this machine
    lenet export "$model" -o "$model.onnx" --overwrite
    lenet optimize "$model.onnx" --runtime tensorrt --flavor "$flavor" ${1:+--batch "$@"} -o "$model"
}

piece() {
    case $1 in
        engines-lenet5-fp32-small) engines "LeNet-5 fp32" 1 32 ;;
        engines-lenet5-fp32-large) engines "LeNet-5 fp32" 256 1024 10000 ;;
        engines-lenet5-fp16-small) engines "LeNet-5 fp16" 1 32 ;;
        engines-lenet5-fp16-large) engines "LeNet-5 fp16" 256 1024 10000 ;;
        engines-lenet5-int8-small) engines "LeNet-5 int8" 1 32 ;;
        engines-lenet5-int8-large) engines "LeNet-5 int8" 256 1024 10000 ;;
        engines-matmul-fp32) engines "MatMul fp32" ;;
        engines-matmul-fp16) engines "MatMul fp16" ;;
        engines-conv) engines "Conv fp" ;;
        engines-conv-pool) engines "Conv + ReLU" ;;
        engines-conv-int8) engines "pool int8" ;;
        engines-layers-fp32) engines ", fp32" ;;
        engines-layers-fp16) engines ", fp16" ;;
        engines-kernels) engines "kernel " ;;
        builds) builds ;;
        quantized) quantized ;;
        service) step "${PYTHON:-python}" -m pytest -q -s tests/gpu/test_engine_service.py ;;
        sanitizer) sanitizer ;;
        nsys) nsys_traces ;;
        polygraphy) compared ;;
        latency) lenet bench latency --library "$library" -o "$out" --overwrite ;;
        optimize-matmul) optimized matmul ;;
        optimize-lenet5) optimized lenet5 1 32 1024 10000 ;;
        optimize-conv) optimized conv ;;
        *) echo "there is no piece $1; there are: ${PIECES[*]}" >&2; exit 2 ;;
    esac
}

# Called by itself, so that a limit of time holds for a piece as a whole.
if [ "${1:-}" = --piece ]; then
    mode=--piece out=$2/$3 library=$(realpath -m "${LIBRARY:-liblenet_trt_plugins.so}")
    export LENET_TRT_LIBRARY=$library
    mkdir -p "$out"
    piece "$3"
    exit 0
fi

mode=
case ${1:-} in
    --help) usage; exit 0 ;;
    --list | --print) mode=$1; shift ;;
esac
folder=${1:-}
[ -n "$folder" ] || { usage >&2; exit 2; }
shift
[ "$mode" != --list ] || { printf '%s\n' "${PIECES[@]}"; exit 0; }
[ $# -gt 0 ] || set -- "${PIECES[@]}"
for name in "$@"; do
    if [ "$mode" = --print ]; then
        (out=$folder/$name library=${LIBRARY:-liblenet_trt_plugins.so}; piece "$name") || exit $?
        continue
    fi
    mkdir -p "$folder"
    timeout --signal=INT --kill-after=10 "$SECONDS_A_PIECE" "$0" --piece "$folder" "$name" > "$folder/$name.log" 2>&1
    status=$?
    tail -n "$SHOWN_LINES" "$folder/$name.log"
    echo "$name: status $status (the whole log: $folder/$name.log)"
    [ "$status" -eq 0 ] || exit "$status"
done
