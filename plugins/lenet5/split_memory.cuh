// What a block of lenet5_split has in shared memory, for LENET5_WARPS warps and features of LENET5_TILES tiles of images; offsets in bytes.
#pragma once

#include "lenet5/images.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/split_numbers.cuh"
#include "lenet5/tensor_core.cuh"

namespace lenet5 {

constexpr int kWarps = LENET5_WARPS;
constexpr int kThreads = kWarps * kLanes;
constexpr int kRowsATile = 16;
constexpr int kRound = LENET5_TILES * kRowsATile;  // images whose features wait in shared memory for the linear layers
constexpr int kParts = 2;  // high and low

constexpr int kHidden1Stride = 128 + 16;  // floats; rows half of the banks apart
constexpr int kHidden2Stride = 96 + 16;

constexpr int kConv1Part = kConv1FragmentQuads * kLanes * 16;
constexpr int kConv2Part = kConv2FragmentQuads * kLanes * 16;
constexpr int kFeaturePart = kRound * kFeatureStride * 2;

constexpr int kConv1Offset = 0;
constexpr int kConv2Offset = kConv1Offset + kParts * kConv1Part;
constexpr int kBias1 = kConv2Offset + kParts * kConv2Part;
constexpr int kBias2 = kBias1 + kConv1Channels * 4;
constexpr int kBiasFc1 = kBias2 + kConv2Channels * 4;
constexpr int kBiasFc2 = kBiasFc1 + kFc1 * 4;
constexpr int kBiasFc3 = kBiasFc2 + kFc2 * 4;
constexpr int kSumOffset = kBiasFc3 + kClasses * 4;  // of |conv1 weights|, of every channel
constexpr int kScaleOffset = kSumOffset + kConv1Channels * 4;  // of every image's fc1
constexpr int kTrustedOffset = kScaleOffset + kRound * 4;  // a byte an image: whether fc1 found sums of full scale
constexpr int kExactOffset = kTrustedOffset + kRound;  // and whether it is to be done again without tensor cores
constexpr int kRows1Offset = kExactOffset + kRound;  // exponents of the rows of weights, a byte each
constexpr int kRows2Offset = kRows1Offset + kConv1Channels;
constexpr int kLimitsOffset = (kRows2Offset + kConv2Channels + 15) / 16 * 16;
constexpr int kBarrierOffset = kLimitsOffset + static_cast<int>(sizeof(Limits));
constexpr int kBias1Quads = kBarrierOffset + kWarps * 8;
constexpr int kFeatureOffset = kBias1Quads + kConv1Channels * 16;
constexpr int kImageOffset = kFeatureOffset + kParts * kFeaturePart;
constexpr int kImageBytes = kParts * kWindowBytes;
constexpr int kMapOffset = kImageOffset + kWarps * kImageBytes;
constexpr int kWarpMapBytes = kParts * kMapBytes;
constexpr int kSharedBytes = kMapOffset + kWarps * kWarpMapBytes;
constexpr int kHidden1Offset = kMapOffset;  // the linear layers reuse the maps
constexpr int kHidden2Offset = kHidden1Offset + kRound * kHidden1Stride * 4;
static_assert(kImageBytes >= kImagePixels * 4, "an image is fetched to where its windows will be");
static_assert(kHidden2Offset + kRound * kHidden2Stride * 4 <= kSharedBytes, "hidden layers fit");
static_assert(kSharedBytes <= 227 * 1024, "what a block may have on the largest GPUs");

}  // namespace lenet5
