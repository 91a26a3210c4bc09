// The two convolution + ReLU + max-pool stages of LeNet-5 on one block's share of the image, for the small-batch variants.
//
// kBlocks blocks share an image (1, 2, 4 or 8): each owns 16 / kBlocks neighbouring outputs of the second pool, for all
// 16 channels, and computes the patch of the first pool that these outputs need. The patches overlap (8 blocks compute
// 8 * 48 positions of the first pool, which has 144: 2.7 times the work); that costs less than one exchange between blocks.
//
// All arithmetic is float, whatever the storage type T; T decides how weights are stored and how the image is rounded.
#pragma once

#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/linear.cuh"

namespace lenet5 {

// What one of kBlocks blocks owns. Rows and columns of the second pool; the patch of the first pool; the patch of the image.
template <int kBlocks>
struct Share {
  static_assert(kBlocks == 1 || kBlocks == 2 || kBlocks == 4 || kBlocks == 8, "blocks an image");
  static constexpr int kPoolRows = kBlocks == 1 ? 4 : kBlocks == 2 ? 2 : 1;
  static constexpr int kPoolCols = kBlocks == 8 ? 2 : 4;
  static constexpr int kColParts = kPool2Side / kPoolCols;
  static constexpr int kConvRows = kPool * kPoolRows;
  static constexpr int kConvCols = kPool * kPoolCols;
  static constexpr int kPatchRows = kConvRows + kFilterSide - 1;
  static constexpr int kPatchCols = kConvCols + kFilterSide - 1;
  static constexpr int kPatch = kPatchRows * kPatchCols;
  static constexpr int kImageRows = kPool * kPatchRows + kFilterSide - 1;
  static constexpr int kImageCols = kPool * kPatchCols + kFilterSide - 1;
  // Two rows apart must be half of the banks apart (20 columns) or follow on (28), so that a warp's 8-byte loads never collide.
  static constexpr int kImageStride = kImageCols == 20 ? 24 : 28;
  static constexpr int kFeatures = kConv2Channels * kPoolRows * kPoolCols;
  // Distance of the shares of two blocks in the features: a warp that reads four rows of eight channels meets every bank once.
  static constexpr int kShareStride = kFeatures + (kBlocks == 8 ? 4 : kBlocks == 4 ? 8 : kBlocks == 2 ? 16 : 0);

  __device__ static unsigned image_row(unsigned rank) { return rank / kColParts * kPoolRows * kPool * kPool; }
  __device__ static unsigned image_col(unsigned rank) { return rank % kColParts * kPoolCols * kPool * kPool; }
};

constexpr int kFilter1Stride = 28;  // 25 taps, the bias, padding to whole 16-byte words

template <typename T>
__device__ __forceinline__ float rounded(float value) {
  return to_float(from_float<T>(value));
}

// Brings a block's images and conv1's weights to shared memory as float: global loads first, stores when there is time.
// kThreads threads, numbered from 0, do it.
template <typename TX, typename T, int kBlocks, int kImages, int kThreads>
struct StageConv1 {
  using S = Share<kBlocks>;
  static constexpr int kQuads = S::kImageCols / 4;
  static constexpr int kRowLanes = 8;  // threads a row of the image, of which kQuads load
  static constexpr int kImageItems = kImages * S::kImageRows * kRowLanes;
  static constexpr int kImageLoads = ceil_div(kImageItems, kThreads);
  static constexpr int kWeights = kConv1Channels * kFilterTaps;
  static constexpr int kLoads = (kWeights + kConv1Channels + kThreads - 1) / kThreads;
  static_assert(kQuads <= kRowLanes, "quads a row");

  Quad<TX> pixels[kImageLoads];
  T weights[kLoads];

  // Images first_image, first_image + 1, ... of n; the patch of each that block `rank` needs. With one image a block (or
  // cluster) the grid has no image too many, and not to look at n saves its load, a cache miss, on the longest path.
  __device__ __forceinline__ void load(const TX* x, const T* weight, const T* bias, int first_image, int n, unsigned rank,
                                       unsigned thread) {
#pragma unroll
    for (int i = 0; i < kImageLoads; ++i) {
      const unsigned item = thread + i * kThreads;
      const unsigned row = item / kRowLanes % S::kImageRows, quad = item % kRowLanes;
      if (item < kImageItems && quad < kQuads) {
        const int which = first_image + item / (kRowLanes * S::kImageRows);
        if (kImages > 1) pixels[i].clear();
        if (kImages == 1 || which < n) {
          pixels[i].load(x + static_cast<long long>(which) * kImagePixels +
                         ((S::image_row(rank) + row) * kImageSide + S::image_col(rank) + 4 * quad));
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const unsigned element = thread + i * kThreads;
      if (element < kWeights) {
        weights[i] = early(weight + element);
      } else if (element < kWeights + kConv1Channels) {
        weights[i] = early(bias + (element - kWeights));
      }
    }
  }

  // image [kImages][kImageRows][kImageStride], filters [6][kFilter1Stride] with the bias after the taps.
  __device__ __forceinline__ void store(float* image, float* filters, unsigned thread) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const unsigned element = thread + i * kThreads;
      if (element < kWeights + kConv1Channels) {
        filters[element < kWeights ? element / kFilterTaps * kFilter1Stride + element % kFilterTaps
                                   : (element - kWeights) * kFilter1Stride + kFilterTaps] = to_float(weights[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kImageLoads; ++i) {
      const unsigned item = thread + i * kThreads;
      if (item < kImageItems && item % kRowLanes < kQuads) {
        const float4 value = pixels[i].value();
        *reinterpret_cast<float4*>(image + item / kRowLanes * S::kImageStride + item % kRowLanes * 4) =
            make_float4(rounded<T>(value.x), rounded<T>(value.y), rounded<T>(value.z), rounded<T>(value.w));
      }
    }
  }
};

// Brings conv2's weights to shared memory as float, laid out as in global memory: [16][150].
template <typename T, int kThreads>
struct StageConv2 {
  static constexpr int kPack = Sixteen<T>::kCount;
  static constexpr int kPacks = kConv2Channels * kConv2Taps / kPack;
  static constexpr int kLoads = ceil_div(kPacks, kThreads);

  Sixteen<T> weights[kLoads];

  __device__ __forceinline__ void load(const T* weight, unsigned thread) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const unsigned pack = thread + i * kThreads;
      if (pack < kPacks) weights[i].load(weight + pack * kPack);
    }
  }

  __device__ __forceinline__ void store(float* filters, unsigned thread) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const unsigned pack = thread + i * kThreads;
      if (pack < kPacks) {
#pragma unroll
        for (int j = 0; j < kPack / 4; ++j) {
          *reinterpret_cast<float4*>(filters + pack * kPack + 4 * j) = weights[i].value(j);
        }
      }
    }
  }
};

// conv1 + ReLU + pool. image [kImages][kImageRows][kImageStride], filters [6][kFilter1Stride] -> patch [kImages][6][kPatch].
// A thread keeps one 6x6 window in registers and applies kChannels filters to it: 100 FMA each. The first kLanes lanes of each of
// kThreads / 32 warps work: 24 lanes let 96 items take one warp of each of the four schedulers.
template <int kBlocks, int kImages, int kThreads, int kLanes, int kChannels>
__device__ __forceinline__ void conv1_pool(const float* image, const float* filters, float* patch, unsigned thread) {
  using S = Share<kBlocks>;
  constexpr int kWindow = kFilterSide + kPool - 1;
  constexpr int kGroups = kConv1Channels / kChannels;
  constexpr int kItems = kImages * kGroups * S::kPatch;
  constexpr int kStep = kThreads / 32 * kLanes;
  if (kLanes < 32 && thread % 32 >= kLanes) return;
#pragma unroll 1
  for (unsigned item = thread / 32 * kLanes + thread % 32; item < kItems; item += kStep) {
    const unsigned position = item % S::kPatch;
    const unsigned group = item / S::kPatch % kGroups;
    const unsigned which = item / (S::kPatch * kGroups);
    const unsigned row = position / S::kPatchCols, col = position % S::kPatchCols;
    const float* source = image + (which * S::kImageRows + kPool * row) * S::kImageStride + kPool * col;
    float window[kWindow][kWindow];
#pragma unroll
    for (int y = 0; y < kWindow; ++y) {
#pragma unroll
      for (int x = 0; x < kWindow; x += 2) {
        const float2 pair = *reinterpret_cast<const float2*>(source + y * S::kImageStride + x);
        window[y][x] = pair.x;
        window[y][x + 1] = pair.y;
      }
    }
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      const unsigned channel = group * kChannels + c;
      float filter[kFilter1Stride];
#pragma unroll
      for (int i = 0; i < kFilter1Stride; i += 4) {
        const float4 quad = *reinterpret_cast<const float4*>(filters + channel * kFilter1Stride + i);
        filter[i] = quad.x, filter[i + 1] = quad.y, filter[i + 2] = quad.z, filter[i + 3] = quad.w;
      }
      float sum[kPool][kPool];
#pragma unroll
      for (int y = 0; y < kPool; ++y) {
#pragma unroll
        for (int x = 0; x < kPool; ++x) sum[y][x] = filter[kFilterTaps];
      }
#pragma unroll
      for (int tap = 0; tap < kFilterTaps; ++tap) {
#pragma unroll
        for (int y = 0; y < kPool; ++y) {
#pragma unroll
          for (int x = 0; x < kPool; ++x) {
            sum[y][x] = fmaf(window[y + tap / kFilterSide][x + tap % kFilterSide], filter[tap], sum[y][x]);
          }
        }
      }
      const float most = max_nan(max_nan(sum[0][0], sum[0][1]), max_nan(sum[1][0], sum[1][1]));
      patch[(which * kConv1Channels + channel) * S::kPatch + position] = relu_nan(most);
    }
    if (kItems <= kStep) break;
  }
}

// conv2 without bias, the six input channels split into kSplits partial sums; one item is kRows rows of one channel's outputs.
// patch [kImages][6][kPatch], filters [16][150] -> partial [kImages][kSplits][kConvRows][16][kConvCols].
// Lanes of a warp are output channels: their filters lie 150 words apart, which is free of bank conflicts, and they share the patch.
template <int kBlocks, int kImages, int kSplits, int kRows>
struct Conv2Item {
  using S = Share<kBlocks>;
  static constexpr int kDepth = kConv1Channels / kSplits;
  static constexpr int kTiles = S::kConvRows / kRows;
  static constexpr int kItems = kImages * kSplits * kTiles * kConv2Channels;

  const float* source;
  const float* filters;
  float* target;
  float filter[kFilterTaps];

  // Finds the item's place, and loads its first filter: all that does not need the patch.
  __device__ __forceinline__ void prepare(const float* patch, const float* weights, float* partial, unsigned item) {
    const unsigned channel = item % kConv2Channels;
    const unsigned tile = item / kConv2Channels % kTiles;
    const unsigned split = item / (kConv2Channels * kTiles) % kSplits;
    const unsigned which = item / (kConv2Channels * kTiles * kSplits);
    source = patch + (which * kConv1Channels + split * kDepth) * S::kPatch + tile * kRows * S::kPatchCols;
    filters = weights + channel * kConv2Taps + split * kDepth * kFilterTaps;
    target = partial +
             (((which * kSplits + split) * S::kConvRows + tile * kRows) * kConv2Channels + channel) * S::kConvCols;
    load_filter(0);
  }

  __device__ __forceinline__ void load_filter(int depth) {
#pragma unroll
    for (int tap = 0; tap < kFilterTaps; ++tap) filter[tap] = filters[depth * kFilterTaps + tap];
  }

  __device__ __forceinline__ void run() {
    float sum[kRows][S::kConvCols] = {};
#pragma unroll(kDepth <= 2 ? kDepth : 1)
    for (int depth = 0; depth < kDepth; ++depth) {
      if (depth > 0) load_filter(depth);
#pragma unroll
      for (int y = 0; y < kRows + kFilterSide - 1; ++y) {
        float row[S::kPatchCols];
#pragma unroll
        for (int x = 0; x < S::kPatchCols; x += 4) {
          const float4 quad = *reinterpret_cast<const float4*>(source + depth * S::kPatch + y * S::kPatchCols + x);
          row[x] = quad.x, row[x + 1] = quad.y, row[x + 2] = quad.z, row[x + 3] = quad.w;
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (y - r < 0 || y - r >= kFilterSide) continue;
#pragma unroll
          for (int kx = 0; kx < kFilterSide; ++kx) {
#pragma unroll
            for (int x = 0; x < S::kConvCols; ++x) {
              sum[r][x] = fmaf(row[x + kx], filter[(y - r) * kFilterSide + kx], sum[r][x]);
            }
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int x = 0; x < S::kConvCols; x += 4) {
        *reinterpret_cast<float4*>(target + r * kConv2Channels * S::kConvCols + x) =
            make_float4(sum[r][x], sum[r][x + 1], sum[r][x + 2], sum[r][x + 3]);
      }
    }
  }
};

// All items of conv2 by kThreads threads, numbered from 0.
template <int kBlocks, int kImages, int kThreads, int kSplits, int kRows>
__device__ __forceinline__ void conv2_partial(const float* patch, const float* filters, float* partial, unsigned thread) {
  using Item = Conv2Item<kBlocks, kImages, kSplits, kRows>;
#pragma unroll 1
  for (unsigned item = thread; item < Item::kItems; item += kThreads) {
    Item conv2;
    conv2.prepare(patch, filters, partial, item);
    conv2.run();
    if (Item::kItems <= kThreads) break;
  }
}

// Feature `element` (output channel, then row and column of the share) of image `which`: sum of the partial sums, bias, ReLU, pool.
template <int kBlocks, int kSplits>
__device__ __forceinline__ float pooled_feature(const float* partial, float bias, unsigned which, unsigned element) {
  using S = Share<kBlocks>;
  const unsigned col = element % S::kPoolCols;
  const unsigned row = element / S::kPoolCols % S::kPoolRows;
  const unsigned channel = element / (S::kPoolCols * S::kPoolRows);
  float sum[kPool][kPool] = {{bias, bias}, {bias, bias}};
#pragma unroll
  for (int split = 0; split < kSplits; ++split) {
#pragma unroll
    for (int y = 0; y < kPool; ++y) {
      const unsigned line = (which * kSplits + split) * S::kConvRows + kPool * row + y;
      const float2 pair =
          *reinterpret_cast<const float2*>(partial + (line * kConv2Channels + channel) * S::kConvCols + kPool * col);
      sum[y][0] += pair.x;
      sum[y][1] += pair.y;
    }
  }
  return relu_nan(max_nan(max_nan(sum[0][0], sum[0][1]), max_nan(sum[1][0], sum[1][1])));
}

}  // namespace lenet5
