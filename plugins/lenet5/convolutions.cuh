// The two convolution + ReLU + max-pool stages of LeNet-5 on one block's share of the image, for the small-batch variants.
//
// kBlocks blocks share an image (1, 2, 4 or 8): each owns 16 / kBlocks neighbouring outputs of the second pool, for all
// 16 channels, and computes the patch of the first pool that they need by itself. The patches overlap (8 blocks compute
// 8 * 48 of the first pool's 144 positions, 2.7 times the work), which costs less than one exchange between blocks.
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

  __device__ static unsigned image_row(unsigned rank) { return rank / kColParts * kPoolRows * kPool * kPool; }
  __device__ static unsigned image_col(unsigned rank) { return rank % kColParts * kPoolCols * kPool * kPool; }
};

constexpr int kFilter1Stride = 28;  // 25 taps, the bias, padding to whole 16-byte words

template <typename T>
__device__ __forceinline__ float rounded(float value) {
  return to_float(from_float<T>(value));
}

// Brings a block's images and the convolutions' weights to shared memory as float: global loads first, stores when there is
// time. The image is loaded by the first threads; kStagers threads, counted from the last one, load the weights.
template <typename TX, typename T, int kBlocks, int kImages, int kThreads, int kStagers>
struct Staging {
  using S = Share<kBlocks>;
  static constexpr int kQuads = S::kImageCols / 4;
  static constexpr int kImageQuads = kImages * S::kImageRows * kQuads;
  static constexpr int kImageLoads = (kImageQuads + kThreads - 1) / kThreads;
  static constexpr int kWeights1 = kConv1Channels * kFilterTaps;
  static constexpr int kLoads1 = (kWeights1 + kConv1Channels + kStagers - 1) / kStagers;
  static constexpr int kPack = Pack16<T>::kCount;
  static constexpr int kPacks2 = kConv2Channels * kConv2Taps / kPack;
  static constexpr int kLoads2 = (kPacks2 + kStagers - 1) / kStagers;

  Quad<TX> pixels[kImageLoads];
  T weights1[kLoads1];
  uint4 weights2[kLoads2];

  // Images first_image, first_image + 1, ... of n; the patch of each that block `rank` needs.
  __device__ __forceinline__ void load_images(const TX* x, int first_image, int n, unsigned rank, unsigned thread) {
#pragma unroll
    for (int i = 0; i < kImageLoads; ++i) {
      const unsigned quad = thread + i * kThreads;
      if (quad < kImageQuads) {
        const unsigned row = quad / kQuads % S::kImageRows, col = quad % kQuads * 4;
        const int which = first_image + quad / (kQuads * S::kImageRows);
        pixels[i].clear();
        if (which < n) {
          pixels[i].load(x + static_cast<long long>(which) * kImagePixels +
                         ((S::image_row(rank) + row) * kImageSide + S::image_col(rank) + col));
        }
      }
    }
  }

  __device__ __forceinline__ void load_weights(const T* weight1, const T* bias1, const T* weight2, unsigned thread) {
    const unsigned stager = kThreads - 1 - thread;
    if (stager >= kStagers) return;
#pragma unroll
    for (int i = 0; i < kLoads1; ++i) {
      const unsigned element = stager + i * kStagers;
      if (element < kWeights1) {
        weights1[i] = early(weight1 + element);
      } else if (element < kWeights1 + kConv1Channels) {
        weights1[i] = early(bias1 + (element - kWeights1));
      }
    }
#pragma unroll
    for (int i = 0; i < kLoads2; ++i) {
      const unsigned pack = stager + i * kStagers;
      if (pack < kPacks2) weights2[i] = early16(weight2 + pack * kPack);
    }
  }

  // image [kImages][kImageRows][kImageStride], filters [6][kFilter1Stride] with the bias after the taps.
  __device__ __forceinline__ void store_conv1(float* image, float* filters, unsigned thread) const {
#pragma unroll
    for (int i = 0; i < kImageLoads; ++i) {
      const unsigned quad = thread + i * kThreads;
      if (quad < kImageQuads) {
        const float4 value = pixels[i].value();
        *reinterpret_cast<float4*>(image + quad / kQuads * S::kImageStride + quad % kQuads * 4) =
            make_float4(rounded<T>(value.x), rounded<T>(value.y), rounded<T>(value.z), rounded<T>(value.w));
      }
    }
    const unsigned stager = kThreads - 1 - thread;
    if (stager >= kStagers) return;
#pragma unroll
    for (int i = 0; i < kLoads1; ++i) {
      const unsigned element = stager + i * kStagers;
      if (element < kWeights1 + kConv1Channels) {
        filters[element < kWeights1 ? element / kFilterTaps * kFilter1Stride + element % kFilterTaps
                                    : (element - kWeights1) * kFilter1Stride + kFilterTaps] = to_float(weights1[i]);
      }
    }
  }

  // filters [16][150], as in global memory.
  __device__ __forceinline__ void store_conv2(float* filters, unsigned thread) const {
    const unsigned stager = kThreads - 1 - thread;
    if (stager >= kStagers) return;
#pragma unroll
    for (int i = 0; i < kLoads2; ++i) {
      const unsigned pack = stager + i * kStagers;
      if (pack < kPacks2) {
        const Pack16<T> values = pack_from_bits<T>(weights2[i]);
#pragma unroll
        for (int j = 0; j < kPack; j += 4) {
          *reinterpret_cast<float4*>(filters + pack * kPack + j) =
              make_float4(to_float(values.value[j]), to_float(values.value[j + 1]), to_float(values.value[j + 2]),
                          to_float(values.value[j + 3]));
        }
      }
    }
  }
};

// conv1 + ReLU + pool. image [kImages][kImageRows][kImageStride], filters [6][kFilter1Stride] -> patch [kImages][6][kPatch].
// A thread keeps one 6x6 window in registers and applies kChannels filters to it: 100 FMA each.
template <int kBlocks, int kImages, int kThreads, int kChannels>
__device__ __forceinline__ void conv1_pool(const float* image, const float* filters, float* patch, unsigned thread) {
  using S = Share<kBlocks>;
  constexpr int kWindow = kFilterSide + kPool - 1;
  constexpr int kGroups = kConv1Channels / kChannels;
  constexpr int kItems = kImages * kGroups * S::kPatch;
#pragma unroll 1
  for (unsigned item = thread; item < kItems; item += kThreads) {
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
  }
}

// conv2 without bias, the six input channels split into kSplits partial sums. A thread makes kRows rows of one channel's outputs.
// patch [kImages][6][kPatch], filters [16][150] -> partial [kImages][kSplits][kConvRows][16][kConvCols].
// Lanes of a warp are output channels: their filters lie 150 words apart, which is free of bank conflicts, and they share the patch.
template <int kBlocks, int kImages, int kThreads, int kSplits, int kRows>
__device__ __forceinline__ void conv2_partial(const float* patch, const float* filters, float* partial, unsigned thread) {
  using S = Share<kBlocks>;
  constexpr int kDepth = kConv1Channels / kSplits;
  constexpr int kTiles = S::kConvRows / kRows;
  constexpr int kItems = kImages * kSplits * kTiles * kConv2Channels;
#pragma unroll 1
  for (unsigned item = thread; item < kItems; item += kThreads) {
    const unsigned channel = item % kConv2Channels;
    const unsigned tile = item / kConv2Channels % kTiles;
    const unsigned split = item / (kConv2Channels * kTiles) % kSplits;
    const unsigned which = item / (kConv2Channels * kTiles * kSplits);
    float sum[kRows][S::kConvCols] = {};
#pragma unroll(kDepth <= 2 ? kDepth : 1)
    for (int d = 0; d < kDepth; ++d) {
      const unsigned input = split * kDepth + d;
      const float* source =
          patch + (which * kConv1Channels + input) * S::kPatch + tile * kRows * S::kPatchCols;
      float filter[kFilterTaps];
#pragma unroll
      for (int tap = 0; tap < kFilterTaps; ++tap) {
        filter[tap] = filters[channel * kConv2Taps + input * kFilterTaps + tap];
      }
#pragma unroll
      for (int y = 0; y < kRows + kFilterSide - 1; ++y) {
        float row[S::kPatchCols];
#pragma unroll
        for (int x = 0; x < S::kPatchCols; x += 4) {
          const float4 quad = *reinterpret_cast<const float4*>(source + y * S::kPatchCols + x);
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
      const unsigned line = (which * kSplits + split) * S::kConvRows + tile * kRows + r;
      float* target = partial + (line * kConv2Channels + channel) * S::kConvCols;
#pragma unroll
      for (int x = 0; x < S::kConvCols; x += 4) {
        *reinterpret_cast<float4*>(target + x) = make_float4(sum[r][x], sum[r][x + 1], sum[r][x + 2], sum[r][x + 3]);
      }
    }
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
