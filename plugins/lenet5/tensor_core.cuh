// What the large-batch variants of `lenet5` share: mma and copy instructions, and how a warp lays an image out for them.
//
// A warp owns an image. Both convolutions are matrix products of m16n8k16 and m16n8k8 whose fragments come from shared
// memory by ldmatrix, 8 rows of 16 bytes a matrix ("unit" below: 16 bytes, eight halves).
//
// conv1, windows [parity][row parity][14][3]: unit (y, g) holds pixels x = 4g .. 4g+7 of row y, g = 0..5. It is the input of four
//   neighbouring outputs, so a row (y, g) of the product gives 4 outputs x 6 channels = 24 columns from 5 units: no channel is
//   padding and 25 of 40 terms count. g and y are split by parity so that eight rows q = 3 * (pooled row) + g / 2 follow one another.
// conv2, map [column parity][12][6]: unit (y, x) holds the 6 channels of a pooled pixel in slots 0 1 2 . 4 5 6 . (`.`: see kPadSlots).
//   The weights are the 16-row operand, 8 pixels the columns; taps kx are taken in pairs (0, 3), (1, 4) and 2 alone, because
//   then the pairs that outputs x and x + 1 need are 0-3, 1-4, 2-5: each unit is loaded once, into one register.
// Both: the four members of a pooling window lie in one thread's accumulators.
#pragma once

#include "common.cuh"
#include "lenet5/lenet5.cuh"

namespace lenet5 {

constexpr int kLanes = 32;
constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kUnitBytes = 16;
constexpr int kUnitHalves = 8;

// ---- instructions ------------------------------------------------------------------------------------------------------

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Four 8x8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(unsigned (&m)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

// Two; lanes 0 to 15 give the addresses.
__device__ __forceinline__ void load_matrices(unsigned (&m)[2], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(m[0]), "=r"(m[1]) : "r"(address) : "memory");
}

// d += a b, a 16x16, b 16x8.
__device__ __forceinline__ void mma16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                      unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// d += a b, a 16x8, b 8x8.
__device__ __forceinline__ void mma8(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(shared)), "l"(global), "n"(kBytes) : "memory");
  }
}
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most kPending of this thread's groups are under way.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// The same bytes for the whole block, kBytes a thread and step; both sides aligned to kBytes.
template <int kBytes, int kThreads>
__device__ __forceinline__ void copy_block(unsigned char* shared, const void* global, int bytes, int thread) {
#pragma unroll 1
  for (int i = thread * kBytes; i < bytes; i += kThreads * kBytes) {
    copy_async<kBytes>(shared + i, static_cast<const unsigned char*>(global) + i);
  }
}

__device__ __forceinline__ void prefetch_l2(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
}

__device__ __forceinline__ unsigned bits(__half2 value) { return *reinterpret_cast<unsigned*>(&value); }

__device__ __forceinline__ float max4(float a, float b, float c, float d) { return max_nan(max_nan(a, b), max_nan(c, d)); }

// ---- an image as a warp fetches it -------------------------------------------------------------------------------------
// 28 lanes take four pixels each, four rows a step, seven steps.

constexpr int kQuad = 4;
constexpr int kQuadsARow = kImageSide / kQuad;             // 7
constexpr int kRowsAStep = 4;
constexpr int kFetchLanes = kQuadsARow * kRowsAStep;       // 28
constexpr int kFetchSteps = kImageSide / kRowsAStep;       // 7
constexpr int kFetchPixels = kFetchLanes * kQuad;          // 112, of one step

template <typename TX>
__device__ __forceinline__ void fetch_image(TX* staging, const TX* image, int lane) {
  if (lane >= kFetchLanes) return;
#pragma unroll
  for (int step = 0; step < kFetchSteps; ++step) {
    const int pixel = step * kFetchPixels + lane * kQuad;
    copy_async<kQuad * static_cast<int>(sizeof(TX))>(staging + pixel, image + pixel);
  }
}

// Brings an image into L2: a lane a line of 128 bytes.
template <typename TX>
__device__ __forceinline__ void prefetch_image(const TX* image, int lane) {
  constexpr int kLine = 128 / static_cast<int>(sizeof(TX));
  if (lane * kLine < kImagePixels) prefetch_l2(image + lane * kLine);
}

__device__ __forceinline__ float4 load_quad(const float* source) { return *reinterpret_cast<const float4*>(source); }
__device__ __forceinline__ float4 load_quad(const __half* source) {
  const uint2 raw = *reinterpret_cast<const uint2*>(source);
  const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&raw.x));
  const float2 b = __half22float2(*reinterpret_cast<const __half2*>(&raw.y));
  return make_float4(a.x, a.y, b.x, b.y);
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
constexpr int kConv1Groups = (kConv1Rows + 7) / 8;                                   // 5
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

// acc[row parity][tile] of the 16 windows in rows 8 * group ..: what one part of the image times one part of the weights adds.
__device__ __forceinline__ void conv1_product(float (&acc)[2][kConv1Tiles][4], const unsigned (&x)[3][4],
                                              const unsigned* weight) {
#pragma unroll
  for (int j = 0; j < kConv1Tiles; ++j) {
    const unsigned* w = weight + 4 * j;
    mma16(acc[0][j], x[0][0], x[0][1], x[0][2], x[0][3], w[0], w[1]);
    mma16(acc[1][j], x[1][0], x[1][1], x[1][2], x[1][3], w[0], w[1]);
  }
#pragma unroll
  for (int j = 0; j < kConv1Tiles; ++j) {
    const unsigned* w = weight + 4 * j;
    mma16(acc[0][j], x[1][0], x[1][1], x[1][2], x[1][3], w[2], w[3]);
    mma16(acc[1][j], x[2][0], x[2][1], x[2][2], x[2][3], w[2], w[3]);
  }
#pragma unroll
  for (int j = 0; j < kConv1Tiles; ++j) {
    mma8(acc[0][j], x[2][0], x[2][1], weight[kConv1Taps2 + j]);
    mma8(acc[1][j], x[0][2], x[0][3], weight[kConv1Taps2 + j]);
  }
}

// ---- conv2 map ---------------------------------------------------------------------------------------------------------

constexpr int kMapRow = kPool1Side / 2;                          // units of a row of one column parity
constexpr int kMapParity = kPool1Side * kMapRow + 1;             // 73; odd, so that neighbouring pixels' stores share no bank
constexpr int kMapUnits = 2 * kMapParity;
constexpr int kMapBytes = kMapUnits * kUnitBytes;
constexpr int kPadSlots = 2;                                     // slots 3 and 7
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

// The two weights in register `index` of lane `lane`: index = ky * 8 + {0..3: kx 0, 3; 4..7: kx 1, 4}, then 40 + ky * 2 + {0, 1}: kx 2.
template <typename T>
__device__ __forceinline__ float2 conv2_fragment(const T* weight, int index, int lane) {
  const bool paired = index < kConv2Pairs;
  const int ky = paired ? index / 8 : (index - kConv2Pairs) / 2;
  const int kx = paired ? index % 8 / 4 + index % 4 / 2 * 3 : 2;
  const int output = lane / 4 + index % 2 * 8;
  const int slot = lane % 4 * 2, channel = slot / 4 * 3 + slot % 4;
  const T* filter = weight + (output * kConv1Channels + channel) * kFilterTaps + ky * kFilterSide + kx;
  const bool pad = slot % 4 == 2;  // the second of the two is slot 3 or 7
  if (index >= kConv2Fragments) return make_float2(0.0f, 0.0f);
  return make_float2(to_float(filter[0]), pad ? 0.0f : to_float(filter[kFilterTaps]));
}

// Eight pooled outputs x 16 channels, acc[dx]: what one row of the map (columns 0 3 1 4 and 2 5) adds through one row of
// filters: w its eight registers of taps 0, 3, 1, 4, w2 those of tap 2.
__device__ __forceinline__ void conv2_product(float (&acc)[2][4], const unsigned (&c)[4], unsigned column2, unsigned column5,
                                              const unsigned* w, const unsigned* w2) {
  mma16(acc[0], w[0], w[1], w[2], w[3], c[0], c[1]);
  mma16(acc[1], w[0], w[1], w[2], w[3], c[2], c[3]);
  mma16(acc[0], w[4], w[5], w[6], w[7], c[2], c[3]);
  mma16(acc[1], w[4], w[5], w[6], w[7], column2, column5);
  mma8(acc[0], w2[0], w2[1], column2);
  mma8(acc[1], w2[0], w2[1], c[1]);
}

}  // namespace lenet5
