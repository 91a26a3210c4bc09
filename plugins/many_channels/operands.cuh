// The operands of the convolution of many channels on tensor cores: loaded ahead, split into two fp16 numbers, laid out for the lanes.
//
// 16 rows of K are computed at a time: a row of x is the tap's element of each pixel, or zero outside the image. A thread loads four rows of
// two columns of x, kAhead times 16 rows ahead, splits them into two fp16 matrices in shared memory, and stores four words of each, which are
// four words of a lane: neighbouring rows of a column share a word. The filters are split already; a thread loads 8 rows of one.
//
// The rows, columns and depths of a product can be any pixels, filters and channels. Lane (g = lane / 4, t = lane % 4) has channels
// 4 t ... 4 t + 3, rows g and g + 8 of 16 pixels, and column g of two times 8 filters. Each piece of 16 bytes is one for a lane, where
// neither its load nor its store has bank conflicts (`slot`).
#pragma once

#include "many_channels/layer.cuh"

static_assert(kAllEights);
constexpr int kDepth = 16, kUnitRows = 4, kRun = 4;
constexpr int kGroupPixels = 64, kWarpFilters = 32;  // whose pieces lie together
constexpr int kPieceWords = 128;                     // of 32 lanes
constexpr int kChunksOfTap = ceil_div(kChannels, kDepth), kChunks = kTaps * kChunksOfTap;

// The words of a lane in 32 pieces.
__device__ __forceinline__ int slot(int g, int t) { return (8 * t + (g ^ 2 * t)) * 4; }

template <int kPixels_, int kBlockFilters_, int kWarpPixels_, int kAhead_, int kSplits_>
struct Tile {
  static constexpr int kPixels = kPixels_, kBlockFilters = kBlockFilters_, kWarpPixels = kWarpPixels_;
  static constexpr int kAhead = kAhead_, kSplits = kSplits_;
  static constexpr int kWarpsAcross = kBlockFilters / kWarpFilters, kThreads = 32 * kWarpsAcross * (kPixels / kWarpPixels);
  // Neighbouring pixels are neighbours in x.
  static constexpr bool kWide = Layer::kSize == 1 && Layer::kStride == 1 && Layer::kPad == 0 && Layer::kPlane % 2 == 0;
  static constexpr int kUnits = 2 * kPixels / kThreads;  // of x, of a thread; of filters it has one
  static constexpr int kOperandWords = kDepth * (kPixels + kBlockFilters);
  static constexpr int kSumPitch = kPixels + 4, kSumFloats = kBlockFilters * kSumPitch;
  static constexpr int kFloats = larger(2 * kOperandWords, kSumFloats);
  static constexpr int kSharedBytes = 4 * (kFloats + kPixels);
  static constexpr int kFilterTiles = ceil_div(kFilters, kBlockFilters);
  static constexpr int kProducts = kWarpPixels / 16;
  static_assert(kPixels % kGroupPixels == 0 && kWarpPixels % 32 == 0 && kBlockFilters % kSplits == 0);
  static_assert(2 * kPixels % kThreads == 0 && 2 * kBlockFilters == kThreads && kThreads >= kPixels);

  // The pixel of row g (second: g + 8) of a product of 16, of the tile.
  static __device__ __forceinline__ int pixel(int product, int g, bool second) {
    const int group = product / 4 * kGroupPixels, first = product % 4 * 8 + g;
    return group + (kWide ? 2 * first + second : first + 32 * second);
  }
  // The place of a sum; neighbouring lanes have different banks.
  static __device__ __forceinline__ int place(int filter, int pixel) { return filter * kSumPitch + (pixel ^ filter / 4 % 4 * 8); }
};

// The 16 rows of K that are loaded next: a tap and a chunk of channels.
struct Rows {
  static constexpr int kBack = (kChunksOfTap - 1) * kDepth;  // from a tap's last chunk to its first
  int chunk, channel, i, j;
  __device__ __forceinline__ explicit Rows(int first)
      : chunk(first),
        channel(first % kChunksOfTap * kDepth),
        i(first / kChunksOfTap / Layer::kSize),
        j(first / kChunksOfTap % Layer::kSize) {}
  // Where the rows are in x, from the corner of a window, and among the filters of the first block.
  __device__ __forceinline__ int of_x() const { return channel * Layer::kPlane + i * Layer::kWidth + j * Layer::kDilation; }
  __device__ __forceinline__ int of_filters() const { return filter_at(0, channel / kEight, i * Layer::kSize + j); }

  // Goes on without a branch; returns how far in x.
  __device__ __forceinline__ int advance() {
    ++chunk;
    const bool next_tap = channel == kBack, next_row = next_tap && j + 1 == Layer::kSize;
    channel = next_tap ? 0 : channel + kDepth;
    j = next_row ? 0 : j + next_tap;
    i += next_row;
    const int to_tap = Layer::kDilation - kBack * Layer::kPlane, to_row = to_tap + Layer::kWidth - Layer::kSize * Layer::kDilation;
    return next_row ? to_row : next_tap ? to_tap : kDepth * Layer::kPlane;
  }
};

// What one thread loads of x: four rows of two pixels, kUnits times.
template <typename Tile>
struct PixelLoads {
  static constexpr int kAcross = Tile::kPixels / 2, kUnitsApart = Tile::kThreads / kAcross;  // units of four rows
  const T* from[2];       // the first element that is loaded next of each window; it may lie outside the image
  int row[2], column[2];  // of the windows

  static __device__ __forceinline__ int group(int unit) { return threadIdx.x / kAcross + unit * kUnitsApart; }
  static __device__ __forceinline__ int pixel(bool second) { return Tile::pixel(threadIdx.x % kAcross / 8, threadIdx.x % 8, second); }

  __device__ __forceinline__ PixelLoads(const T* x, int first_pixel, int pixels, const Rows& rows) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int at = first_pixel + pixel(e);
      const Pixel of(at < pixels ? at : 0);
      from[e] = x + ((of.image * kChannels + kUnitRows * group(0)) * Layer::kPlane + of.row * Layer::kWidth + of.column + rows.of_x());
      row[e] = at < pixels ? of.row : Layer::kHeight;  // below the image
      column[e] = of.column;
    }
  }

  __device__ __forceinline__ void load(float (&values)[Tile::kUnits][kUnitRows][2], const Rows& rows, bool wanted) const {
#pragma unroll
    for (int e = 0; e < (Tile::kWide ? 1 : 2); ++e) {
      const bool inside = wanted && static_cast<unsigned>(row[e] + rows.i) < Layer::kHeight &&
                          static_cast<unsigned>(column[e] + rows.j * Layer::kDilation) < Layer::kWidth;
#pragma unroll
      for (int unit = 0; unit < Tile::kUnits; ++unit) {
        const bool exists = inside && (kChannels % kDepth == 0 || rows.channel + kUnitRows * group(unit) < kChannels);
#pragma unroll
        for (int r = 0; r < kUnitRows; ++r) {
          const T* element = from[e] + (unit * kUnitsApart * kUnitRows + r) * Layer::kPlane;
          if constexpr (Tile::kWide) {
            const Vector<T, 2> two = exists ? load_vector<2>(element) : Vector<T, 2>{};
            values[unit][r][0] = two.value[0], values[unit][r][1] = two.value[1];
          } else {
            values[unit][r][e] = exists ? __ldg(element) : 0.0f;
          }
        }
      }
    }
  }

  __device__ __forceinline__ void advance(int elements) {
#pragma unroll
    for (int e = 0; e < (Tile::kWide ? 1 : 2); ++e) from[e] += elements;
  }
};

using Words = Vector<unsigned, 4>;
__device__ __forceinline__ void store_words(unsigned* to, const Words& words) { *reinterpret_cast<Words*>(to) = words; }

// What one thread loads of the filters: 8 rows of one, as hi and lo.
template <typename Tile>
struct FilterLoads {
  static_assert(Tile::kBlockFilters == kFilterBlock && Tile::kThreads == kFilterBlock * kDepth / kEight);
  const __half* from;  // those of the first rows

  static __device__ __forceinline__ int filter() { return threadIdx.x % kFilterBlock; }
  static __device__ __forceinline__ int eight() { return threadIdx.x / kFilterBlock; }

  __device__ __forceinline__ FilterLoads(const __half* filters, int first_filter)
      : from(filters + (filter_at(first_filter / kFilterBlock, eight(), 0) + filter() * kEight)) {}

  __device__ __forceinline__ void load(Words& hi, Words& lo, const Rows& rows, bool wanted) const {
    const bool here = wanted && (kChannels % kDepth == 0 || rows.channel + kEight * eight() < kChannels);
    const unsigned* words = reinterpret_cast<const unsigned*>(from + rows.of_filters());
    hi = here ? load_vector<4>(words) : Words{};
    lo = here ? load_vector<4>(words + kFilterBlock * kEight / 2) : Words{};
  }

  // Stores the words of four rows of a filter, and those of the next four: half a piece each.
  static __device__ __forceinline__ void store(unsigned* words, const Words& eight_rows) {
    unsigned* piece = words + filter() / 16 * kPieceWords + filter() % 2 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      *reinterpret_cast<uint2*>(piece + slot(filter() / 2 % 8, 2 * eight() + i)) =
          make_uint2(eight_rows.value[2 * i], eight_rows.value[2 * i + 1]);
    }
  }
};

// What a thread has of 16 rows.
template <typename Tile>
struct Loaded {
  using OfX = PixelLoads<Tile>;
  float x[Tile::kUnits][kUnitRows][2];
  Words filters_hi, filters_lo;

  // Stores it in the matrices, and splits x; `most` becomes the largest number of each of its pixels.
  __device__ __forceinline__ void split_into(unsigned* words, float (&most)[2]) const {
#pragma unroll
    for (int unit = 0; unit < Tile::kUnits; ++unit) {
      Words hi, lo;  // rows g and g + 8 of the first pair of channels, then of the second
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float a = x[unit][i / 2 * 2][i % 2], b = x[unit][i / 2 * 2 + 1][i % 2];
        split(a, b, hi.value[i], lo.value[i]);
        most[i % 2] = fmaxf(most[i % 2], fmaxf(fabsf(a), fabsf(b)));
      }
      const int across = threadIdx.x % OfX::kAcross;
      unsigned* to = words + across / 8 * kPieceWords + slot(across % 8, OfX::group(unit));
      store_words(to, hi);
      store_words(to + kDepth / 2 * Tile::kPixels, lo);
    }
    unsigned* to = words + kDepth * Tile::kPixels;
    FilterLoads<Tile>::store(to, filters_hi);
    FilterLoads<Tile>::store(to + kDepth / 2 * Tile::kBlockFilters, filters_lo);
  }
};
