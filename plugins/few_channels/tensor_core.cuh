// The convolution of few channels or filters on tensor cores: pixels as A, filters as B, sums in float.
//
// K is made of words: a tap of a float, or two neighbouring taps of a row of 16 bits (where the filter's row is odd, the last tap is
// paired with a weight of zero). A step has 8 words, of which lane (g = lane / 4, t = lane % 4) needs words t and t + 4. x is in shared
// memory so that the word of a tap lies at the tap's offset from the pixel; a table has the offsets of each step.
//
// Mapping: a warp computes 8 runs of 4 neighbouring pixels, lane g's pixels 4 g ... 4 g + 3, for all filters of the block, so that a lane
// stores 4 neighbours. Blocks are persistent: where all channels fit in shared memory at once, they prepare the weights once.
//
// Floats are split into two numbers of 11 bits (tf32), and three products replace one. A sum that is not finite may come from
// a weight of zero or from the split: it is computed again by plain multiply-adds.
#pragma once

#include "layer.cuh"
#include "mma.cuh"
#include "split_floats/cut_sums.cuh"
#include "split_floats/pair_bits.cuh"

constexpr bool kIsFloat = sizeof(T) == 4;
constexpr int kRun = 4;

// Runs of a warp side by side: 4 (in two rows) where the last of 8 would be more than half empty.
constexpr int kRunsAcross = (ceil_div(Layer::kOutWidth, kRun) - 1) % 8 < 4 ? 4 : 8, kWarpRows = 8 / kRunsAcross;

template <int kWarps_, int kMostTiles>
struct TensorPlan {
  static constexpr int kWarps = kWarps_, kThreads = 32 * kWarps;
  static constexpr int kTiles = smaller(ceil_div(kFilters, 8), kMostTiles), kBlockFilters = 8 * kTiles;
  static constexpr int kChunk = smaller(kChannels, 8);  // channels in shared memory at once
  static constexpr int kRowWords = kIsFloat ? kSize : ceil_div(kSize, 2);  // of a row of taps
  static constexpr int kWords = kChunk * kSize * kRowWords, kSteps = ceil_div(kWords, 8);

  static constexpr int kTileColumns = kRun * kRunsAcross, kTileRows = kWarps * kWarpRows;
  static constexpr int kTilesAcross = ceil_div(Layer::kOutWidth, kTileColumns);
  static constexpr int kTilesDown = ceil_div(Layer::kOutHeight, kTileRows);
  static constexpr int kRowsOfX = (kTileRows - 1) * kStride + kSize;
  // Words of a row. Floats with stride 2: even columns, then from kHalf on odd ones. 16 bits with stride 1: each column and its right
  // neighbour. kHalf = 4 i + 2, and the pitch, let neighbouring words of K lie in different banks.
  static constexpr int kHalf = kIsFloat && kStride == 2 ? round_up(kTileColumns + (kSize + 1) / 2, 4) + 2 : 0;
  static constexpr int kAcross = kHalf > 0 ? 2 * kHalf : kTileColumns + (kIsFloat || kStride == 2 ? kRowWords : 2 * kRowWords);
  static constexpr int kPitch = round_up(kAcross, 4) + kRowWords % 4;
  static constexpr int kPlane = kRowsOfX * kPitch;

  // Columns of x, or pairs of them, that are copied; a thread copies kCopies words. A block fetches the next piece of x while it
  // computes one where a thread has the registers for it.
  static constexpr int kColumns = kIsFloat ? (kTileColumns - 1) * kStride + kSize : kAcross;
  static constexpr int kCopies = ceil_div(kChunk * kRowsOfX * kColumns, kThreads);
  static constexpr bool kAhead = kCopies <= (kIsFloat ? 16 : 12);
  // The tensor cores cut sums off, which adds up over many steps: with few filters, a second set of sums is added to now and then.
  static constexpr bool kAddsUp = kIsFloat && kTiles == 1;
  static constexpr int kStepsOfSum = 4, kAllSteps = kSteps * ceil_div(kChannels, kChunk);
  static constexpr int kProducts = 3 * (kAddsUp ? smaller(kStepsOfSum, kSteps) : kAllSteps) - 2;  // of floats; the first two sums are small

  static constexpr int kFragmentWords = kIsFloat ? 4 : 2;  // of a lane, step and tile of 8 filters
  static constexpr int kFragmentBytes = kSteps * kTiles * 32 * kFragmentWords * 4, kTableBytes = kSteps * 32;
  static constexpr int kSharedBytes = kFragmentBytes + kTableBytes + kChunk * kPlane * 4;

  // The word of column `column` of the tile's rows of x.
  __host__ __device__ static constexpr int place_of(int column) { return kHalf == 0 ? column : (column & 1) * kHalf + column / 2; }
};

// The nearest number of 11 bits. What is left is small enough for another one, of which the tensor cores ignore the last bits.
__device__ __forceinline__ float high_part(float value) {
  return __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u);
}

// The weights of channels first_channel ... and filters first_filter ..., in the order in which lanes load them.
template <typename Plan>
__device__ __forceinline__ void load_fragments(unsigned* fragments, const T* __restrict__ w, int first_channel, int first_filter) {
  const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll 4
  for (int i = threadIdx.x / 32; i < Plan::kSteps * Plan::kTiles; i += Plan::kWarps) {
    const int filter = first_filter + i % Plan::kTiles * 8 + lane / 4;
    const T* from = w + (filter * kChannels + first_channel) * kTaps;
    const int taps = filter < kFilters ? smaller(Plan::kChunk, kChannels - first_channel) * kTaps : 0;
    const auto at = [&](int tap, bool exists) { return exists && tap < taps ? from[tap] : from_float<T>(0.0f); };
    unsigned words[Plan::kFragmentWords];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int word = i / Plan::kTiles * 8 + t + 4 * half;
      if constexpr (kIsFloat) {
        const float value = to_float(at(word, true)), high = high_part(value);
        words[half] = __float_as_uint(high);
        words[half + 2] = __float_as_uint(value - high);
      } else {
        const int column = word % Plan::kRowWords * 2, tap = word / Plan::kRowWords * kSize + column;
        words[half] = pair_bits(at(tap, true), at(tap + 1, column + 1 < kSize));
      }
    }
    unsigned* to = fragments + (i * 32 + lane) * Plan::kFragmentWords;
    if constexpr (kIsFloat) {
      *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
      *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
    }
  }
}

// Byte offsets of a step's words t and t + 4 from a pixel's first word. Words after the last one have weights of zero.
template <typename Plan>
__device__ __forceinline__ void fill_table(int* table) {
  for (int i = threadIdx.x; i < Plan::kSteps * 8; i += Plan::kThreads) {
    const int word = i / 8 * 8 + i % 8 / 2 + i % 2 * 4;  // t, then t + 4
    const int line = word / Plan::kRowWords, column = word % Plan::kRowWords;
    const int place = kIsFloat ? Plan::place_of(column) : kStride == 1 ? 2 * column : column;
    table[i] = word < Plan::kWords ? 4 * (line / kSize * Plan::kPlane + line % kSize * Plan::kPitch + place) : 0;
  }
}

// A tile of outputs of one image, and the channels of x that come to shared memory together.
template <typename Plan>
struct Piece {
  static constexpr int kOfImage = Plan::kTilesDown * Plan::kTilesAcross;
  int image, row, column, first_channel;

  __device__ __forceinline__ Piece(int tile, int first_channel_)
      : image(tile / kOfImage),
        row(tile % kOfImage / Plan::kTilesAcross * Plan::kTileRows),
        column(tile % Plan::kTilesAcross * Plan::kTileColumns),
        first_channel(first_channel_) {}
};

// Words of the patch of x that a piece needs, on their way from global to shared memory: all that a thread copies, or a few.
template <typename Plan>
struct Fetched {
  static constexpr int kTotal = Plan::kChunk * Plan::kRowsOfX * Plan::kColumns;
  static constexpr int kCount = Plan::kAhead ? Plan::kCopies : smaller(Plan::kCopies, 4);
  T value[kCount], second[kCount];

  __device__ __forceinline__ void load(const T* __restrict__ x, const Piece<Plan>& piece, int first = 0) {
    const T* image = x + (static_cast<size_t>(piece.image) * kChannels + piece.first_channel) * Layer::kPlane;
    const int top = piece.row * kStride - Layer::kPad, left = piece.column * kStride - Layer::kPad;
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const int i = threadIdx.x + (first + e) * Plan::kThreads, j = i % Plan::kColumns, line = i / Plan::kColumns;
      const int channel = line / Plan::kRowsOfX, row = top + line % Plan::kRowsOfX;
      const int column = left + (kIsFloat ? j : j * kStride);
      const bool in_rows = i < kTotal && piece.first_channel + channel < kChannels && static_cast<unsigned>(row) < Layer::kHeight;
      const T* from = image + (channel * Layer::kHeight + row) * Layer::kWidth + column;
      value[e] = in_rows && static_cast<unsigned>(column) < Layer::kWidth ? from[0] : from_float<T>(0.0f);
      if constexpr (!kIsFloat) {
        second[e] = in_rows && static_cast<unsigned>(column + 1) < Layer::kWidth ? from[1] : from_float<T>(0.0f);
      }
    }
  }

  __device__ __forceinline__ void store(unsigned* patch, int first = 0) const {
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const int i = threadIdx.x + (first + e) * Plan::kThreads, j = i % Plan::kColumns, line = i / Plan::kColumns;
      if (i >= kTotal) return;
      const unsigned word = kIsFloat ? __float_as_uint(to_float(value[e])) : pair_bits(value[e], second[e]);
      patch[line * Plan::kPitch + (kIsFloat ? Plan::place_of(j) : j)] = word;
    }
  }
};

template <typename Plan>
__device__ __forceinline__ void few_channels_by_mma(const T* __restrict__ x, const T* __restrict__ w,
                                                        const T* __restrict__ bias, int n, T* __restrict__ y) {
  extern __shared__ __align__(16) unsigned char shared[];
  unsigned* fragments = reinterpret_cast<unsigned*>(shared);
  int* table = reinterpret_cast<int*>(shared + Plan::kFragmentBytes);
  unsigned* patch = reinterpret_cast<unsigned*>(shared + Plan::kFragmentBytes + Plan::kTableBytes);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int first_filter = blockIdx.y * Plan::kBlockFilters;
  const int row = warp * kWarpRows + g / kRunsAcross, column = g % kRunsAcross * kRun;
  // With stride 2, the word of a pixel is that of its first column.
  const char* pixels = reinterpret_cast<const char*>(patch + row * kStride * Plan::kPitch + column);

  fill_table<Plan>(table);
  if constexpr (Plan::kChunk == kChannels) load_fragments<Plan>(fragments, w, 0, first_filter);

  const int tiles = n * Piece<Plan>::kOfImage;
  Fetched<Plan> fetched;
  if (Plan::kAhead && static_cast<int>(blockIdx.x) < tiles) fetched.load(x, Piece<Plan>(blockIdx.x, 0));
#pragma unroll 1
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    float sums[Plan::kTiles][2][4] = {}, totals[Plan::kTiles][2][4] = {};
#pragma unroll 1
    for (int first_channel = 0; first_channel < kChannels; first_channel += Plan::kChunk) {
      __syncthreads();
      if constexpr (Plan::kChunk != kChannels) load_fragments<Plan>(fragments, w, first_channel, first_filter);
      if constexpr (Plan::kAhead) {
        fetched.store(patch);
      } else {
#pragma unroll 1
        for (int first = 0; first < Plan::kCopies; first += fetched.kCount) {
          fetched.load(x, Piece<Plan>(tile, first_channel), first);
          fetched.store(patch, first);
        }
      }
      __syncthreads();
      if (Plan::kAhead) {
        const bool same_tile = first_channel + Plan::kChunk < kChannels;
        const Piece<Plan> next(same_tile ? tile : tile + gridDim.x, same_tile ? first_channel + Plan::kChunk : 0);
        if (same_tile || tile + static_cast<int>(gridDim.x) < tiles) fetched.load(x, next);
      }
#pragma unroll 1
      for (int step = 0; step < Plan::kSteps; ++step) {
        const int2 offsets = *reinterpret_cast<const int2*>(table + step * 8 + t * 2);
        unsigned a[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // pixel i of the run: row g or g + 8 of product i / 2
          a[i / 2][i % 2] = *reinterpret_cast<const unsigned*>(pixels + offsets.x + 4 * i);
          a[i / 2][i % 2 + 2] = *reinterpret_cast<const unsigned*>(pixels + offsets.y + 4 * i);
        }
        const unsigned* b = fragments + (step * Plan::kTiles * 32 + lane) * Plan::kFragmentWords;
        if constexpr (kIsFloat) {
          unsigned high[2][4], low[2][4];
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const float value = __uint_as_float(a[i / 4][i % 4]), of_value = high_part(value);
            high[i / 4][i % 4] = __float_as_uint(of_value);
            low[i / 4][i % 4] = __float_as_uint(value - of_value);
          }
#pragma unroll
          for (int f = 0; f < Plan::kTiles; ++f) {
            const uint4 of = *reinterpret_cast<const uint4*>(b + f * 32 * 4);
#pragma unroll
            for (int p = 0; p < 2; ++p) {
              mma_16x8x8_tf32(sums[f][p], low[p], of.x, of.y);
              mma_16x8x8_tf32(sums[f][p], high[p], of.z, of.w);
              mma_16x8x8_tf32(sums[f][p], high[p], of.x, of.y);
            }
          }
        } else {
#pragma unroll
          for (int f = 0; f < Plan::kTiles; ++f) {
            const uint2 of = *reinterpret_cast<const uint2*>(b + f * 32 * 2);
#pragma unroll
            for (int p = 0; p < 2; ++p) mma_16x8x16<T>(sums[f][p], a[p][0], a[p][1], a[p][2], a[p][3], of.x, of.y);
          }
        }
        if constexpr (Plan::kAddsUp) {
          if (step % Plan::kStepsOfSum == Plan::kStepsOfSum - 1 || step == Plan::kSteps - 1) {
#pragma unroll
            for (int i = 0; i < Plan::kTiles * 8; ++i) {
              totals[i / 8][i / 4 % 2][i % 4] += sums[i / 8][i / 4 % 2][i % 4];
              sums[i / 8][i / 4 % 2][i % 4] = 0.0f;
            }
          }
        }
      }
    }

    const Piece<Plan> piece(tile, 0);
    const int image = piece.image, out_row = piece.row + row, out_column = piece.column + column;
    float probe = 0.0f;  // NaN after a sum that is not finite
#pragma unroll
    for (int f = 0; f < Plan::kTiles; ++f) {
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        const int filter = first_filter + f * 8 + 2 * t + second;
        const float(&of)[2][4] = Plan::kAddsUp ? totals[f] : sums[f];
        float run[kRun] = {of[0][second], of[0][second + 2], of[1][second], of[1][second + 2]};
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
          if constexpr (kIsFloat) run[i] = with_cut<Plan::kProducts>(run[i]);
          probe = fmaf(run[i], 0.0f, probe);
        }
        if (filter >= kFilters) continue;
        T* plane = y + (static_cast<size_t>(image) * kFilters + filter) * Layer::kOutPlane;
        store_outputs(plane, out_row, out_column, run, to_float(bias[filter]));
      }
    }
    if (probe != probe && out_row < Layer::kOutHeight) {
#pragma unroll 1
      for (int i = 0; i < kRun * Plan::kTiles * 2; ++i) {
        const int filter = first_filter + i / (2 * kRun) * 8 + 2 * t + i / kRun % 2, at = out_column + i % kRun;
        if (filter >= kFilters || at >= Layer::kOutWidth) continue;
        const T* image_of_x = x + static_cast<size_t>(image) * kChannels * Layer::kPlane;
        const float sum = plain_sum(image_of_x, w + filter * kChannels * kTaps, out_row, at) + to_float(bias[filter]);
        y[(static_cast<size_t>(image) * kFilters + filter) * Layer::kOutPlane + out_row * Layer::kOutWidth + at] =
            activated<kActivation, T>(sum);
      }
    }
  }
}
