// Step 1 of 4: LeNet-5 as seven launches, one thread per output, everything in global memory.
//
//   conv5x5_relu -> maxpool2x2 -> conv5x5_relu -> maxpool2x2 -> linear_relu (256 -> 120) -> linear_relu (120 -> 84) -> linear (84 -> 10)
//
// This program writes the definition of each layer as a loop; all later steps are compared with it. It wastes time in three ways:
// every intermediate tensor is written to memory and read again, a conv output reads its 25 (or 150) inputs although its neighbour
// reads nearly the same inputs, and at small n seven launches cost more than the arithmetic.
//
// Launches: grid ceil_div(outputs, 256), block 256, no shared memory. All tensors are of type T, sums are float.
#include "common.cuh"
#include "lenet5/lenet5.cuh"

using T = TYPE_T;

// y[i, o, r, c] = relu(bias[o] + sum over input channels and the 5x5 window). x [n, channels_in, side, side],
// weight [channels_out, channels_in, 5, 5] -> y [n, channels_out, side - 4, side - 4].
extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    conv5x5_relu(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias, int n, int channels_in,
                 int side, int channels_out, T* __restrict__ y) {
  const int side_out = side - lenet5::kFilterSide + 1;
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= n * channels_out * side_out * side_out) return;
  const int col = index % side_out;
  const int row = index / side_out % side_out;
  const int out = index / (side_out * side_out) % channels_out;
  const int image = index / (side_out * side_out * channels_out);
  float sum = to_float(bias[out]);
  for (int in = 0; in < channels_in; ++in) {
    for (int i = 0; i < lenet5::kFilterSide; ++i) {
      for (int j = 0; j < lenet5::kFilterSide; ++j) {
        const float value = to_float(x[((image * channels_in + in) * side + row + i) * side + col + j]);
        const float tap = to_float(weight[((out * channels_in + in) * lenet5::kFilterSide + i) * lenet5::kFilterSide + j]);
        sum = fmaf(value, tap, sum);
      }
    }
  }
  y[index] = from_float<T>(relu_nan(sum));
}

// The largest of each 2x2 window. x [planes, side, side] -> y [planes, side / 2, side / 2]; planes = images * channels.
extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS) maxpool2x2(const T* __restrict__ x, int planes, int side, T* __restrict__ y) {
  const int side_out = side / lenet5::kPool;
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= planes * side_out * side_out) return;
  const int col = index % side_out;
  const int row = index / side_out % side_out;
  const T* window = x + (index / (side_out * side_out) * side + lenet5::kPool * row) * side + lenet5::kPool * col;
  const float top = max_nan(to_float(window[0]), to_float(window[1]));
  const float bottom = max_nan(to_float(window[side]), to_float(window[side + 1]));
  y[index] = from_float<T>(max_nan(top, bottom));
}

// sum over k of x[image, k] * weight[out, k], plus bias. Neighbouring threads read weights `inputs` elements apart: uncoalesced.
__device__ __forceinline__ float dot_row(const T* x, const T* weight, const T* bias, int image, int out, int inputs) {
  float sum = to_float(bias[out]);
  for (int k = 0; k < inputs; ++k) sum = fmaf(to_float(x[image * inputs + k]), to_float(weight[out * inputs + k]), sum);
  return sum;
}

// x [n, inputs], weight [outputs, inputs] -> y [n, outputs].
extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    linear_relu(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias, int n, int inputs,
                int outputs, T* __restrict__ y) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= n * outputs) return;
  y[index] = from_float<T>(relu_nan(dot_row(x, weight, bias, index / outputs, index % outputs, inputs)));
}

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    linear(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias, int n, int inputs, int outputs,
           T* __restrict__ y) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= n * outputs) return;
  y[index] = from_float<T>(dot_row(x, weight, bias, index / outputs, index % outputs, inputs));
}
