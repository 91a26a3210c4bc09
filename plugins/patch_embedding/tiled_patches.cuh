// How threads copy the patches of a tile to a stage, as rows (linear/by_wgmma.cuh).
//
// 16 or 8 bytes of a patch lie together in an image: a thread copies them at a time. A lane of a warp knows where one of the 32 patches begins
// whose pieces the warp copies.
#pragma once

#include "patch_embedding/patches.cuh"

#include "linear/by_wgmma.cuh"

constexpr int kLanes = 32;        // of a warp
constexpr int kSectorBytes = 32;  // what L2 gives at least
constexpr int kNumberBytes = sizeof(T), kMost = 16 / kNumberBytes;
constexpr int kPiece = kSide % kMost == 0 ? kMost : kRun, kPieceBytes = kPiece * kNumberBytes;  // what a thread copies at a time

// `Layer`: the kernel's struct of arguments, which has x and n, the number of patches.
template <typename Layer>
struct TiledPatches : Layer {
  // Of a thread that copies: the first row of the tile that it knows, and where one patch of it begins; -1: there is none.
  int known = -1, begin = -1;

  // Begins to copy the patches for a stage. A warp copies pieces of enough patches at once for those of neighbours to be a sector.
  template <typename Plan>
  __device__ __forceinline__ void begin_copy(unsigned stages, unsigned stage, int first_row, int step, int thread) {
    // At once: pieces and inputs of a patch; rows of a warp, and of all warps.
    constexpr int kPieces = smaller(Plan::kDepth / kPiece, kLanes * kPieceBytes / kSectorBytes), kAtOnce = kPieces * kPiece;
    constexpr int kOfWarp = kLanes / kPieces, kRowsAtOnce = kRole / kPieces;
    static_assert(kTileRows / kRowsAtOnce * kOfWarp == kLanes && Plan::kDepth % kAtOnce == 0);
    const int lane = thread % kLanes, piece = thread % kPieces;
    if (first_row != known) {
      known = first_row;
      const int mine = first_row + lane / kOfWarp * kRowsAtOnce + thread / kLanes * kOfWarp + lane % kOfWarp;
      begin = mine < this->n ? first_of_patch(mine) : -1;
    }
#pragma unroll
    for (int part = 0; part < Plan::kDepth; part += kAtOnce) {
      const int input = part + piece * kPiece;
      const T* const of_input = this->x + within_patch(step * Plan::kDepth + input);
      const unsigned to = stages + thread / kPieces * Plan::kPitch * kNumberBytes + input * kNumberBytes;
#pragma unroll
      for (int i = 0; i < kTileRows / kRowsAtOnce; ++i) {
        const int from = __shfl_sync(kAllLanes, begin, i * kOfWarp + lane / kPieces);
        const bool exists = from >= 0 && Plan::has(step, input);
        copy_async<kPieceBytes>(to + stage + i * kRowsAtOnce * Plan::kPitch * kNumberBytes, exists ? of_input + from : this->x,
                                exists ? kPieceBytes : 0);  // none: zeros
      }
    }
  }
};
