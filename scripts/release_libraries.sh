#!/usr/bin/env bash
# Compile the plugin library for a release: one file for each TensorRT and processor, and SHA256SUMS.
#
# usage: scripts/release_libraries.sh FOLDER [HEADERS...]
#
#   scripts/release_libraries.sh dist/libraries
#   (cd dist/libraries && sha256sum -c SHA256SUMS)
#
# HEADERS are folders of NvInfer.h; without them the script fetches those of TensorRT 8.6, 10 and 11 from NVIDIA's
# repository. The same sources and compilers give the same bytes wherever the folders are, so anybody can compile a
# release again and compare. Needs g++ and g++-aarch64-linux-gnu; TARGETS=x86_64 leaves the second out.
set -euo pipefail

folder=${1:?usage: $0 FOLDER [HEADERS...]}
shift
command=${LENET_TRT:-lenet-trt}
mkdir -p "$folder"
work=$(mktemp -d "$folder/.making.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The ends of the branches release/8.6, release/10.16 and release/11.1.
repository=${TENSORRT_REPOSITORY:-https://github.com/NVIDIA/TensorRT}
commits=(a0215c1a16c6413c7ac566a498871a4fa36f6f62 d0faf303ba766f20cd9fd8c413a112fc2e5a397b
         905361629f22836090d75ea77cba732a25107148)
if [ $# = 0 ]; then
    for commit in "${commits[@]}"; do
        clone=$work/headers/$commit
        git init -q "$clone"
        git -C "$clone" remote add origin "$repository"
        git -C "$clone" sparse-checkout set include
        git -C "$clone" fetch -q --depth 1 --filter=blob:none origin "$commit"
        git -C "$clone" -c advice.detachedHead=false checkout -q FETCH_HEAD
        set -- "$@" "$clone/include"
    done
fi

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
mv "$work"/*.so "$work"/SHA256SUMS "$folder"
