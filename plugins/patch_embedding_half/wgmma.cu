// patch_embedding_half by wgmma, Hopper's own instruction for its tensor cores: y = w x + bias for each patch x of an image, in fp16 or bfloat16.
//
// x [n, C, H, W], weights (w, packed: linear/packed.cuh), bias [K], y [n, H / P, W / P, K].
//
// Mapping: linear_half/by_wgmma.cuh, whose rows are patches (patch_embedding/tiled_patches.cuh). Wide tiles, of up to 256 or 192
// outputs, read x less often; narrow ones, of up to 128, are for few patches.
// Bytes: x once for each tile across the outputs, in pieces of 8 or 16 bytes, and the weights once for each 128 patches, from L2; y once.
// What is known of it: docs/kernels/patch_embedding.md.
#include "patch_embedding/tiled_patches.cuh"

#include "linear_half/wgmma_entries.cuh"

ENTRIES_BY_WGMMA(patch_embedding_half, TiledPatches<Outputs>)
