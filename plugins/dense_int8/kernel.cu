// dense_int8: y = cut(round(act(x_scale w_scale[o] (x . w[o]) + bias[o]) / y_scale)), products of int8 on tensor cores.
//
// x [n, IN] int8, w [OUT, IN] int8, scales and bias float -> y [n, OUT] int8.
//
// Mapping. The weights are the 16-row operand, rows of x the columns. The order of the inputs within a product is free: a lane takes 16
// bytes of a row of w and of x at once, for two products. many_rows: a block has 64 rows x 64 outputs, a warp 16 outputs of all rows; x
// passes through shared memory in chunks of 128 inputs. few_rows: a block has 8 rows x 16 outputs, its warps share the inputs and add
// their sums. any_size: a thread an output, for rows that are not aligned to 16 bytes.
// A sum is exact; it is multiplied and added to with one rounding, then rounded half to even and cut.
//
// Bytes: x once for each 64 (16) outputs, w once for each 64 (8) rows, y once.
#include "dense_int8/layer.cuh"

namespace dense_int8 {

using namespace int8;

constexpr int kLanes = 32, kThreads = 128, kWarps = kThreads / kLanes;
constexpr int kTileOutputs = 16, kColumns = 8, kPiece = 16;
constexpr int kStepInputs = 4 * kPiece;  // four lanes a row; two products
constexpr int kSteps = (kIn + kStepInputs - 1) / kStepInputs;

// 16 bytes of a row, zeros beyond the last row or input.
__device__ __forceinline__ uint4 load_piece(const signed char* matrix, int row, int rows, int k) {
  if (row >= rows || k >= kIn) return make_uint4(0, 0, 0, 0);
  return __ldg(reinterpret_cast<const uint4*>(matrix + static_cast<long long>(row) * kIn + k));
}

// 16 outputs x 64 inputs of w times 64 inputs x 8 rows of x.
__device__ __forceinline__ void multiply_step(int (&sum)[4], const uint4& low, const uint4& high, const uint4& x) {
  multiply_add(sum, low.x, high.x, low.y, high.y, x.x, x.y);
  multiply_add(sum, low.z, high.z, low.w, high.w, x.z, x.w);
}

// ---- many rows -----------------------------------------------------------------------------------------------------------

constexpr int kRows = 64, kOutputs = 64, kChunk = 128;
constexpr int kChunks = (kIn + kChunk - 1) / kChunk, kChunkSteps = kChunk / kStepInputs;
constexpr int kStride = kChunk + 4 * kPiece;  // two rows, of which four lanes each load a piece, share no bank
constexpr int kPieces = kRows * kChunk / kPiece / kThreads;  // of a chunk, a thread
constexpr int kOutStride = kOutputs + kPiece;
static_assert(kOutputs == kWarps * kTileOutputs, "a warp a tile");

__device__ __forceinline__ void load_chunk(uint4 (&piece)[kPieces], const signed char* x, int rows, int chunk, int thread) {
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int at = thread + i * kThreads;
    piece[i] = load_piece(x, at / (kChunk / kPiece), rows, chunk * kChunk + at % (kChunk / kPiece) * kPiece);
  }
}
__device__ __forceinline__ void store_chunk(unsigned char* tile, const uint4 (&piece)[kPieces], int thread) {
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int at = thread + i * kThreads;
    *reinterpret_cast<uint4*>(tile + at / (kChunk / kPiece) * kStride + at % (kChunk / kPiece) * kPiece) = piece[i];
  }
}

__device__ __forceinline__ void multiply_chunk(int (&sum)[kRows / kColumns][4], const unsigned char* tile, const signed char* w,
                                               int first_output, int chunk, int lane) {
  uint4 low[kChunkSteps], high[kChunkSteps];
#pragma unroll
  for (int step = 0; step < kChunkSteps; ++step) {
    const int k = chunk * kChunk + step * kStepInputs + lane % 4 * kPiece;
    low[step] = load_piece(w, first_output + lane / 4, kOut, k);
    high[step] = load_piece(w, first_output + lane / 4 + 8, kOut, k);
  }
  const unsigned char* source = tile + lane / 4 * kStride + lane % 4 * kPiece;
#pragma unroll
  for (int step = 0; step < kChunkSteps; ++step) {
#pragma unroll
    for (int part = 0; part < kRows / kColumns; ++part) {
      const uint4 x = *reinterpret_cast<const uint4*>(source + part * kColumns * kStride + step * kStepInputs);
      multiply_step(sum[part], low[step], high[step], x);
    }
  }
}

}  // namespace dense_int8

ASSERT_LAUNCH(dense_int8_many_rows, dense_int8::kThreads, 0);
extern "C" __global__ void __launch_bounds__(dense_int8::kThreads)
    dense_int8_many_rows(const signed char* __restrict__ x, const float* __restrict__ x_scale, const signed char* __restrict__ w,
                         const float* __restrict__ w_scale, const float* __restrict__ bias, const float* __restrict__ y_scale, int n,
                         signed char* __restrict__ y) {
  using namespace dense_int8;
  __shared__ __align__(16) unsigned char tiles[2][kRows * kStride];
  const int thread = threadIdx.x, lane = thread % kLanes, warp = thread / kLanes;
  const long long first = static_cast<long long>(blockIdx.x) * kRows;
  const int rows = static_cast<int>(n - first < kRows ? n - first : kRows);
  const int first_output = blockIdx.y * kOutputs;
  x += first * kIn;
  y += first * kOut + first_output;

  uint4 piece[kPieces];
  load_chunk(piece, x, rows, 0, thread);
  store_chunk(tiles[0], piece, thread);
  __syncthreads();
  int sum[kRows / kColumns][4] = {};
#pragma unroll 1
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    if (chunk + 1 < kChunks) load_chunk(piece, x, rows, chunk + 1, thread);
    multiply_chunk(sum, tiles[chunk % 2], w, first_output + warp * kTileOutputs, chunk, lane);
    if (chunk + 1 < kChunks) store_chunk(tiles[(chunk + 1) % 2], piece, thread);
    __syncthreads();
  }

  // Through shared memory, so that rows of y are written in wide pieces.
  static_assert(kRows * kOutStride <= sizeof(tiles), "results fit where x was");
  unsigned char* results = tiles[0];
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const int output = warp * kTileOutputs + upper * 8 + lane / 4;
    const Scale scale = scale_of(first_output + output, kOut, x_scale, w_scale, bias, y_scale);
#pragma unroll
    for (int part = 0; part < kRows / kColumns; ++part) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = part * kColumns + lane % 4 * 2 + i;
        results[row * kOutStride + output] = static_cast<unsigned char>(requantized(sum[part][2 * upper + i], scale));
      }
    }
  }
  __syncthreads();
  constexpr int kWide = kOut % kPiece == 0 ? kPiece : 1;
  const int outputs = min(kOut - first_output, kOutputs);
  for (int at = thread; at < rows * (kOutputs / kWide); at += kThreads) {
    const int row = at / (kOutputs / kWide), column = at % (kOutputs / kWide) * kWide;
    if (column >= outputs) continue;
    signed char* target = y + static_cast<long long>(row) * kOut + column;
    const unsigned char* source = results + row * kOutStride + column;
    if constexpr (kWide == kPiece) {
      *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(source);
    } else {
      *target = static_cast<signed char>(*source);
    }
  }
}

ASSERT_LAUNCH(dense_int8_few_rows, dense_int8::kThreads, 0);
extern "C" __global__ void __launch_bounds__(dense_int8::kThreads)
    dense_int8_few_rows(const signed char* __restrict__ x, const float* __restrict__ x_scale, const signed char* __restrict__ w,
                        const float* __restrict__ w_scale, const float* __restrict__ bias, const float* __restrict__ y_scale, int n,
                        signed char* __restrict__ y) {
  using namespace dense_int8;
  __shared__ int sums[kWarps][kColumns][kTileOutputs];
  const int thread = threadIdx.x, lane = thread % kLanes, warp = thread / kLanes;
  const long long first = static_cast<long long>(blockIdx.x) * kColumns;
  const int rows = static_cast<int>(n - first < kColumns ? n - first : kColumns);
  const int output = blockIdx.y * kTileOutputs + thread % kTileOutputs, row = thread / kTileOutputs;
  x += first * kIn;
  y += first * kOut;
  const Scale scale = scale_of(output, kOut, x_scale, w_scale, bias, y_scale);

  int sum[4] = {};
#pragma unroll 4
  for (int step = warp; step < kSteps; step += kWarps) {
    const int k = step * kStepInputs + lane % 4 * kPiece, o = blockIdx.y * kTileOutputs + lane / 4;
    multiply_step(sum, load_piece(w, o, kOut, k), load_piece(w, o + 8, kOut, k), load_piece(x, lane / 4, rows, k));
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[warp][lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = sum[i];
  __syncthreads();
  int total = 0;
#pragma unroll
  for (int part = 0; part < kWarps; ++part) total += sums[part][row][thread % kTileOutputs];
  if (row < rows && output < kOut) y[row * kOut + output] = static_cast<signed char>(requantized(total, scale));
}

ASSERT_LAUNCH(dense_int8_any_size, dense_int8::kThreads, 0);
extern "C" __global__ void __launch_bounds__(dense_int8::kThreads)
    dense_int8_any_size(const signed char* __restrict__ x, const float* __restrict__ x_scale, const signed char* __restrict__ w,
                        const float* __restrict__ w_scale, const float* __restrict__ bias, const float* __restrict__ y_scale, int n,
                        signed char* __restrict__ y) {
  using namespace dense_int8;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= static_cast<long long>(n) * kOut) return;
  const long long row = i / kOut;
  const int o = static_cast<int>(i - row * kOut);
  x += row * kIn;
  w += static_cast<long long>(o) * kIn;
  int sum = 0;
  if constexpr (kIn % 4 == 0) {
    for (int k = 0; k < kIn; k += 4) sum = __dp4a(*reinterpret_cast<const int*>(x + k), *reinterpret_cast<const int*>(w + k), sum);
  } else {
    for (int k = 0; k < kIn; ++k) sum += x[k] * w[k];
  }
  y[i] = static_cast<signed char>(requantized(sum, scale_of(o, kOut, x_scale, w_scale, bias, y_scale)));
}
