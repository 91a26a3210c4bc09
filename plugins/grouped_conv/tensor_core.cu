// grouped_conv on tensor cores, in fp16 and bf16: y = act(conv(x, w) + bias), where each group of CG channels, 8 or 16, gives KG others; sm_80
// and newer.
//
// x [n, G * CG, H, W], w [G * KG, CG, R, R], bias [G * KG], y [n, G * KG, OH, OW]; stride and padding alike on all sides.
//
// A unit is 8 channels of a pixel, 16 bytes. A product has 16 pixels of y, 16 rows of K (a unit at two taps, or two units at one) and 8
// filters. A row of an operand is a unit, so ldmatrix brings it to the lanes from wherever it lies: neighbouring taps and strides are other
// addresses. Sums are floats.
//
// Mapping: a block has the filters of up to 16 outputs in registers, and takes tile after tile: rows of y of an image, as wide as it is. A warp
// has 16 neighbouring pixels of them at a time, which lie together in y. Bytes: x (with its border) and y once, w once for each block.
#include "copies.cuh"
#include "dense/instructions.cuh"
#include "grouped_conv/layer.cuh"

struct Plan {
  static constexpr int kWarps = 4, kThreads = 32 * kWarps, kEight = 8;
  static constexpr int kUnits = kChannels / kEight, kTaps = Layer::kSize * Layer::kSize;
  static constexpr int kSteps = ceil_div(kTaps * kUnits, 2);  // products of a sum
  static constexpr bool kHalfStep = kTaps * kUnits % 2 != 0;  // the last product has one unit
  static constexpr int kAcross = kFilters % 16 == 0 && kSteps <= 9 ? 2 : 1, kOut = 8 * kAcross, kShares = kFilters / kOut;
  // A tile: rows of y, and what it reads of x, with the border.
  static constexpr int kBands = ceil_div(Layer::kOutHeight, larger(1, 512 / Layer::kOutWidth)), kRows = ceil_div(Layer::kOutHeight, kBands);
  static constexpr int kPixels = kRows * Layer::kOutWidth, kChunks = ceil_div(kPixels, 16);
  static constexpr int kBorderColumns = (Layer::kOutWidth - 1) * Layer::kStride + Layer::kSize;
  static constexpr int kBorder = kBorderColumns * ((kRows - 1) * Layer::kStride + Layer::kSize);
  static constexpr int kSharedBytes = kUnits * kBorder * 16;
  static_assert(sizeof(T) == 2 && (kUnits == 1 || kUnits == 2) && kChannels % kEight == 0 && kFilters % 8 == 0);
};
ASSERT_LAUNCH(grouped_conv_tensor_core, Plan::kThreads, Plan::kSharedBytes);

// A block's filters as operands.
struct Filters {
  unsigned of[Plan::kSteps][Plan::kAcross][2];
  float offset[Plan::kAcross][2];  // of the sums of this lane

  __device__ __forceinline__ Filters(const T* __restrict__ w, const T* __restrict__ bias, int first_filter, int lane) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int across = 0; across < Plan::kAcross; ++across) {
      const T* const of_filter = w + static_cast<size_t>(first_filter + across * 8 + g) * (kChannels * Plan::kTaps);
#pragma unroll
      for (int i = 0; i < 2 * Plan::kSteps; ++i) {  // rows of K 8 i ...
        const int channel = i % Plan::kUnits * Plan::kEight + 2 * t, tap = i / Plan::kUnits;
        Vector<T, 2> pair{};
        if (tap < Plan::kTaps) pair = {of_filter[channel * Plan::kTaps + tap], of_filter[(channel + 1) * Plan::kTaps + tap]};
        of[i / 2][across][i % 2] = *reinterpret_cast<const unsigned*>(&pair);
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) offset[across][e] = to_float(bias[first_filter + across * 8 + 2 * t + e]);
    }
  }
};

// Brings what a tile reads of x to shared memory in units. `x`: the group's first channel of the image.
__device__ __forceinline__ void load_tile(const T* __restrict__ x, unsigned char* units, int first_row) {
#pragma unroll 2
  for (int i = threadIdx.x; i < Plan::kUnits * Plan::kBorder; i += Plan::kThreads) {
    const int unit = i / Plan::kBorder, pixel = i % Plan::kBorder;
    const int row = first_row * Layer::kStride - Layer::kPad + pixel / Plan::kBorderColumns, column = pixel % Plan::kBorderColumns - Layer::kPad;
    const bool inside = static_cast<unsigned>(row) < Layer::kHeight && static_cast<unsigned>(column) < Layer::kWidth;
    const T* const from = x + unit * Plan::kEight * Layer::kPlane + (inside ? row * Layer::kWidth + column : 0);
    Pack16<T> of;
#pragma unroll
    for (int e = 0; e < Plan::kEight; ++e) of.value[e] = inside ? from[e * Layer::kPlane] : from_float<T>(0.0f);
    *reinterpret_cast<uint4*>(units + i * 16) = *reinterpret_cast<const uint4*>(&of);
  }
}

// A warp's 16 pixels from pixel `first` of the tile on. `y`: the block's first filter of the image.
__device__ __forceinline__ void multiply_chunk(const Filters& filters, unsigned units, T* __restrict__ y, int first_row, int first, int lane) {
  const int g = lane / 4, t = lane % 4, half = lane / 16;
  // The lane says where a row of an operand is: of pixel lane % 16, of the first or the second half of the 16 rows of K.
  const int pixel = smaller(first + lane % 16, Plan::kPixels - 1);
  const int corner = pixel / Layer::kOutWidth * (Layer::kStride * Plan::kBorderColumns) + pixel % Layer::kOutWidth * Layer::kStride;
  const unsigned from = units + (corner + (Plan::kUnits == 2 ? half * Plan::kBorder : 0)) * 16;
  float sums[Plan::kAcross][4] = {};
#pragma unroll
  for (int step = 0; step < Plan::kSteps; ++step) {
    const auto place = [](int tap) { return (tap / Layer::kSize * Plan::kBorderColumns + tap % Layer::kSize) * 16; };
    const int tap = Plan::kUnits == 2 ? step : 2 * step, other = Plan::kUnits == 2 ? tap : smaller(tap + 1, Plan::kTaps - 1);
    unsigned rows[4];
    load_matrices(rows, from + (half != 0 ? place(other) : place(tap)));
    // An infinity times a zero would be NaN.
    if (Plan::kHalfStep && step == Plan::kSteps - 1) rows[2] = rows[3] = 0;
#pragma unroll
    for (int across = 0; across < Plan::kAcross; ++across) dense::multiply<T>(sums[across], rows, filters.of[step][across]);
  }
#pragma unroll
  for (int i = 0; i < 4 * Plan::kAcross; ++i) {
    const int across = i / 4, e = i % 2, of_tile = first + g + i % 4 / 2 * 8, at = first_row * Layer::kOutWidth + of_tile;
    if (of_tile >= Plan::kPixels || at >= Layer::kOutPlane) continue;
    y[(across * 8 + 2 * t + e) * Layer::kOutPlane + at] = from_float<T>(activate<kActivation>(sums[across][i % 4] + filters.offset[across][e]));
  }
}

extern "C" __global__ void __launch_bounds__(Plan::kThreads)
    grouped_conv_tensor_core(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = blockIdx.y / Plan::kShares;
  const int first_filter = group * kFilters + blockIdx.y % Plan::kShares * Plan::kOut;
  const Filters filters(w, bias, first_filter, lane);
#pragma unroll 1
  for (int tile = blockIdx.x; tile < n * Plan::kBands; tile += gridDim.x) {
    const int image = tile / Plan::kBands, first_row = tile % Plan::kBands * Plan::kRows;
    load_tile(x + (static_cast<size_t>(image) * kGroups + group) * (kChannels * Layer::kPlane), shared, first_row);
    T* const of_image = y + (static_cast<size_t>(image) * (kGroups * kFilters) + first_filter) * Layer::kOutPlane;
    __syncthreads();
#pragma unroll 1
    for (int chunk = warp; chunk < Plan::kChunks; chunk += Plan::kWarps) {
      multiply_chunk(filters, shared_address(shared), of_image, first_row, chunk * 16, lane);
    }
    __syncthreads();  // all have left the tile
  }
}
