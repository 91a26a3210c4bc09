// Long sequences in two launches: the first (arrange.cuh) brings queries, keys and values into tiles as wgmma reads them, and says of each tile of the
// mask what it does; the second (by_arranged_tiles.cuh) copies whole tiles, and leaves out those that the mask hides. This is what lies between them.
//
// A tile has 128 rows of a head, zeros behind the last one: blocks of 8 rows and 8 columns, 128 bytes each, those of the same rows one after the other.
#pragma once

#include "attention/layer.cuh"

static_assert(sizeof(T) == 2 && kDepth % 32 == 0);
constexpr int kEight = 8, kTileRows = 128;
constexpr unsigned kNextColumns = kEight * kEight * sizeof(T), kNextRows = kDepth / kEight * kNextColumns, kTileBytes = kTileRows / kEight * kNextRows;

// What the mask adds to the scores of 128 queries and 128 keys.
struct alignas(16) MaskTile {
  float most;   // NaN, if one is
  float least;  // of the rows' largest: each query has a key with as much
  float adds;   // 0, if all are
  float unused;
};

// The workspace. A token has heads of queries, then of keys, then of values; `tiles` are those of a head.
struct Arranged {
  const int heads, groups, tiles;
  unsigned char* const memory;  // the tiles [images, heads of a token, tiles]
  MaskTile* const mask_tiles;   // [matrices, tiles of its queries, tiles of keys]
  int* const next_part;         // that no block has taken yet
  // Of each tile, in their order: of queries and keys the largest magnitude; of values 0, or NaN where one is not finite.
  float* const largest;

  __device__ __forceinline__ Arranged(void* workspace, int images, int heads, int groups, int tokens, int mask_tiles)
      : heads(heads),
        groups(groups),
        tiles(ceil_div(tokens, kTileRows)),
        memory(static_cast<unsigned char*>(workspace)),
        mask_tiles(reinterpret_cast<MaskTile*>(memory + static_cast<size_t>(images) * of_token() * tiles * kTileBytes)),
        next_part(reinterpret_cast<int*>(this->mask_tiles + mask_tiles * tiles)),
        largest(reinterpret_cast<float*>(next_part + 4)) {}

  __device__ __forceinline__ int of_token() const { return heads + 2 * groups; }
  // The number of a tile; `head`: of a token.
  __device__ __forceinline__ size_t number(int image, int head, int tile) const {
    return (static_cast<size_t>(image) * of_token() + head) * tiles + tile;
  }
  __device__ __forceinline__ unsigned char* tile(size_t number) const { return memory + number * kTileBytes; }
};

// The tiles of queries that a mask has, of all its matrices.
__device__ __forceinline__ int mask_tiles_of(const WindowMask& mask) { return mask.windows * mask.heads * ceil_div(mask.rows, kTileRows); }
