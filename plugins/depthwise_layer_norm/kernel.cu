// depthwise_layer_norm by plain multiply-adds, on any GPU: y = LayerNormalization(Conv(x, w) + bias) over the channels, in fp16 and bfloat16.
//
// x [n, H, W, C], filters (w, packed: layer.cuh), bias, scale and shift [C] -> y [n, H, W, C]; padding 3.
//
// Mapping: a warp a pixel, whose lanes have each 32nd channel. Nothing is kept: sums are computed for the mean, for the variance, and for y.
// Bytes: x three times for each tap, from L1 and L2; y once.
#include "depthwise_layer_norm/layer.cuh"
#include "rows.cuh"

constexpr int kDirectThreads = 128;
ASSERT_LAUNCH(depthwise_layer_norm_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    depthwise_layer_norm_direct(const T* __restrict__ x, const T* __restrict__ filters, const T* __restrict__ bias, const T* __restrict__ scale,
                                const T* __restrict__ shift, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  const int pixel = blockIdx.x * (kDirectThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (pixel >= n * (kHeight * kWidth)) return;
  const int top = pixel / kWidth % kHeight - kPad, left = pixel % kWidth - kPad;
  const T* const image = x + static_cast<size_t>(pixel / (kHeight * kWidth)) * (kHeight * kWidth * kChannels);
  const auto sum_of = [&](int channel) {
    float sum = to_float(bias[channel]);
#pragma unroll 1
    for (int tap = 0; tap < kTaps; ++tap) {
      const int row = top + tap / kSize, column = left + tap % kSize;
      if (static_cast<unsigned>(row) >= kHeight || static_cast<unsigned>(column) >= kWidth) continue;
      const T weight = filters[channel / kEight * kGroupTaps + tap_at(tap, channel % kEight)];
      sum = fmaf(to_float(image[(row * kWidth + column) * kChannels + channel]), to_float(weight), sum);
    }
    return sum;
  };
  float total = 0.0f, squares = 0.0f;
#pragma unroll 1
  for (int channel = lane; channel < kChannels; channel += 32) total += sum_of(channel);
  const float mean = lanes_sum<32>(total) * (1.0f / kChannels);
#pragma unroll 1
  for (int channel = lane; channel < kChannels; channel += 32) {
    const float distance = sum_of(channel) - mean;
    squares += distance * distance;
  }
  const float inverse = inverse_deviation(lanes_sum<32>(squares));
#pragma unroll 1
  for (int channel = lane; channel < kChannels; channel += 32) {
    const float normal = fmaf((sum_of(channel) - mean) * inverse, to_float(scale[channel]), to_float(shift[channel]));
    y[static_cast<size_t>(pixel) * kChannels + channel] = from_float<T>(normal);
  }
}
