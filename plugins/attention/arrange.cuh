// The first launch for long sequences: rows come into tiles, and of each tile of the mask it is found what it does (arranged.cuh).
//
// Mapping: a block has a tile of rows, or of the mask. Rows come to shared memory, are changed there if the layer changes its queries and keys, and go
// out in the order of the tile. Bytes: x and the mask once, the tiles once.
#pragma once

#include "attention/arranged.cuh"
#include "attention/tile.cuh"

// Arranges rows of a head of a token from `first` on. kChanged: they are queries or keys; kOfQueries: which. `largest` is 0.
template <int kThreads, bool kChanged, bool kOfQueries, typename Rows>
__device__ __forceinline__ void arrange_rows(T* shared, unsigned* largest, const Rows& rows, const T* head, int first, int tokens,
                                             const Arranged& to, size_t number) {
  constexpr int kEights = kDepth / kEight, kCopies = kTileRows * kEights;
  static_assert(kCopies % kThreads == 0);
  const auto from = rows.from(head, first);
#pragma unroll
  for (int i = threadIdx.x; i < kCopies; i += kThreads) {
    const int row = i / kEights, column = i % kEights * kEight;
    copy_async<16>(shared_address(shared + row * kPitch + column), from.row(row) + column, first + row < tokens ? 16 : 0);
  }
  copy_async_wait_all();
  __syncthreads();
  if constexpr (kChanged && Rows::kRotated) {
    rows.template rotate<BlockTeam<kThreads>, kTileRows, kOfQueries>(shared, first, tokens);
    __syncthreads();
  }
  uint4* const out = reinterpret_cast<uint4*>(to.tile(number));
  unsigned most = 0;  // magnitudes are in the order of their bits
#pragma unroll
  for (int i = threadIdx.x; i < kCopies; i += kThreads) {
    const int row = i / (kEight * kEights) * kEight + i % kEight, column = i / kEight % kEights * kEight;
    const uint4 eight = *reinterpret_cast<const uint4*>(shared + row * kPitch + column);
    out[i] = eight;
    for (const unsigned pair : {eight.x, eight.y, eight.z, eight.w}) most = max(most, max(pair & 0x7fff, pair >> 16 & 0x7fff));
  }
  most = warp_max(most);
  if (threadIdx.x % 32 == 0) atomicMax(largest, most);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const unsigned short bits = static_cast<unsigned short>(*largest);
  const float magnitude = to_float(reinterpret_cast<const T&>(bits));
  to.largest[number] = kChanged ? magnitude : magnitude - magnitude;
}

// Finds what a tile of the mask does: a warp reads rows, and a lane some of their keys. In place of what is beyond the end it reads the last row or key
// again, which changes nothing.
template <int kThreads>
__device__ __forceinline__ void describe_mask(MaskTile* of_warps, const WindowMask& mask, int tile_of_queries, int tile_of_keys, const Arranged& to) {
  constexpr int kWarps = kThreads / 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int of_matrix = ceil_div(mask.rows, kTileRows), matrix = tile_of_queries / of_matrix;
  const int first = tile_of_queries % of_matrix * kTileRows, end = smaller(mask.rows, first + kTileRows);
  MaskTile tile = {softmax::nothing(), -softmax::nothing(), 0.0f, 0.0f};
  constexpr int kRows = 4, kEach = kTileRows / 32;  // rows at once, and keys of a lane
#pragma unroll 1
  for (int row = first + warp; row < end; row += kRows * kWarps) {
    float added[kRows][kEach];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const T* const from = mask.mask + (static_cast<size_t>(matrix) * mask.rows + smaller(row + r * kWarps, end - 1)) * mask.t;
#pragma unroll
      for (int i = 0; i < kEach; ++i) added[r][i] = to_float(from[smaller(tile_of_keys * kTileRows + lane + 32 * i, mask.t - 1)]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float most = softmax::nothing();
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        most = max_nan(most, added[r][i]);
        if (added[r][i] != 0.0f) tile.adds = 1.0f;
      }
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2) most = max_nan(most, __shfl_xor_sync(kAllLanes, most, offset));
      tile.most = max_nan(tile.most, most);
      tile.least = fminf(tile.least, most);
    }
  }
  tile.adds = __any_sync(kAllLanes, tile.adds != 0.0f) ? 1.0f : 0.0f;
  if (lane == 0) of_warps[warp] = tile;
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int i = 1; i < kWarps; ++i) {
    const MaskTile& other = of_warps[i];
    tile.most = max_nan(tile.most, other.most);
    tile.least = fminf(tile.least, other.least);
    tile.adds = fmaxf(tile.adds, other.adds);
  }
  to.mask_tiles[static_cast<size_t>(tile_of_queries) * to.tiles + tile_of_keys] = tile;
}

// A block for each tile of rows of all heads of the tokens of all images, and then of the mask. kRepeats heads of queries have the same keys.
template <int kThreads, int kRepeats, typename Layer>
__device__ __forceinline__ void arrange(const Layer& layer, int images, const Arranged& to) {
  __shared__ __align__(16) T rows[kTileRows * kPitch];
  __shared__ unsigned largest;
  __shared__ MaskTile of_warps[kThreads / 32];
  const int tile = blockIdx.x % to.tiles, number = blockIdx.x / to.tiles, first = tile * kTileRows;
  if (threadIdx.x == 0) {
    largest = 0;
    if (blockIdx.x == 0) *to.next_part = 0;
  }
  if (number >= images * to.of_token()) return describe_mask<kThreads>(of_warps, layer.mask, number - images * to.of_token(), tile, to);
  const int image = number / to.of_token(), head = number % to.of_token();
  const size_t place = to.number(image, head, tile);
  if (head < to.heads) {
    const auto from = layer.head(image, head);
    arrange_rows<kThreads, true, true>(rows, &largest, from.rows, from.q, first, layer.t, to, place);
  } else if (head < to.heads + to.groups) {
    const auto from = layer.head(image, (head - to.heads) * kRepeats);
    arrange_rows<kThreads, true, false>(rows, &largest, from.rows, from.k, first, layer.t, to, place);
  } else {
    const auto from = layer.head(image, (head - to.heads - to.groups) * kRepeats);
    arrange_rows<kThreads, false, false>(rows, &largest, from.rows, from.v, first, layer.t, to, place);
  }
}
