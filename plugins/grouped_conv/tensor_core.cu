// grouped_conv on tensor cores: y = act(conv(x, w) + bias), where each group of CG channels, 2, 4, 8 or 16, gives KG others; sm_80 and newer.
//
// x [n, G * CG, H, W], w [G * KG, CG, R, R], bias [G * KG], y [n, G * KG, OH, OW]; stride and padding alike on all sides.
//
// A unit is 8 channels of a pixel, 16 bytes; groups of fewer channels share one, and weights between groups are zero. A product has 16 pixels
// of y, 16 rows of K (a unit at two taps, or two units at one) and 8 filters. A row of an operand is a unit, so ldmatrix brings it to the lanes
// from wherever it lies: neighbouring taps and strides are other addresses.
//
// Floats are split into two fp16 numbers (split_floats/split.cuh), x once where it is brought to shared memory, the filters once for each block:
// three products for one. The tensor cores cut the bits of a sum, so products hi hi are summed by them over 64 rows of K, then by additions.
//
// Mapping: a block has the filters of up to 16 outputs in registers, and takes tile after tile: rows of y of an image, as wide as it is. A warp
// has 16 neighbouring pixels of them at a time, which lie together in y. Bytes: x (with its border) and y once, w once for each block.
//
// Sums that are not finite are computed again by multiply-adds, and in floats those of a tile whose largest x is too small to be split.
#include "copies.cuh"
#include "dense/instructions.cuh"
#include "split_floats/split.cuh"
#include "windows/activation.cuh"
#include "windows/windows.cuh"

using T = TYPE_T;
using Layer = Windows<T, AXIS_H, AXIS_W, ATTR_SIZE, ATTR_STRIDE, ATTR_PAD>;
constexpr int kGroups = ATTR_GROUP, kChannels = AXIS_CG, kFilters = AXIS_K / kGroups;  // of a group
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);

// What multiplies: fp16 for floats.
template <typename Number>
struct OperandOf {
  using Type = Number;
};
template <>
struct OperandOf<float> {
  using Type = __half;
};
using Operand = OperandOf<T>::Type;

struct Plan {
  static constexpr int kWarps = 4, kThreads = 32 * kWarps, kEight = 8;
  static constexpr int kParts = sizeof(T) / 2;  // operands of a number
  // Groups whose channels fill a unit, or the group's own units; their channels and filters.
  static constexpr int kBundle = larger(1, kEight / kChannels), kDepth = kBundle * kChannels, kUnits = kDepth / kEight;
  static constexpr int kBundleFilters = kBundle * kFilters, kTaps = Layer::kSize * Layer::kSize;
  static constexpr int kSteps = ceil_div(kTaps * kUnits, 2);  // products of a sum
  static constexpr int kAcross = kBundleFilters % 16 == 0 && kSteps <= 9 ? 2 : 1, kOut = 8 * kAcross, kShares = kBundleFilters / kOut;
  static constexpr int kTogether = 4;  // products that the tensor cores sum
  // A tile: rows of y, and what it reads of x, with the border.
  static constexpr int kBands = ceil_div(Layer::kOutHeight, larger(1, 512 / Layer::kOutWidth)), kRows = ceil_div(Layer::kOutHeight, kBands);
  static constexpr int kPixels = kRows * Layer::kOutWidth, kChunks = ceil_div(kPixels, 16);
  static constexpr int kBorderColumns = (Layer::kOutWidth - 1) * Layer::kStride + Layer::kSize;
  static constexpr int kBorder = kBorderColumns * ((kRows - 1) * Layer::kStride + Layer::kSize);
  static constexpr int kPartBytes = kUnits * kBorder * 16, kSharedBytes = kParts * kPartBytes;
  static_assert(kEight % kChannels == 0 || kDepth == 16);
  static_assert(kGroups % kBundle == 0 && kBundleFilters % 8 == 0);
};
ASSERT_LAUNCH(grouped_conv_tensor_core, Plan::kThreads, Plan::kSharedBytes);

// A word of two operands, and of their low parts.
struct Split {
  unsigned hi, lo;
  __device__ __forceinline__ Split(float a, float b) {
    if constexpr (Plan::kParts == 2) {
      split(a, b, hi, lo);
    } else {
      const Vector<T, 2> pair{from_float<T>(a), from_float<T>(b)};
      hi = *reinterpret_cast<const unsigned*>(&pair), lo = 0;
    }
  }
};

// The layer, with the first filter and channel of a block.
struct Grouped {
  const T* __restrict__ x;
  const T* __restrict__ w;
  const T* __restrict__ bias;
  const int n;
  T* __restrict__ y;
  const int first_out, first_filter, first_channel;  // of the bundle's; of all; of all

  __device__ __forceinline__ Grouped(const T* x_, const T* w_, const T* bias_, int n_, T* y_)
      : x(x_),
        w(w_),
        bias(bias_),
        n(n_),
        y(y_),
        first_out(blockIdx.y % Plan::kShares * Plan::kOut),
        first_filter(blockIdx.y / Plan::kShares * Plan::kBundleFilters + first_out),
        first_channel(blockIdx.y / Plan::kShares * Plan::kDepth) {}

  // The weight of one of the block's filters for a channel of the bundle; zero for another group's, and beyond the taps.
  __device__ __forceinline__ float weight(int out, int channel, int tap) const {
    const int of_group = channel - (first_out + out) / kFilters * kChannels;
    if (static_cast<unsigned>(of_group) >= kChannels || tap >= Plan::kTaps) return 0.0f;
    return to_float(w[(static_cast<size_t>(first_filter + out) * kChannels + of_group) * Plan::kTaps + tap]);
  }

  __device__ __forceinline__ size_t plane(int image, int filter) const {
    return (static_cast<size_t>(image) * (kGroups * kFilters) + filter) * Layer::kOutPlane;
  }

  // One sum by multiply-adds: filter `filter` of all, pixel `at` of the plane.
  __device__ __noinline__ float plain(int image, int filter, int at) const {
    const int top = at / Layer::kOutWidth * Layer::kStride - Layer::kPad, left = at % Layer::kOutWidth * Layer::kStride - Layer::kPad;
    const T* of_x = x + (static_cast<size_t>(image) * kGroups + filter / kFilters) * kChannels * Layer::kPlane;
    const T* of_w = w + static_cast<size_t>(filter) * kChannels * Plan::kTaps;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < kChannels * Plan::kTaps; ++i) {
      const int row = top + i % Plan::kTaps / Layer::kSize, column = left + i % Layer::kSize;
      if (static_cast<unsigned>(row) >= Layer::kHeight || static_cast<unsigned>(column) >= Layer::kWidth) continue;
      sum = fmaf(to_float(of_x[i / Plan::kTaps * Layer::kPlane + row * Layer::kWidth + column]), to_float(of_w[i]), sum);
    }
    return sum;
  }
};

// A block's filters as operands, divided by powers of two that bring them below 2, where they are split.
struct Filters {
  unsigned hi[Plan::kSteps][Plan::kAcross][2], lo[Plan::kSteps][Plan::kAcross][2];
  float scale[Plan::kAcross][2], offset[Plan::kAcross][2];  // of the sums of this lane

  // `scales`: room in shared memory for one of each filter.
  __device__ __forceinline__ Filters(const Grouped& layer, float* scales, int warp, int lane) {
    const int g = lane / 4, t = lane % 4;
    if constexpr (Plan::kParts == 2) {
      for (int out = warp; out < Plan::kOut; out += Plan::kWarps) {
        float most = 0.0f;
        const T* const of_filter = layer.w + static_cast<size_t>(layer.first_filter + out) * kChannels * Plan::kTaps;
        for (int i = lane; i < kChannels * Plan::kTaps; i += 32) most = fmaxf(most, fabsf(to_float(of_filter[i])));
        const unsigned most_of_all = __reduce_max_sync(kAllLanes, __float_as_uint(most));
        if (lane == 0) scales[out] = power_of_two(most_of_all);
      }
      __syncthreads();
    }
#pragma unroll
    for (int across = 0; across < Plan::kAcross; ++across) {
      const float inverse = Plan::kParts == 2 ? 1.0f / scales[across * 8 + g] : 1.0f;
#pragma unroll
      for (int i = 0; i < 2 * Plan::kSteps; ++i) {  // rows of K 8 i ... of the filters
        const int channel = i % Plan::kUnits * Plan::kEight + 2 * t, tap = i / Plan::kUnits;
        const Split pair(layer.weight(across * 8 + g, channel, tap) * inverse, layer.weight(across * 8 + g, channel + 1, tap) * inverse);
        hi[i / 2][across][i % 2] = pair.hi, lo[i / 2][across][i % 2] = pair.lo;
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int out = across * 8 + 2 * t + e;
        scale[across][e] = Plan::kParts == 2 ? scales[out] : 1.0f;
        offset[across][e] = to_float(layer.bias[layer.first_filter + out]);
      }
    }
  }
};

// Brings what a tile reads of x to shared memory, as operands. Returns the largest x of this thread's.
__device__ __forceinline__ float load_tile(const Grouped& layer, unsigned char* units, int image, int first_row) {
  float most = 0.0f;
#pragma unroll 2
  for (int i = threadIdx.x; i < Plan::kUnits * Plan::kBorder; i += Plan::kThreads) {
    const int unit = i / Plan::kBorder, pixel = i % Plan::kBorder;
    const int row = first_row * Layer::kStride - Layer::kPad + pixel / Plan::kBorderColumns, column = pixel % Plan::kBorderColumns - Layer::kPad;
    const bool inside = static_cast<unsigned>(row) < Layer::kHeight && static_cast<unsigned>(column) < Layer::kWidth;
    const size_t plane = static_cast<size_t>(image) * (kGroups * kChannels) + layer.first_channel + unit * Plan::kEight;
    const T* const from = layer.x + (plane * Layer::kPlane + (inside ? row * Layer::kWidth + column : 0));
    float of[Plan::kEight];
#pragma unroll
    for (int e = 0; e < Plan::kEight; ++e) of[e] = inside ? to_float(__ldg(from + e * Layer::kPlane)) : 0.0f;
    uint4 hi, lo;
    const Split a(of[0], of[1]), b(of[2], of[3]), c(of[4], of[5]), d(of[6], of[7]);
    hi = make_uint4(a.hi, b.hi, c.hi, d.hi), lo = make_uint4(a.lo, b.lo, c.lo, d.lo);
    *reinterpret_cast<uint4*>(units + i * 16) = hi;
    if constexpr (Plan::kParts == 2) {
      *reinterpret_cast<uint4*>(units + Plan::kPartBytes + i * 16) = lo;
#pragma unroll
      for (int e = 0; e < Plan::kEight; ++e) most = fmaxf(most, fabsf(of[e]));
    }
  }
  return most;
}

// A warp's 16 pixels from pixel `first` of the tile on.
__device__ __forceinline__ void multiply_chunk(const Grouped& layer, const Filters& filters, unsigned units, int largest, int image, int first_row,
                                               int first, int lane) {
  const int g = lane / 4, t = lane % 4, half = lane / 16;
  // The lane says where a row of an operand is: of pixel lane % 16, of the first or the second half of the 16 rows of K.
  const int pixel = smaller(first + lane % 16, Plan::kPixels - 1);
  const int corner = pixel / Layer::kOutWidth * (Layer::kStride * Plan::kBorderColumns) + pixel % Layer::kOutWidth * Layer::kStride;
  const unsigned from = units + (corner + (Plan::kUnits == 2 ? half * Plan::kBorder : 0)) * 16;
  float sums[Plan::kAcross][4] = {}, part[Plan::kAcross][4], low_sums[Plan::kAcross][4] = {};
#pragma unroll
  for (int step = 0; step < Plan::kSteps; ++step) {
    const auto place = [](int tap) { return (tap / Layer::kSize * Plan::kBorderColumns + tap % Layer::kSize) * 16; };
    const int tap = Plan::kUnits == 2 ? step : 2 * step, other = Plan::kUnits == 2 ? tap : smaller(tap + 1, Plan::kTaps - 1);
    const unsigned address = from + (half != 0 ? place(other) : place(tap));
    unsigned hi[4], lo[4];
    load_matrices(hi, address);
    if constexpr (Plan::kParts == 2) load_matrices(lo, address + Plan::kPartBytes);
#pragma unroll
    for (int across = 0; across < Plan::kAcross; ++across) {
      if (step % Plan::kTogether == 0) {
#pragma unroll
        for (int i = 0; i < 4; ++i) part[across][i] = 0.0f;
      }
      dense::multiply<Operand>(part[across], hi, filters.hi[step][across]);
      if constexpr (Plan::kParts == 2) {
        dense::multiply<Operand>(low_sums[across], hi, filters.lo[step][across]);
        dense::multiply<Operand>(low_sums[across], lo, filters.hi[step][across]);
      }
      if (step % Plan::kTogether == Plan::kTogether - 1 || step == Plan::kSteps - 1) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[across][i] += part[across][i];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4 * Plan::kAcross; ++i) {
    const int across = i / 4, e = i % 2, of_tile = first + g + i % 4 / 2 * 8, at = first_row * Layer::kOutWidth + of_tile;
    if (of_tile >= Plan::kPixels || at >= Layer::kOutPlane) continue;
    const int filter = layer.first_filter + across * 8 + 2 * t + e;
    float sum = sums[across][i % 4];
    if constexpr (Plan::kParts == 2) sum = fmaf(low_sums[across][i % 4], 1.0f / kLow, sum);
    const bool exact = exact_sum(sum, largest);
    const float total = exact ? fmaf(sum, filters.scale[across][e], filters.offset[across][e])
                              : layer.plain(image, filter, at) + filters.offset[across][e];
    layer.y[layer.plane(image, filter) + at] = from_float<T>(activate<kActivation>(total));
  }
}

extern "C" __global__ void __launch_bounds__(Plan::kThreads)
    grouped_conv_tensor_core(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n, T* __restrict__ y) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ float scales[Plan::kOut];
  __shared__ unsigned most_of_warps[Plan::kWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Grouped layer(x, w, bias, n, y);
  const Filters filters(layer, scales, warp, lane);
#pragma unroll 1
  for (int tile = blockIdx.x; tile < n * Plan::kBands; tile += gridDim.x) {
    const int image = tile / Plan::kBands, first_row = tile % Plan::kBands * Plan::kRows;
    const float most = load_tile(layer, shared, image, first_row);
    if constexpr (Plan::kParts == 2) {
      const unsigned of_warp = __reduce_max_sync(kAllLanes, __float_as_uint(most));
      if (lane == 0) most_of_warps[warp] = of_warp;
    }
    __syncthreads();
    int largest = 0;
    if constexpr (Plan::kParts == 2) {
#pragma unroll
      for (int i = 0; i < Plan::kWarps; ++i) largest = max(largest, static_cast<int>(most_of_warps[i]));
    }
#pragma unroll 1
    for (int chunk = warp; chunk < Plan::kChunks; chunk += Plan::kWarps) {
      multiply_chunk(layer, filters, shared_address(shared), largest, image, first_row, chunk * 16, lane);
    }
    __syncthreads();  // all have left the tile
  }
}
