#!/usr/bin/env bash
# Compile the plugin library for a release: one file for each TensorRT and processor, and SHA256SUMS.
#
# usage: scripts/release_libraries.sh FOLDER HEADERS...
#
#   scripts/release_libraries.sh dist/libraries TensorRT-8.6/include TensorRT-10.16/include TensorRT-11.1/include
#   (cd dist/libraries && sha256sum -c SHA256SUMS)
#
# HEADERS are folders of NvInfer.h. The same sources and compilers give the same bytes wherever the folders are, so anybody
# can compile a release again and compare. Needs g++ and g++-aarch64-linux-gnu; TARGETS=x86_64 leaves the second out.
set -euo pipefail

folder=${1:?usage: $0 FOLDER HEADERS...}
shift
[ $# -gt 0 ] || { echo "usage: $0 FOLDER HEADERS...: name a folder of NvInfer.h for each TensorRT" >&2; exit 2; }
command=${LENET_TRT:-lenet-trt}
mkdir -p "$folder"
work=$(mktemp -d "$folder/.making.XXXXXX")
trap 'rm -rf "$work"' EXIT

for headers in "$@"; do
    for target in ${TARGETS:-x86_64 aarch64}; do
        made=$("$command" library --headers "$headers" --target "$target" -o "$work/library.so" --overwrite --json)
        version=$(python3 -c 'import json, sys; print(".".join(json.load(sys.stdin)["tensorrt"].split(".")[:2]))' <<< "$made")
        name=liblenet_trt_plugins-tensorrt$version-$target.so
        mv "$work/library.so" "$work/$name"
        echo "$folder/$name"
    done
done
(cd "$work" && sha256sum -- *.so > SHA256SUMS)
mv "$work"/* "$folder"
