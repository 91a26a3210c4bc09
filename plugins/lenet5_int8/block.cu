// LeNet-5 with Q/DQ in one launch, for few images: a block computes 1, 2 or 4 images layer by layer, see parts.cuh.
//
// x [n, 1, 28, 28] TX (int8: quantized pixels, or float), weights and numbers as fragments.py arranges them -> y [n, 10] float.
//
// Mapping. All activations are in shared memory, and a barrier ends each layer. conv1: a warp a tile of 16 windows; conv2: a warp a
// group of eight pooled outputs of an image. Linear layers: the weights are the 16-row operand, the images its columns, so that
// eight images cost what one costs; a warp has 16 outputs. A warp loads the weights of its next layer before it computes this one.
//
// Bytes: 784 read (int8) and 40 written per image, 56 KB of weights per block from L2.
// What was tried and measured: docs/kernels/lenet5_int8.md.
#include "lenet5_int8/parts.cuh"

using TX = TYPE_TX;

namespace lenet5_int8 {

constexpr int kThreads = 256, kWarps = kThreads / kLanes;
constexpr int kColumns = 8;  // images that a product has room for
constexpr int kFeatureStride = kFeatures + kUnitBytes;  // odd numbers of units, so that eight rows share no bank
constexpr int kHidden1Stride = kFc1Tiles * kTileOutputs + kUnitBytes;
constexpr int kHidden2Stride = kFc2Tiles * kTileOutputs + kUnitBytes;

// A piece of 16 bytes of the quantized images.
__device__ __forceinline__ uint4 load_pixels(const signed char* x, int piece, float, float) {
  return __ldg(reinterpret_cast<const uint4*>(x) + piece);
}
__device__ __forceinline__ uint4 load_pixels(const float* x, int piece, float scale, float inverse) {
  const float4* source = reinterpret_cast<const float4*>(x) + piece * 4;
  const float4 a = __ldg(source), b = __ldg(source + 1), c = __ldg(source + 2), d = __ldg(source + 3);
  return make_uint4(quantized(a, scale, inverse), quantized(b, scale, inverse), quantized(c, scale, inverse), quantized(d, scale, inverse));
}

// A warp's 16 outputs of a linear layer.
template <int kSteps>
struct Dense {
  unsigned weight[4 * kSteps] = {};
  float2 pair[2] = {};  // of outputs lane / 4 and lane / 4 + 8

  __device__ __forceinline__ void load(const signed char* weights, const float* numbers, int first, int pairs, int tile, int lane) {
    load_quads<kSteps>(weight, weights, first + tile * kSteps, lane);
    const float2* source = reinterpret_cast<const float2*>(numbers + pairs) + tile * kTileOutputs + lane / 4;
    pair[0] = __ldg(source);
    pair[1] = __ldg(source + 8);
  }

  // sum[i] is output lane / 4 + 8 * (i / 2) of image lane % 4 * 2 + i % 2. Images that are not there repeat the last one.
  template <int kStride>
  __device__ __forceinline__ void multiply(int (&sum)[4], unsigned rows, int images, const int4& start, int lane) const {
    // Four matrices of eight rows of 16 bytes: two steps.
    const unsigned source = rows + min(lane & 7, images - 1) * kStride + (lane >> 3) * kUnitBytes;
    int odd[4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
      unsigned b[4];
      if (step + 1 < kSteps) {
        load_matrices(b, source + step * kStepInputs);
      } else {
        unsigned last[2];
        load_matrices(last, source + step * kStepInputs);
        b[0] = last[0];
        b[1] = last[1];
      }
      const unsigned* w = weight + 4 * step;
      if (step == 0) {
        int8::multiply(sum, start, w[0], w[1], w[2], w[3], b[0], b[1]);
      } else {
        multiply_add(sum, w[0], w[1], w[2], w[3], b[0], b[1]);
      }
      if (step + 1 < kSteps) multiply_add(odd, w[4], w[5], w[6], w[7], b[2], b[3]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += odd[i];
  }
};

// The next layer's inputs: rows of images.
template <int kStride>
__device__ __forceinline__ void store_hidden(unsigned rows, const int (&sum)[4], const float2 (&pair)[2], int images, int tile, int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int image = lane % 4 * 2 + i % 2;
    const int value = requantized(sum[i], scale_of(pair[i / 2]));
    if (image < images) store_byte(rows + image * kStride + tile * kTileOutputs + lane / 4 + i / 2 * 8, value);
  }
}

template <int kImages>
__device__ __forceinline__ void block_forward(const TX* __restrict__ x, const signed char* __restrict__ weights,
                                              const float* __restrict__ numbers, int n, float* __restrict__ y) {
  constexpr int kConv1Tasks = kImages * kConv1TilesAnImage, kConv2Tasks = kImages * kConv2Groups;
  constexpr int kPiecesAnImage = kImagePixels / 16, kPieces = kImages * kPiecesAnImage;
  constexpr bool kApart = kConv1Tasks + kConv2Tasks <= kWarps;
  static_assert(kConv2Tasks <= kWarps && kFc1Tiles <= kWarps && kImages <= kColumns, "a warp a task");
  __shared__ __align__(16) unsigned char pixels[kImages * kImageBytes];
  __shared__ __align__(16) unsigned char maps[kImages * kMapBytes];
  __shared__ __align__(16) unsigned char features[kImages * kFeatureStride];
  __shared__ __align__(16) unsigned char hidden1[kImages * kHidden1Stride];
  __shared__ __align__(16) unsigned char hidden2[kImages * kHidden2Stride];

  const int thread = threadIdx.x, lane = thread % kLanes, warp = warp_of(thread);
  const long long first = static_cast<long long>(blockIdx.x) * kImages;
  const int images = static_cast<int>(n - first < kImages ? n - first : kImages);
  x += first * kImagePixels;
  y += first * kClasses;
  const int4 start = first_sums();

  // Conv2's tasks begin at the last warp, so that one image's two convolutions have warps of their own.
  const int task2 = kWarps - 1 - warp;
  const bool has1 = warp < kConv1Tasks, has2 = task2 < images * kConv2Groups;
  const float x_scale = __ldg(numbers), x_inverse = __ldg(numbers + 1);
#pragma unroll
  for (int begin = 0; begin < kPieces; begin += kThreads) {
    const int piece = begin + thread;
    if (piece < images * kPiecesAnImage) {
      const int image = piece / kPiecesAnImage;
      *reinterpret_cast<uint4*>(pixels + image * (kImageBytes - kImagePixels) + piece * 16) = load_pixels(x, piece, x_scale, x_inverse);
    }
  }
  // Registers for the weights of both convolutions, or, where no warp does both, for those of either.
  unsigned weight2[4 * kConv2Quads] = {}, only1[kApart ? 1 : 4 * kConv1Quads] = {};
  unsigned* const weight1 = kApart ? weight2 : only1;
  Scale scale1[kConv1Tiles] = {}, scale2[2] = {};
  if (has1) {
    load_quads<kConv1Quads>(weight1, weights, 0, lane);
    load_conv1_scales(scale1, numbers, lane);
  }
  if (has2) {
    load_quads<kConv2Quads>(weight2, weights, kConv2First, lane);
    scale2[0] = scale_of(numbers, kConv2Pairs + 2 * (lane / 4));
    scale2[1] = scale_of(numbers, kConv2Pairs + 2 * (lane / 4 + 8));
  }
  Dense<kFc1Steps> fc1;
  Dense<kFc2Steps> fc2;
  Dense<kFc3Steps> fc3;
  if constexpr (kApart) {  // there are registers for everything
    fc1.load(weights, numbers, kFc1First, kFc1Pairs, warp, lane);
    if (warp < kFc2Tiles) fc2.load(weights, numbers, kFc2First, kFc2Pairs, warp, lane);
    if (warp == 0) fc3.load(weights, numbers, kFc3First, kFc3Pairs, 0, lane);
  }
  __syncthreads();

  const Conv1Lane at1 = conv1_lane(lane);
#pragma unroll 1
  for (int task = warp; task < images * kConv1TilesAnImage; task += kWarps) {
    const int image = task / kConv1TilesAnImage, tile = task % kConv1TilesAnImage;
    const int low = 2 * tile, high = min(low + 1, kConv1Halves - 1);  // the last half is computed twice
    conv1_halves(shared_address(maps + image * kMapBytes), shared_address(pixels + image * kImageBytes), at1, low, high, weight1, scale1,
                 start);
  }
  if constexpr (!kApart) fc1.load(weights, numbers, kFc1First, kFc1Pairs, warp, lane);
  __syncthreads();

  if (has2) {
    const int image = task2 / kConv2Groups, group = task2 % kConv2Groups;
    const Conv2Lane at2 = conv2_lane(lane);
    const unsigned map = shared_address(maps + image * kMapBytes) + group * kGroupBytes;
    int sum[kPool][kPool][4];
#pragma unroll
    for (int row = 0; row < kConv2Rows; ++row) {
      conv2_row(sum, row, map + at2.first + row * kMapRow, map + at2.last + row * kMapRow, weight2, start);
    }
    const unsigned target = shared_address(features + image * kFeatureStride) + (lane / 4 * 4 + lane % 4) * kWord + group * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      store_two(target + half * 8 * kPool2Pixels,
                bytes(conv2_pooled(sum, 2 * half, scale2[half]), conv2_pooled(sum, 2 * half + 1, scale2[half])));
    }
  }
  if constexpr (!kApart) {
    if (warp < kFc2Tiles) fc2.load(weights, numbers, kFc2First, kFc2Pairs, warp, lane);
    if (warp == 0) fc3.load(weights, numbers, kFc3First, kFc3Pairs, 0, lane);
  }
  __syncthreads();

  int sum[4];
  fc1.multiply<kFeatureStride>(sum, shared_address(features), images, start, lane);
  store_hidden<kHidden1Stride>(shared_address(hidden1), sum, fc1.pair, images, warp, lane);
  __syncthreads();
  if (warp < kFc2Tiles) {
    fc2.multiply<kHidden1Stride>(sum, shared_address(hidden1), images, start, lane);
    store_hidden<kHidden2Stride>(shared_address(hidden2), sum, fc2.pair, images, warp, lane);
  }
  __syncthreads();
  if (warp != 0) return;
  fc3.multiply<kHidden2Stride>(sum, shared_address(hidden2), images, start, lane);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int image = lane % 4 * 2 + i % 2, logit = lane / 4 + i / 2 * 8;
    if (image < images && logit < kClasses) y[image * kClasses + logit] = fmaf(sum_of(sum[i]), fc3.pair[i / 2].x, fc3.pair[i / 2].y);
  }
}

}  // namespace lenet5_int8

#define LENET5_INT8_BLOCK(NAME, IMAGES, BLOCKS)                                                                                          \
  ASSERT_LAUNCH(NAME, lenet5_int8::kThreads, 0);                                                                                 \
  extern "C" __global__ void __launch_bounds__(lenet5_int8::kThreads, BLOCKS)                                                         \
      NAME(const TX* __restrict__ x, const signed char* __restrict__ weights, const float* __restrict__ numbers, int n,          \
           float* __restrict__ y) {                                                                                              \
    lenet5_int8::block_forward<IMAGES>(x, weights, numbers, n, y);                                                               \
  }

// Images a block, blocks a multiprocessor.
LENET5_INT8_BLOCK(lenet5_int8_block1, 1, 1)
LENET5_INT8_BLOCK(lenet5_int8_block2, 2, 2)
LENET5_INT8_BLOCK(lenet5_int8_block4, 4, 2)
