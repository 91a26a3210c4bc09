// Geometry of LeNet-5 and who computes which images, shared by every variant of the whole-network kernel `lenet5`.
//
//   x [n, 1, 28, 28] -> conv1 6@5x5 + ReLU [n, 6, 24, 24] -> maxpool 2 [n, 6, 12, 12]
//                    -> conv2 16@5x5 + ReLU [n, 16, 8, 8] -> maxpool 2 [n, 16, 4, 4]
//                    -> flatten [n, 256] -> fc1 + ReLU [n, 120] -> fc2 + ReLU [n, 84] -> fc3 y [n, 10]
//
// Weights are the plain row-major tensors of the torch model: convolutions [out, in, 5, 5], linear layers [out, in].
#pragma once

namespace lenet5 {

constexpr int kImageSide = 28;
constexpr int kImagePixels = kImageSide * kImageSide;  // 784

constexpr int kFilterSide = 5;
constexpr int kFilterTaps = kFilterSide * kFilterSide;  // 25, of one input channel
constexpr int kPool = 2;

constexpr int kConv1Channels = 6;
constexpr int kConv1Side = kImageSide - kFilterSide + 1;  // 24
constexpr int kPool1Side = kConv1Side / kPool;            // 12
constexpr int kPool1Pixels = kPool1Side * kPool1Side;     // 144

constexpr int kConv2Channels = 16;
constexpr int kConv2Taps = kConv1Channels * kFilterTaps;  // 150, of one output
constexpr int kConv2Side = kPool1Side - kFilterSide + 1;  // 8
constexpr int kPool2Side = kConv2Side / kPool;            // 4
constexpr int kPool2Pixels = kPool2Side * kPool2Side;     // 16

constexpr int kFeatures = kConv2Channels * kPool2Pixels;  // 256
constexpr int kFc1 = 120;
constexpr int kFc2 = 84;
constexpr int kClasses = 10;

template <typename T>
struct Weights {
  const T *conv1, *conv1_bias, *conv2, *conv2_bias, *fc1, *fc1_bias, *fc2, *fc2_bias, *fc3, *fc3_bias;
};

struct BlockImages {
  long long first;
  int count;
};

// The block's images, an equal share of n for any grid: the last blocks may have fewer, or none.
__device__ __forceinline__ BlockImages images_of_block(int n) {
  const int share = (n - 1) / static_cast<int>(gridDim.x) + 1;
  const long long first = static_cast<long long>(blockIdx.x) * share;
  return {first, static_cast<int>(first >= n ? 0 : n - first < share ? n - first : share)};
}

}  // namespace lenet5
