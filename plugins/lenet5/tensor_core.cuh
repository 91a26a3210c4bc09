// The layout in which a warp of the large-batch variants of `lenet5` keeps an image for mma, and the products of both convolutions.
//
// A warp owns an image. Both convolutions are matrix products of m16n8k16 and m16n8k8 whose fragments come from shared
// memory by ldmatrix, 8 rows of 16 bytes a matrix ("unit" below: 16 bytes, eight halves).
//
// conv1, windows [parity][row parity][14][3]: unit (y, g) holds pixels x = 4g .. 4g+7 of row y, g = 0..5. It is the input of four
//   neighbouring outputs, so a row (y, g) of the product gives 4 outputs x 6 channels = 24 columns from 5 units: no channel is
//   padding and 25 of 40 terms count. g and y are split by parity so that eight rows q = 3 * (pooled row) + g / 2 follow one another.
// conv2, map [column parity][12][6]: unit (y, x) holds the 6 channels of a pooled pixel in slots 0 1 2 . 4 5 6 . (`.`: padding).
//   The weights are the 16-row operand, 8 pixels the columns; taps kx are taken in pairs (0, 3), (1, 4) and 2 alone, because
//   then the pairs that outputs x and x + 1 need are 0-3, 1-4, 2-5: each unit is loaded once, into one register.
// Both: the four members of a pooling window lie in one thread's accumulators.
#pragma once

#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/images.cuh"

namespace lenet5 {

// A lane's weights of both convolutions, four registers a load, which lie in shared memory as [kQuads][kLanes][4].
// `volatile`: hoisted out of the loop over images, they would take the registers of the linear layers.
template <int kQuads>
__device__ __forceinline__ void load_fragments(unsigned* w, unsigned source, int lane) {
#pragma unroll
  for (int quad = 0; quad < kQuads; ++quad) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[4 * quad]), "=r"(w[4 * quad + 1]), "=r"(w[4 * quad + 2]), "=r"(w[4 * quad + 3])
                 : "r"(source + (quad * kLanes + lane) * 16)
                 : "memory");
  }
}

// ---- conv1 windows -----------------------------------------------------------------------------------------------------

constexpr int kOutputsAWindow = 4;
constexpr int kWindowsARow = 3;                                                      // of one parity
constexpr int kWindowRowParity = kWindowsARow * kImageSide / 2 + 2;                  // 44; + 2 keeps stores off each other's banks
constexpr int kWindowParity = 2 * kWindowRowParity;                                  // 88
constexpr int kWindowUnits = 2 * kWindowParity + 4;                                  // the last group reads 4 rows too many
constexpr int kWindowBytes = kWindowUnits * kUnitBytes;
constexpr int kWindowStepUnits = kRowsAStep / 2 * kWindowsARow;
constexpr int kConv1Rows = kPool1Side * kWindowsARow;                                // 36 rows q, of each parity
constexpr int kConv1Groups = ceil_div(kConv1Rows, 8);                                // 5
constexpr int kConv1Tiles = kConv1Channels * kOutputsAWindow / 8;                    // 3 column tiles
constexpr int kConv1Fragments = 5 * kConv1Tiles;                                     // registers of weights, one part
constexpr int kConv1Taps2 = 4 * kConv1Tiles;                                         // where those of ky = 2 begin
constexpr int kConv1FragmentQuads = (kConv1Fragments + 3) / 4;

// Where a lane stores its four pixels of step 0: twice, into an even and into an odd window. Every step adds kWindowStepUnits.
struct WindowStore {
  int even, odd;  // in halves
  bool in_even, in_odd;
};
__device__ __forceinline__ WindowStore window_store(int lane) {
  const int quad = lane % kQuadsARow, row = lane / kQuadsARow;
  const int unit = (row & 1) * kWindowRowParity + (row >> 1) * kWindowsARow;
  WindowStore store;
  store.even = (unit + quad / 2) * kUnitHalves + (quad & 1) * kQuad;
  store.odd = (kWindowParity + unit + (quad - 1) / 2) * kUnitHalves + (~quad & 1) * kQuad;
  store.in_even = lane < kFetchLanes && quad < kQuadsARow - 1;
  store.in_odd = lane < kFetchLanes && quad > 0;
  return store;
}

// Byte offsets of a lane's ldmatrix rows: quads (rows 0, 3), (1, 4), (2, 5) of the six image rows that a pooled row needs.
__device__ __forceinline__ unsigned window_rows03(int lane) {
  const int three_rows_on = kWindowRowParity + kWindowsARow;
  return ((lane >> 3 & 1) * kWindowParity + (lane & 7) + (lane >> 4) * three_rows_on) * kUnitBytes;
}
__device__ __forceinline__ unsigned window_rows14(int lane) {
  return ((lane >> 3 & 1) * kWindowParity + (lane & 7) + (lane >> 4 ? 2 * kWindowsARow : kWindowRowParity)) * kUnitBytes;
}

// Column n of tile j is channel 3 * (n / 4) + j, output n % 4: two neighbouring columns are pooled, and a thread has three
// channels of one pooled pixel.
__device__ __forceinline__ int conv1_channel(int tile, int column) { return column / kOutputsAWindow * 3 + tile; }

// The two weights in register `index` of lane `lane`: index = tile * 4 + {0, 1: ky 0, 3; 2, 3: ky 1, 4}, then 12 + tile: ky 2.
// (This order keeps what one mma reads in neighbouring registers.)
template <typename T>
__device__ __forceinline__ float2 conv1_fragment(const T* weight, int index, int lane) {
  const int tile = index < kConv1Taps2 ? index / 4 : index - kConv1Taps2;
  const int ky = index < kConv1Taps2 ? index % 4 / 2 + index % 2 * 3 : 2;
  const int column = lane / 4, output = column % kOutputsAWindow;
  const T* filter = weight + (conv1_channel(tile, column) * kFilterSide + ky) * kFilterSide;
  const int kx = lane % 4 * 2 - output;
  const bool first = tile < kConv1Tiles && kx >= 0 && kx < kFilterSide;
  const bool second = tile < kConv1Tiles && kx + 1 >= 0 && kx + 1 < kFilterSide;
  return make_float2(first ? to_float(filter[kx]) : 0.0f, second ? to_float(filter[kx + 1]) : 0.0f);
}

// A lane's three biases, four times each: mma takes four registers in a row, and a compiler that knows them to be equal would
// copy one of them before every product. Hence four copies in shared memory and a load that it cannot see through.
__device__ __forceinline__ void load_bias(float4 (&bias)[kConv1Tiles], unsigned source, int lane) {
#pragma unroll
  for (int j = 0; j < kConv1Tiles; ++j) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(bias[j].x), "=f"(bias[j].y), "=f"(bias[j].z), "=f"(bias[j].w)
                 : "r"(source + ((lane >> 1 & 1) * 3 + j) * 16)
                 : "memory");
  }
}

// acc[row parity][tile] of the 16 windows in rows 8 * group ..: what one part of the image times one part of the weights adds;
// to `bias` where it is the first.
template <bool kFirst>
__device__ __forceinline__ void conv1_product(float (&acc)[2][kConv1Tiles][4], const unsigned (&x)[3][4], const unsigned* weight,
                                              const float4 (&bias)[kConv1Tiles]) {
#pragma unroll
  for (int parity = 0; parity < 2; ++parity) {
#pragma unroll
    for (int j = 0; j < kConv1Tiles; ++j) {
      const unsigned(&rows)[4] = x[parity];
      const unsigned* w = weight + 4 * j;
      if (kFirst) {
        mma16_first(acc[parity][j], rows[0], rows[1], rows[2], rows[3], w[0], w[1], bias[j]);
      } else {
        mma_16x8x16<__half>(acc[parity][j], rows[0], rows[1], rows[2], rows[3], w[0], w[1]);
      }
    }
  }
#pragma unroll
  for (int parity = 0; parity < 2; ++parity) {
#pragma unroll
    for (int j = 0; j < kConv1Tiles; ++j) {
      const unsigned(&rows)[4] = x[parity + 1];
      const unsigned* w = weight + 4 * j;
      mma_16x8x16<__half>(acc[parity][j], rows[0], rows[1], rows[2], rows[3], w[2], w[3]);
    }
  }
#pragma unroll
  for (int j = 0; j < kConv1Tiles; ++j) mma_16x8x8<__half>(acc[0][j], x[2][0], x[2][1], weight[kConv1Taps2 + j]);
#pragma unroll
  for (int j = 0; j < kConv1Tiles; ++j) mma_16x8x8<__half>(acc[1][j], x[0][2], x[0][3], weight[kConv1Taps2 + j]);
}

__device__ __forceinline__ void load_windows(unsigned (&x)[3][4], unsigned windows, unsigned rows03, unsigned rows14, int group) {
  const unsigned shift = group * 8 * kUnitBytes;
  load_matrices(x[0], windows + rows03 + shift);
  load_matrices(x[1], windows + rows14 + shift);
  load_matrices(x[2], windows + rows03 + shift + kWindowsARow * kUnitBytes);
}

// ---- conv2 map ---------------------------------------------------------------------------------------------------------

constexpr int kMapRow = kPool1Side / 2;                          // units of a row of one column parity
constexpr int kMapParity = kPool1Side * kMapRow + 1;             // 73; odd, so that neighbouring pixels' stores share no bank
constexpr int kMapUnits = 2 * kMapParity;
constexpr int kMapBytes = kMapUnits * kUnitBytes;
constexpr int kBiasSlot = 3;
constexpr int kConv2Groups = 2;                                  // of eight pooled outputs
constexpr int kMapGroup = kPool * kPool2Side / kConv2Groups * kMapRow;  // 24 units from one group to the next
constexpr int kMapRows = kFilterSide + kPool - 1;                // 6 rows and 6 columns of pixels feed a pooled output
constexpr int kConv2Pairs = 8 * kFilterSide;                     // registers of weights of the taps kx = 0, 3, 1, 4
constexpr int kConv2Fragments = kConv2Pairs + 2 * kFilterSide;   // and of kx = 2 behind them, one part
constexpr int kConv2FragmentQuads = (kConv2Fragments + 3) / 4;

// Half offset of pooled pixel (y, x), slot 0.
__device__ __forceinline__ int map_offset(int y, int x) { return ((x & 1) * kMapParity + y * kMapRow + (x >> 1)) * kUnitHalves; }
__device__ __forceinline__ int map_slot(int channel) { return channel + channel / 3; }

// Byte offsets of a lane's ldmatrix rows: columns (0, 3, 1, 4) of one group, and columns (2, 5) of both groups.
__device__ __forceinline__ unsigned map_pixel(int lane) { return (lane >> 2 & 1) * kPool * kMapRow + (lane & 3); }
__device__ __forceinline__ unsigned map_columns0314(int lane) {
  const int matrix = lane >> 3;
  const int unit = (matrix == 1 || matrix == 2 ? kMapParity : 0) + (matrix == 1 ? 1 : matrix == 3 ? 2 : 0);
  return (unit + map_pixel(lane)) * kUnitBytes;
}
__device__ __forceinline__ unsigned map_columns25(int lane) {
  const int unit = (lane & 8 ? kMapParity + 2 : 1) + (lane >> 4) * kMapGroup;
  return (unit + map_pixel(lane)) * kUnitBytes;
}

// The two weights of tap (ky, kx) in a lane's register of output channels 0 to 7 or 8 to 15 (`half`). The registers are in the
// order ky * 8 + {0..3: kx 0, 3; 4..7: kx 1, 4}, halves alternating, then 40 + ky * 2 + half: kx 2.
template <typename T>
__device__ __forceinline__ float2 conv2_fragment(const T* weight, int ky, int kx, int half, int lane) {
  const int slot = lane % 4 * 2, channel = slot / 4 * 3 + slot % 4;
  const T* filter = weight + (lane / 4 * kConv1Channels + channel) * kFilterTaps + half * 8 * kConv1Channels * kFilterTaps +
                    ky * kFilterSide + kx;
  const bool pad = slot % 4 == 2;  // the second of the two is slot 3 or 7
  return make_float2(to_float(filter[0]), pad ? 0.0f : to_float(filter[kFilterTaps]));
}
__device__ __forceinline__ int pair_kx(int index) { return index % 8 / 4 + index % 4 / 2 * 3; }

// Eight pooled outputs x 16 channels, acc[dx]: what one row of the map (columns 0 3 1 4 and 2 5) adds through one row of
// filters: w its eight registers of taps 0, 3, 1, 4, w2 those of tap 2, unless the caller sees to that tap.
template <bool kTap2 = true>
__device__ __forceinline__ void conv2_product(float (&acc)[2][4], const unsigned (&c)[4], unsigned column2, unsigned column5,
                                              const unsigned* w, const unsigned* w2) {
  mma_16x8x16<__half>(acc[0], w[0], w[1], w[2], w[3], c[0], c[1]);
  mma_16x8x16<__half>(acc[1], w[0], w[1], w[2], w[3], c[2], c[3]);
  mma_16x8x16<__half>(acc[0], w[4], w[5], w[6], w[7], c[2], c[3]);
  mma_16x8x16<__half>(acc[1], w[4], w[5], w[6], w[7], column2, column5);
  if (!kTap2) return;
  mma_16x8x8<__half>(acc[0], w2[0], w2[1], column2);
  mma_16x8x8<__half>(acc[1], w2[0], w2[1], c[1]);
}

// ---- rows of activations for the linear layers ----------------------------------------------------------------------------

// The order of a product's k is free as long as both operands agree. Weights come 16 bytes a load: a thread takes 8 neighbouring
// k of every 32. So activations are stored with k = 8 t + 2 i of a chunk of 32 at 8 i + 2 t, where ldmatrix hands them to thread t.
constexpr int kChunk = 32;
__device__ __forceinline__ int chunk_position(int k) { return k / kChunk * kChunk + k % 8 / 2 * 8 + k % kChunk / 8 * 2; }
constexpr int kFeatureStride = kFeatures + kUnitHalves;  // halves; an odd number of units, so that eight rows share no bank

}  // namespace lenet5
