// LeNet-5 in one launch, float32 in and out at float32 accuracy from tensor cores: y = LeNet5(x), layers in lenet5.cuh.
//
// x [n, 1, 28, 28], ten weights as torch stores them -> y [n, 10], all float.
//
// Convolutions and fc1: a number is the sum of two fp16 numbers, so a b = high high + high low + low high + (2^-22), three products
// with float sums; fc2 and fc3 do the same in tf32. Powers of two bring numbers into fp16's range: pixels by the image's largest pixel,
// the map by a bound, features by the image's largest feature, weights by the largest weight of their row. split_numbers.cuh says why
// this is accurate and for which images; image_exact computes all other images again in plain float, in the same launch.
//
// Mapping: as in tensor_core.cu, with high and low parts of windows, map and features in shared memory.
//
// Bytes: 3136 read and 40 written per image, 164 KB of linear weights from L2 per round of kRound images.
// What was tried and measured: docs/kernels/lenet5.md.

// split_99k.cu is this file with other values: six warps and features of 16 images.
#ifndef LENET5_ENTRY
#define LENET5_ENTRY lenet5_split
#define LENET5_WARPS 16
#define LENET5_TILES 2
#endif

#include "common.cuh"
#include "lenet5/exact.cuh"
#include "lenet5/images.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/linear_split.cuh"
#include "lenet5/split_convolutions.cuh"

using TX = TYPE_TX;
using T = TYPE_T;
using TY = TYPE_TY;
static_assert(sizeof(TX) == 4 && sizeof(T) == 4 && sizeof(TY) == 4, "everything is float32");

namespace lenet5 {

static_assert(kExactFloats * 4 <= kWarpMapBytes, "image_exact works in a warp's map");
ASSERT_LAUNCH(LENET5_ENTRY, kThreads, kSharedBytes);

// ---- who does what in the linear layers ------------------------------------------------------------------------------------

constexpr int kColumns1 = 16;  // column tiles of eight: 128 columns, of which fc2 multiplies the last eight by zero
constexpr int kColumns2 = 12;  // 96, of which fc3 multiplies the last twelve by zero

}  // namespace lenet5

extern "C" __global__ void __launch_bounds__(lenet5::kThreads, 1)
    LENET5_ENTRY(const TX* __restrict__ x, const T* __restrict__ conv1_weight, const T* __restrict__ conv1_bias,
                 const T* __restrict__ conv2_weight, const T* __restrict__ conv2_bias, const T* __restrict__ fc1_weight,
                 const T* __restrict__ fc1_bias, const T* __restrict__ fc2_weight, const T* __restrict__ fc2_bias,
                 const T* __restrict__ fc3_weight, const T* __restrict__ fc3_bias, int n, TY* __restrict__ y) {
  using namespace lenet5;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  const unsigned shared = shared_address(shared_bytes);
  const int thread = threadIdx.x, lane = thread % kLanes, warp = warp_of(thread);
  const auto [first, count] = images_of_block(n);
  if (count == 0) return;
  x += first * kImagePixels;
  y += first * kClasses;

  const unsigned windows = shared + kImageOffset + warp * kImageBytes, map = shared + kMapOffset + warp * kWarpMapBytes;
  ImageFetch<float> fetch;
  fetch.init(at<float>(windows), at<void>(shared + kBarrierOffset + warp * 8), lane);
  const unsigned raw2 = shared + kMapOffset, raw1 = raw2 + kConv2Channels * kConv2Taps * 4;  // where the maps will be
  copy_block<16, kConv2Channels * kConv2Taps * 4, kThreads>(at<unsigned char>(raw2), conv2_weight, thread);
  copy_block<4, kConv1Channels * kFilterTaps * 4, kThreads>(at<unsigned char>(raw1), conv1_weight, thread);
  copy_block<4, kConv1Channels * 4, kThreads>(at<unsigned char>(shared + kBias1), conv1_bias, thread);
  copy_block<4, kConv2Channels * 4, kThreads>(at<unsigned char>(shared + kBias2), conv2_bias, thread);
  copy_async_commit();
  if (warp < count) fetch.start(x + static_cast<long long>(warp) * kImagePixels, lane);
  copy_block<4, kFc1 * 4, kThreads>(at<unsigned char>(shared + kBiasFc1), fc1_bias, thread);
  copy_block<4, kFc2 * 4, kThreads>(at<unsigned char>(shared + kBiasFc2), fc2_bias, thread);
  copy_block<4, kClasses * 4, kThreads>(at<unsigned char>(shared + kBiasFc3), fc3_bias, thread);
  copy_async_commit();
  constexpr int kLine = 128 / static_cast<int>(sizeof(T));
  for (int line = blockIdx.x + gridDim.x * thread; line < kFc1 * kFeatures / kLine; line += gridDim.x * kThreads) {
    prefetch_l2(fc1_weight + line * kLine);
    if (line < kFc2 * kFc1 / kLine) prefetch_l2(fc2_weight + line * kLine);
    if (line < kClasses * kFc2 / kLine) prefetch_l2(fc3_weight + line * kLine);
  }

  copy_async_wait<1>();
  __syncthreads();
  const unsigned sums = shared + kSumOffset, rows1 = shared + kRows1Offset, rows2 = shared + kRows2Offset;
  find_rows(rows1, rows2, sums, raw1, raw2, warp, lane);
  if (thread < kConv1Channels) {
    const float bias = *at<float>(shared + kBias1 + thread * 4);
    *at<float4>(shared + kBias1Quads + thread * 16) = make_float4(bias, bias, bias, bias);
  }
  __syncthreads();
  if (warp == kWarps - 1) {
    const Limits limits = find_limits(at<signed char>(rows1), at<signed char>(rows2), lane);
    if (lane == 0) *at<Limits>(shared + kLimitsOffset) = limits;
  }
  for (int index = warp; index < kConv1Fragments; index += kWarps) {
    const int tile = index < kConv1Taps2 ? index / 4 : index - kConv1Taps2;
    store_fragment(shared + kConv1Offset, kConv1Part, index, lane, conv1_fragment(at<float>(raw1), index, lane),
                   *at<signed char>(rows1 + conv1_channel(tile, lane / 4)));
  }
  static_assert(kWarps % 2 == 0, "a warp's fragments belong to the same half of the channels");
  const int exponent2 = *at<signed char>(rows2 + lane / 4 + warp % 2 * 8);
  for (int index = warp; index < kConv2Fragments; index += kWarps) {
    const bool paired = index < kConv2Pairs;
    const int ky = paired ? index / 8 : (index - kConv2Pairs) / 2, kx = paired ? pair_kx(index) : 2;
    store_fragment(shared + kConv2Offset, kConv2Part, index, lane, conv2_fragment(at<float>(raw2), ky, kx, index % 2, lane), exponent2);
  }
  __syncthreads();

  const unsigned features = shared + kFeatureOffset, scales = shared + kScaleOffset, trusted = shared + kTrustedOffset;
  const unsigned exact = shared + kExactOffset, hidden1 = shared + kHidden1Offset, hidden2 = shared + kHidden2Offset;
  const unsigned rows03 = window_rows03(lane), rows14 = window_rows14(lane);
  const unsigned columns0314 = map_columns0314(lane), columns25 = map_columns25(lane);
  const unsigned weights1 = shared + kConv1Offset, weights2 = shared + kConv2Offset;

  int exponent_fc1 = 0;

#pragma unroll 1
  for (int base = 0; base < count; base += kRound) {
    const int images = min(count - base, kRound);
#pragma unroll 1
    for (int image = warp; image < images; image += kWarps) {
      const int next = base + (image + kWarps < images ? image + kWarps : kRound + warp);
      const float* next_image = x + static_cast<long long>(next) * kImagePixels;
      if (next < count) prefetch_image(next_image, lane);
      fetch.wait();
      Pixels pixels;
      load_pixels(pixels, windows, lane);
      // Every channel of the map lies in [0, bound1], so its scale follows from the largest pixel alone.
      const float channel_bias = *at<float>(shared + kBias1 + lane % kConv1Channels * 4);
      const float bound1 = warp_max(relu_nan(fmaf(pixels.most, *at<float>(sums + lane % kConv1Channels * 4), channel_bias)));
      const bool blank = pixels.most == 0.0f;
      const int exponent0 = blank ? 0 : kTopExponent - exponent_above(pixels.most);
      const int exponent1 = bound1 == 0.0f ? 0 : kTopExponent - 1 - exponent_above(bound1);
      const Limits limits = *at<Limits>(shared + kLimitsOffset);
      const bool in_range = blank || (__float_as_uint(pixels.most) >= kSmallestBits && __float_as_uint(pixels.most) <= kLargestBits);
      const bool fits = in_range && bound1 <= kLargestBound && exponent0 <= limits.most_pixel &&
                        exponent1 - exponent0 >= limits.least_step && exponent1 <= limits.most_map;
      __syncwarp();  // every lane has read what the windows overwrite
      if (fits) {
        build_windows(windows, pixels, power_of_two(exponent0), window_store(anew(lane)));
        __syncwarp();
        float4 bias[kConv1Tiles];
        float scale[kConv1Tiles];
        load_bias(bias, shared + kBias1Quads, lane);
#pragma unroll
        for (int j = 0; j < kConv1Tiles; ++j) {
          const int exponent = kTopWeight - at<signed char>(rows1 + (lane >> 1 & 1) * 3)[j] + exponent0;  // of the sums
          const float up = power_of_two(exponent);
          bias[j] = make_float4(bias[j].x * up, bias[j].y * up, bias[j].z * up, bias[j].w * up);
          scale[j] = power_of_two(min(exponent1 - exponent, kScaleLimit));  // the least only where all sums are negative
        }
        conv1_pool(map, windows, weights1, scale, bias, rows03, rows14, lane);
      }
      __syncwarp();
      if (next < count) fetch.start(next_image, lane);
      float scale = nan();  // the logits will say that this image needs the exact path
      if (fits) {
        const float* bias2 = at<float>(shared + kBias2 + lane / 4 * 4);
        const float bias[2] = {bias2[0], bias2[8]};
        float sum_scale[2], value[2][kConv2Groups][2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          sum_scale[half] = power_of_two(at<signed char>(rows2 + lane / 4)[8 * half] - kTopWeight - exponent1);
        }
        conv2_pool(value, map, weights2, sum_scale, bias, columns0314, columns25, lane);
        scale = store_features(features + image * kFeatureStride * 2, value, limits.least_feature - exponent1, bound1 == 0.0f, lane);
      }
      if (lane == 0) {
        *at<float>(scales + image * 4) = scale;
        *at<unsigned char>(trusted + image) = 0;
      }
    }
    if (base == 0) copy_async_wait<0>();

    const int tiles = ceil_div(images, kRowsATile);
    // The first column tile of a warp, for sixteen warps the only one, is loaded before the barrier.
    Fc1 fc1 = {};
    fc1.exponent = exponent_fc1;
    if (warp < kFc1 / 8) fc1.load(fc1_weight, warp * 8, kWarps >= kColumns1 && base > 0, lane);
    exponent_fc1 = fc1.exponent;
    Linear<kFc1, kFc2> fc2;
    fc2.load(fc2_weight, warp * 8, lane);
    __syncthreads();
    for (int column = warp; column < kColumns1; column += kWarps) {
      if (column != warp && column < kFc1 / 8) fc1.load(fc1_weight, column * 8, false, lane);
      for (int tile = 0; tile < tiles; ++tile) {
        float value[4] = {};
        const int row = tile * kRowsATile;
        const float scale[2] = {at<float>(scales + (row + lane / 4) * 4)[0], at<float>(scales + (row + lane / 4) * 4)[8]};
        if (column < kFc1 / 8) {
          fc1.multiply<kFeaturePart>(value, features + row * kFeatureStride * 2, lane);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const bool full = value[2 * half] >= kTrustedSum || value[2 * half + 1] >= kTrustedSum;
            if (full || scale[half] == 0.0f) *at<unsigned char>(trusted + row + lane / 4 + 8 * half) = 1;
          }
          fc1.unscale(value, lane);
        }
        store_hidden<kFc1>(hidden1 + row * kHidden1Stride * 4, kHidden1Stride, value, shared + kBiasFc1,
                           scale, column * 8, lane);
      }
      if (kWarps >= kColumns1) break;
    }
    __syncthreads();
    for (int column = warp; column < kColumns2; column += kWarps) {
      if (column != warp) fc2.load(fc2_weight, column * 8, lane);
      fc2.refuse_tiny();
      for (int tile = 0; tile < tiles; ++tile) {
        float value[4];
        const int row = tile * kRowsATile;
        const float one[2] = {1.0f, 1.0f};
        fc2.multiply<kHidden1Stride>(value, hidden1 + row * kHidden1Stride * 4, lane);
        store_hidden<kFc2>(hidden2 + row * kHidden2Stride * 4, kHidden2Stride, value, shared + kBiasFc2,
                           one, column * 8, lane);
      }
      if (kWarps >= kColumns2) break;
    }
    const int column_tile = warp % 2;
    Linear<kFc2, kClasses> fc3;
    fc3.load(fc3_weight, column_tile * 8, lane);
    if (thread < kRound) *at<unsigned char>(exact + thread) = 0;
    __syncthreads();
    bool good = true;
    if (warp < 2 * tiles) {
      fc3.refuse_tiny();
      const int row = warp / 2 * kRowsATile, column = column_tile * 8 + lane % 4 * 2;
      float value[4];
      fc3.multiply<kHidden2Stride>(value, hidden2 + row * kHidden2Stride * 4, lane);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int image = row + lane / 4 + 8 * half;
        if (image >= images || column >= kClasses) continue;
        const float* bias = at<float>(shared + kBiasFc3 + column * 4);
        const float2 logits = make_float2(value[2 * half] + bias[0], value[2 * half + 1] + bias[1]);
        *reinterpret_cast<float2*>(y + static_cast<long long>(base + image) * kClasses + column) = logits;
        if (!(accurate(logits.x) && accurate(logits.y) && *at<unsigned char>(trusted + image))) {
          good = false;
          *at<unsigned char>(exact + image) = 1;
        }
      }
    }
    if (__syncthreads_or(!good)) {
      const Weights<T> weights = {conv1_weight, conv1_bias, conv2_weight, conv2_bias, fc1_weight,
                                  fc1_bias,     fc2_weight, fc2_bias,     fc3_weight, fc3_bias};
#pragma unroll 1
      for (int image = warp; image < images; image += kWarps) {
        if (!*at<unsigned char>(exact + image)) continue;
        const long long which = base + image;
        image_exact(y + which * kClasses, x + which * kImagePixels, weights, at<float>(map), lane);
      }
      __syncthreads();
    }
  }
}
