// transposed_conv2x2_half by plain multiply-adds, for GPUs other than Hopper: y = act(transposed conv(x, w) + bias), 2x2 filters at stride 2,
// channels last, in fp16 and bfloat16.
//
// x [n, H, W, C], weights (w, packed: layer.cuh), bias [K], y [n, 2 H, 2 W, K].
//
// Mapping: a thread computes 8 neighbouring outputs of a pixel of x. Bytes: x and the weights from L1 or L2, once for each thread; y once.
#include "transposed_conv2x2_half/layer.cuh"

constexpr int kDirectThreads = 128;
ASSERT_LAUNCH(transposed_conv2x2_half_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    transposed_conv2x2_half_direct(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  constexpr int kEights = kOutputs / kEight;
  const int unit = blockIdx.x * kDirectThreads + threadIdx.x, pixel = unit / kEights, first = unit % kEights * kEight;
  if (pixel >= n) return;
  const Layer layer{x, weights, bias, n, y};
  const T* const of_x = layer.row(pixel);
  const Vector<T, kEight> of_bias = layer.bias_of(first);
  float sums[kEight];
#pragma unroll
  for (int f = 0; f < kEight; ++f) sums[f] = to_float(of_bias.value[f]);
  const int of_ordered = first / kOrdered * (kOrdered / kEight) * kOfEight + first % kOrdered / kEight * 2 * kEight;  // its column 8 j + 2 t + e
#pragma unroll 1
  for (int input = 0; input < kInputs; input += kEight) {
    const T* const from = weights + (input / kChunk * kOfAll + of_ordered + input % kChunk * kEight);
    const Vector<T, kEight> some = load_vector<kEight>(of_x + input);
#pragma unroll
    for (int f = 0; f < kEight; ++f) {
      const Vector<T, kEight> w = load_vector<kEight>(from + f / 2 * kOfEight + f % 2 * kEight);
#pragma unroll
      for (int i = 0; i < kEight; ++i) sums[f] = fmaf(to_float(some.value[i]), to_float(w.value[i]), sums[f]);
    }
  }
  layer.store(sums, pixel, first);
}
