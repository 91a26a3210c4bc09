// Parts of conv5x5/by_mma.cuh: its geometry, fetching, splitting into halves, and stores.
//
// Float accuracy (kSplit). x = hi + lo / 2^12 with fp16 hi and lo, w likewise; x w = hi hi + (lo hi + hi lo) / 2^12: three
// products and two float sums, after scaling x (per tile) and w by powers of two so that their largest magnitude lies in
// [2^14, 2^15). An element down to 2^-32 of the largest keeps at least 20 bits (19, where a weight is halved); anything smaller,
// non-finite, or out of the scaling's reach sends the tile to plain multiply-adds, in the same launch.
#pragma once

#include "conv5x5/quad.cuh"
#include "copies.cuh"
#include "mma.cuh"

constexpr int kMmaWarps = 3;  // a 28x28 image has 9 units
constexpr int kMmaThreads = kMmaWarps * 32;
constexpr int kQuadsPerUnit = 16;
constexpr float kLowUnit = 1.0f / 4096.0f;  // what one unit of a `lo` half stands for

template <typename T>
struct OperandOf {
  using Type = __half;  // float storage without a split is rounded to fp16
};
template <>
struct OperandOf<__nv_bfloat16> {
  using Type = __nv_bfloat16;
};

template <typename Shape_, typename T_, bool kSplit_, int kWarps_ = kMmaWarps, int kLeastImages = 1>
struct MmaPlan {
  using Shape = Shape_;
  using T = T_;
  using Operand = typename OperandOf<T>::Type;
  static constexpr bool kSplit = kSplit_;
  static constexpr int kHalves = kSplit ? 2 : 1;
  static constexpr int kWarps = kWarps_, kThreads = 32 * kWarps;

  static constexpr int kUnits = ceil_div(Shape::kQuads, kQuadsPerUnit);
  static constexpr int kImages = kWarps / kUnits > kLeastImages ? kWarps / kUnits : kLeastImages;  // images of a tile
  static constexpr int kFilterTiles = ceil_div(Shape::kFilters, 8);
  static constexpr int kTileUnroll = kSplit ? 1 : 8;  // the short loop without a split gains from unrolling, the long one loses
  // Filter tiles that share one pass over the channels; a single channel stays in registers anyway.
  static constexpr int kTilesAtOnce = Shape::kChannels == 1 || kFilterTiles == 1 ? 1 : 2;

  // Shared memory: B fragments | pairs | the next tile as it is in global memory.
  static constexpr int kFragmentBytes = Shape::kChannels * kFilterTiles * kHalves * 32 * 16;
  // Words a row of pairs. A warp reads runs of four words at the starts of 8 quads, every second of a row. Windows step two
  // rows at a time: 12 mod 16 lets the runs of one row of quads follow those of the row above. For rows, 1 mod 4 spreads best.
  static constexpr int kPitch = Shape::kPooled ? ceil_div(Shape::kWidth + 4, 16) * 16 - 4 : ceil_div(Shape::kWidth - 1, 4) * 4 + 1;
  static constexpr int kChannelPairBytes = Shape::kHeight * kPitch * 4;
  static constexpr int kImagePairBytes = Shape::kChannels * kChannelPairBytes;
  static constexpr int kSlackWords = 8;  // a quad over the right edge of the last row reads on
  static constexpr int kLowBytes = kImages * kImagePairBytes + kSlackWords * 4;  // pairs of low halves follow
  static constexpr int kPairBytes = ceil_div(kLowBytes * kHalves, 16) * 16;
  static constexpr int kOutSize = Shape::kFilters * Shape::kPlaneSize;  // of one image
  static constexpr int kTileSize = kImages * Shape::kImageSize;
  static constexpr int kTileBytes = kTileSize * static_cast<int>(sizeof(T));
  static constexpr int kTilesAhead = kTileBytes < 24 * 1024 ? 48 * 1024 / kTileBytes : 2;  // some 25 MB for a grid of 528
  static constexpr int kStagedBytes = ceil_div(kTileSize * static_cast<int>(sizeof(T)), 16) * 16;
  static constexpr int kSharedBytes = kFragmentBytes + kPairBytes + kStagedBytes;
};

// ---- fetching the next tile ----------------------------------------------------------------------------------------------

// Starts copying `images` images into shared memory; asynchronous from sm_80 on where the images' size allows.
template <typename Plan>
__device__ __forceinline__ void fetch_tile(typename Plan::T* staged, const typename Plan::T* x, int images) {
  constexpr int kImageBytes = Plan::Shape::kImageSize * static_cast<int>(sizeof(typename Plan::T));
  constexpr int kWidth = kImageBytes % 16 == 0 ? 16 : kImageBytes % 8 == 0 ? 8 : kImageBytes % 4 == 0 ? 4 : 2;
#if __CUDA_ARCH__ >= 800
  constexpr bool kAsynchronous = kWidth >= 4;
#else
  constexpr bool kAsynchronous = false;
#endif
  if constexpr (kAsynchronous) {
    const unsigned to = shared_address(staged);
    const char* from = reinterpret_cast<const char*>(x);
    for (int i = threadIdx.x * kWidth; i < images * kImageBytes; i += Plan::kThreads * kWidth) {
      copy_async<kWidth>(to + i, from + i);
    }
  } else {
    for (int i = threadIdx.x; i < images * Plan::Shape::kImageSize; i += Plan::kThreads) staged[i] = x[i];
  }
}

// Asks for the next kTilesAhead tiles of this block to be brought into L2 and kept there. Reads that trickle in between the writes
// of y turn the memory bus around each time; asked for together they cost little. Worth it where y is all that takes time: for
// 10000 images and 50 filters on an H200 rows gained 14 us of 331, windows lost 8 of 194.
template <typename Plan>
__device__ __forceinline__ void prefetch_tiles(const typename Plan::T* x, int first, int n) {
#if __CUDA_ARCH__ >= 800
  constexpr int kLine = 128, kLines = ceil_div(Plan::kTileBytes, kLine);
  const size_t end = static_cast<size_t>(n) * Plan::Shape::kImageSize * sizeof(typename Plan::T);
  for (int i = threadIdx.x; i < Plan::kTilesAhead * kLines; i += Plan::kThreads) {
    const size_t tile = first + static_cast<size_t>(i / kLines) * gridDim.x;
    const size_t offset = tile * Plan::kTileBytes + i % kLines * kLine;
    if (offset < end) {
      asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(reinterpret_cast<const char*>(x) + offset));
    }
  }
#endif
}

// ---- scaling and its guard ------------------------------------------------------------------------------------------------

// Bits of the largest magnitude, and of the smallest one that is not zero, less one (so that zero wraps around to the top).
struct MagnitudeRange {
  unsigned largest, smallest_less_one;
};

// Range of `count` floats, over the block; `partial` is one slot a warp. Ends with every thread past a barrier.
template <int kWarps>
__device__ __forceinline__ MagnitudeRange block_range(const float* values, int count, MagnitudeRange* partial) {
  unsigned largest = 0, smallest = 0xffffffffu;
  for (int i = threadIdx.x; i < count; i += 32 * kWarps) {
    const unsigned magnitude = __float_as_uint(values[i]) & 0x7fffffffu;
    largest = max(largest, magnitude);
    smallest = min(smallest, magnitude - 1);
  }
  largest = warp_max(largest);
  smallest = ~warp_max(~smallest);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = {largest, smallest};
  __syncthreads();
  MagnitudeRange range = partial[0];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) {
    range.largest = max(range.largest, partial[i].largest);
    range.smallest_less_one = min(range.smallest_less_one, partial[i].smallest_less_one);
  }
  return range;
}

constexpr int kSplitSpan = 32;  // binary orders of magnitude below the largest that keep 20 bits

struct Scaling {
  float factor, inverse;  // powers of two
  bool usable;            // the split keeps enough bits of every element
};

__device__ __forceinline__ Scaling scaling_of(MagnitudeRange range, int span = kSplitSpan) {
  constexpr int kBias = 127, kTop = 14;      // the largest magnitude goes to [2^kTop, 2^(kTop + 1))
  constexpr int kReach = 48;                 // both factors, and the product of two, stay far from overflow
  if (range.largest == 0) return {1.0f, 1.0f, true};
  const int exponent = static_cast<int>(range.largest >> 23) - kBias;
  const int lowest = static_cast<int>((range.smallest_less_one + 1) >> 23) - kBias;
  const int shift = max(-kReach, min(kReach, kTop - exponent));
  return {__uint_as_float((kBias + shift) << 23), __uint_as_float((kBias - shift) << 23),
          exponent + shift == kTop && lowest > exponent - span};
}

// ---- operands -----------------------------------------------------------------------------------------------------------

__device__ __forceinline__ unsigned pack(__half a, __half b) {
  const __half2 both = __halves2half2(a, b);
  return *reinterpret_cast<const unsigned*>(&both);
}
__device__ __forceinline__ unsigned pack(__nv_bfloat16 a, __nv_bfloat16 b) {
  const __nv_bfloat162 both = __halves2bfloat162(a, b);
  return *reinterpret_cast<const unsigned*>(&both);
}

// The low half of a number whose high half is `hi`, in units of kLowUnit; the difference is exact.
__device__ __forceinline__ __half low_half(float value, __half hi) {
  return __float2half_rn((value - __half2float(hi)) * (1.0f / kLowUnit));
}

// fragments[channel][filter tile][half][lane]: the four B registers of a lane; see conv5x5/by_mma.cuh for the order of taps.
template <typename Plan>
__device__ __forceinline__ void make_fragments(uint4* fragments, const typename Plan::T* w, float factor) {
  using Shape = typename Plan::Shape;
  using Operand = typename Plan::Operand;
  for (int i = threadIdx.x; i < Shape::kChannels * Plan::kFilterTiles * 32; i += Plan::kThreads) {
    const int lane = i % 32, tile = i / 32 % Plan::kFilterTiles, channel = i / 32 / Plan::kFilterTiles;
    const int filter = tile * 8 + lane / 4, t = lane % 4;
    unsigned words[2][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int column = r < 3 ? t : 4, pair = r < 3 ? r : t % 3;
      const int row = pair == 0 ? 0 : pair + 1;
      Operand hi[2], lo[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const bool twice = row + k == 3 || (column == 4 && row + k < 2);
        float value = 0.0f;
        if (filter < Shape::kFilters) {
          value = to_float(w[(filter * Shape::kChannels + channel) * kTaps + (row + k) * kFilterSize + column]);
        }
        value *= twice ? 0.5f * factor : factor;
        hi[k] = from_float<Operand>(value);
        if constexpr (Plan::kSplit) lo[k] = low_half(value, hi[k]);
      }
      words[0][r] = pack(hi[0], hi[1]);
      if constexpr (Plan::kSplit) words[1][r] = pack(lo[0], lo[1]);
    }
#pragma unroll
    for (int h = 0; h < Plan::kHalves; ++h) {
      fragments[((channel * Plan::kFilterTiles + tile) * Plan::kHalves + h) * 32 + lane] =
          make_uint4(words[h][0], words[h][1], words[h][2], words[h][3]);
    }
  }
}

template <typename Plan, int kRun>
__device__ __forceinline__ void store_words(unsigned* to, const Vector<unsigned, kRun>& words) {
  if constexpr (kRun == 4 && Plan::kPitch % 4 == 0) {
    *reinterpret_cast<uint4*>(to) = make_uint4(words.value[0], words.value[1], words.value[2], words.value[3]);
  } else {
#pragma unroll
    for (int k = 0; k < kRun; ++k) to[k] = words.value[k];
  }
}

// pairs[channel row y][x] = (v[y][x], v[y + 1][x]), low halves kLowBytes further on. The last row pairs with itself: it is not
// used as the first of a pair.
template <typename Plan>
__device__ __forceinline__ void make_pairs(unsigned* pairs, const typename Plan::T* staged, int images, float factor) {
  using Shape = typename Plan::Shape;
  using Operand = typename Plan::Operand;
  constexpr int kRun = Shape::kWidth % 4 == 0 ? 4 : 1;  // pixels a thread takes at a time
  constexpr int kRuns = Shape::kWidth / kRun;
  for (int i = threadIdx.x; i < images * Shape::kChannels * Shape::kHeight * kRuns; i += Plan::kThreads) {
    const int row = i / kRuns, column = i % kRuns * kRun;
    Operand hi[2][kRun], lo[2][kRun];
#pragma unroll
    for (int line = 0; line < 2; ++line) {
      const bool inside = line == 0 || row % Shape::kHeight + 1 < Shape::kHeight;
      const auto run = *reinterpret_cast<const Vector<typename Plan::T, kRun>*>(
          staged + (row + (inside ? line : 0)) * Shape::kWidth + column);
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        const float value = to_float(run.value[k]) * factor;
        hi[line][k] = from_float<Operand>(value);
        if constexpr (Plan::kSplit) lo[line][k] = low_half(value, hi[line][k]);
      }
    }
    unsigned* to = pairs + row * Plan::kPitch + column;
    Vector<unsigned, kRun> words, low_words;
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      words.value[k] = pack(hi[0][k], hi[1][k]);
      if constexpr (Plan::kSplit) low_words.value[k] = pack(lo[0][k], lo[1][k]);
    }
    store_words<Plan>(to, words);
    if constexpr (Plan::kSplit) store_words<Plan>(to + Plan::kLowBytes / 4, low_words);
  }
}

// ---- stores ---------------------------------------------------------------------------------------------------------------

// Writes a tile of 8 filters of one unit, of which this lane has filters 2 t and 2 t + 1 of two quads: pools, undoes the scaling,
// adds the bias, applies the activation.
template <typename Plan, Activation kActivation>
struct TileWriter {
  using Shape = typename Plan::Shape;
  using T = typename Plan::T;
  static constexpr int kTileSize = 8 * Shape::kPlaneSize;
  T* out[2];     // where the lane's first filter of tile 0 goes: quads 0 and 1, or (rows) the one quad that it writes
  bool exists[2];
  int column;    // of that one quad
  int filter;    // in a tile: the lane's first
  const float* bias;
  float scale;

  template <typename Unit>
  __device__ __forceinline__ TileWriter(const Unit& unit, T* image_out, const float* bias_, float scale_, int t)
      : filter(Shape::kPooled ? 2 * t : 2 * (t & 2)), bias(bias_), scale(scale_) {
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const bool second = Shape::kPooled ? q == 1 : (t & 1) != 0;
      exists[q] = second ? unit.exists[1] : unit.exists[0];
      column = second ? unit.out_column[1] : unit.out_column[0];
      out[q] = image_out + static_cast<size_t>(filter) * Shape::kPlaneSize +
               (second ? unit.out_row[1] : unit.out_row[0]) * Shape::kOutWidth + column;
    }
  }

  __device__ __forceinline__ bool has(int tile, int f) const {
    return Shape::kFilters % 8 == 0 ? tile < Plan::kFilterTiles : tile * 8 + filter + f < Shape::kFilters;
  }

  __device__ __forceinline__ void write(const float (&sums)[4][4], int tile) {
    if constexpr (Shape::kPooled) {
      write_windows(sums, tile);
    } else {
      write_rows(sums, tile);
    }
    next_tile();
  }

  __device__ __forceinline__ void next_tile() {
#pragma unroll
    for (int q = 0; q < 2; ++q) out[q] += kTileSize;
  }

  __device__ __forceinline__ void write_windows(const float (&sums)[4][4], int tile) {
    const float2 offset = *reinterpret_cast<const float2*>(bias + tile * 8 + filter);
#pragma unroll
    for (int f = 0; f < 2; ++f) {
      float tops[2];
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        tops[q] = max_nan(max_nan(sums[2 * q][f], sums[2 * q][f + 2]), max_nan(sums[2 * q + 1][f], sums[2 * q + 1][f + 2]));
      }
      write_tops(tops, tile, f, f == 0 ? offset.x : offset.y);
    }
  }

  // The largest sums of both quads' windows, for the lane's filter f of the tile; `offset` is its bias.
  __device__ __forceinline__ void write_tops(const float (&tops)[2], int tile, int f, float offset) {
    Vector<T, 2> values;
#pragma unroll
    for (int q = 0; q < 2; ++q) values.value[q] = from_float<T>(activate<kActivation>(fmaf(tops[q], scale, offset)));
    if (!has(tile, f)) return;
    if constexpr (Shape::kOutWidth % 2 == 0) {
      if (exists[0]) store_vector(out[0] + f * Shape::kPlaneSize, values);  // the quads are neighbours in a row
    } else {
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        if (exists[q]) out[q][f * Shape::kPlaneSize] = values.value[q];
      }
    }
  }

  // Lanes t and t ^ 1 first exchange quads, after which the even one has quad 0 of four filters and the odd one quad 1: eight
  // neighbouring lanes then write two runs of 64 bytes instead of four of 32, in half the cycles of the store path.
  __device__ __forceinline__ void write_rows(const float (&sums)[4][4], int tile) {
    const bool odd = threadIdx.x & 1;
    float quads[4][kQuadOutputs];
#pragma unroll
    for (int f = 0; f < 2; ++f) {
#pragma unroll
      for (int i = 0; i < kQuadOutputs; ++i) {
        const float first = sums[i / 2][2 * (i % 2) + f], second = sums[2 + i / 2][2 * (i % 2) + f];
        const float got = __shfl_xor_sync(kAllLanes, odd ? first : second, 1);
        quads[f][i] = odd ? got : first;
        quads[f + 2][i] = odd ? second : got;
      }
    }
    const float4 offset = *reinterpret_cast<const float4*>(bias + tile * 8 + filter);
    const float offsets[4] = {offset.x, offset.y, offset.z, offset.w};
#pragma unroll
    for (int f = 0; f < 4; ++f) {
      if (!exists[0] || !has(tile, f)) continue;
      float values[kQuadOutputs];
#pragma unroll
      for (int i = 0; i < kQuadOutputs; ++i) values[i] = activate<kActivation>(fmaf(quads[f][i], scale, offsets[f]));
      store_row<Shape>(out[0] + f * Shape::kPlaneSize, column, values);
    }
  }
};
