// squeeze_excite on sm_90: y = x * gate(w2 act(w1 mean(x) + b1) + b2), an image a cluster of eight blocks.
//
// x, y [n, C, H, W]; layer.cuh has the weights. Mapping: a block has an eighth of the channels. Its planes are copied into shared memory in up
// to four pieces and stay there; a warp, or several, adds a plane. Eight lanes multiply a row of weights, which they have loaded before
// the planes arrive. Each block multiplies the columns of w1 that are of its channels and sends the sums to all eight, then the rows of
// w2 that are of its channels. Bytes: x and y once, the weights once an image, from L2.
// What was measured: docs/kernels/squeeze_excite.md.
#include "block_cluster.cuh"
#include "bulk.cuh"
#include "squeeze_excite/layer.cuh"

constexpr int kBlocks = 8, kPack = Pack16<T>::kCount;
// Channels of a block. Its planes begin at multiples of 16 bytes: where a plane is odd, it has so many of them.
constexpr int kEighth = ceil_div(kChannels, kBlocks), kOwn = kPlane % 2 == 0 ? kEighth : ceil_div(kEighth, kPack) * kPack;
// Pieces are of whole planes, and begin at multiples of 16 bytes.
constexpr int kQuarter = ceil_div(kOwn, 4), kPiecePlanes = kPlane % kPack == 0 ? kQuarter : ceil_div(kQuarter, kPack) * kPack;
constexpr int kPieces = ceil_div(kOwn, kPiecePlanes);
constexpr int kPlaneWarps = kOwn >= 16 ? 1 : kOwn >= 8 ? 2 : kOwn >= 4 ? 4 : kOwn >= 2 ? 8 : 16;
// How many neighbouring numbers of a row, of `columns` numbers and `pitch` apart, a lane loads at once: as many as are aligned, but
// fewer where many lanes would have none.
__host__ __device__ constexpr int width_of(int columns, int pitch, int width = kPack) {
  const bool fits = columns % width == 0 && pitch % width == 0;
  const bool even = 4 * width * ceil_div(columns, width * kLanes) <= 5 * ceil_div(columns, kLanes) + 8;
  return width == 1 || (fits && even) ? width : width_of(columns, pitch, width / 2);
}

// A lane's share of a row of weights: every kLanes-th piece of it.
template <int kColumns, int kPitch>
struct Row {
  static constexpr int kWide = width_of(kColumns, kPitch), kPieces = ceil_div(kColumns, kWide * kLanes), kNumbers = kWide * kPieces;
  using Piece = Vector<T, kWide>;
};
using OfMeans = Row<kOwn, kChannels>;
using OfHidden = Row<kHidden, kHidden>;
// Rows of a thread in each layer.
constexpr int kUnits = ceil_div(kHidden, kGroups), kGates = ceil_div(kOwn, kGroups);
constexpr int kWeightBytes = larger(kUnits * OfMeans::kNumbers, kGates * OfHidden::kNumbers) * static_cast<int>(sizeof(T));
constexpr int kPlanesBytes = kOwn * kPlane * static_cast<int>(sizeof(T));
// Two blocks a multiprocessor, where their registers suffice for the weights.
constexpr int kAtOnce = kWeightBytes <= 128 && kPlanesBytes <= 100 * 1024 ? 2 : 1;
static_assert(kBlocks == kLanes, "each lane of a row sends its sum to one block");

// A block's shared memory after its planes.
struct alignas(16) Rest {
  static constexpr int kFull = kLanes * 8;  // the widest pieces of all lanes
  float means[ceil_div(kOwn, kFull) * kFull], hidden[ceil_div(kHidden, kFull) * kFull];
  unsigned long long all_sent, pieces[4];
  float sent[kBlocks][kHidden];  // sums of the eight blocks
  float sums[kOwn + kWarp];  // of parts of planes
  float gates[kOwn];
};
static_assert(kPieces <= 4 && kOwn * kPlaneWarps <= kOwn + kWarp);
ASSERT_LAUNCH(squeeze_excite_by8, kThreads, ceil_div(kPlanesBytes + static_cast<int>(sizeof(Rest)), 16) * 16);

// Numbers of `rows` rows for a group of lanes; what is past the ends is 0.
template <typename Row, int kRows>
__device__ __forceinline__ void load_weights(typename Row::Piece (&weights)[kRows][Row::kPieces], const T* __restrict__ from, int pitch,
                                             int rows, int columns) {
  const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int k = 0; k < Row::kPieces; ++k) {
      const int row = group + i * kGroups, column = (lane + k * kLanes) * Row::kWide;
      weights[i][k] = {};
      if (row < rows && column < columns) weights[i][k] = load_vector<Row::kWide>(from + row * pitch + column);
    }
  }
}

// Rows of weights times a vector in shared memory; all lanes of a row get its sum.
template <typename Row, int kRows>
__device__ __forceinline__ void multiply(float (&sums)[kRows], const typename Row::Piece (&weights)[kRows][Row::kPieces],
                                         const float* vector) {
  constexpr int kCount = smaller(Row::kWide, 4);
#pragma unroll
  for (int i = 0; i < kRows; ++i) sums[i] = 0.0f;
#pragma unroll
  for (int k = 0; k < Row::kPieces; ++k) {
#pragma unroll
    for (int first = 0; first < Row::kWide; first += kCount) {
      const auto some = load_vector<kCount>(vector + (threadIdx.x % kLanes + k * kLanes) * Row::kWide + first);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int e = 0; e < kCount; ++e) sums[i] = fmaf(to_float(weights[i][k].value[first + e]), some.value[e], sums[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) sums[i] = sum_over_lanes<kLanes>(sums[i]);
}

extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, kAtOnce)
    squeeze_excite_by8(const T* __restrict__ x, const T* __restrict__ w1, const T* __restrict__ b1, const T* __restrict__ w2,
                       const T* __restrict__ b2, int, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  T* const planes = reinterpret_cast<T*>(shared);
  Rest& rest = *reinterpret_cast<Rest*>(shared + kPlanesBytes);
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp, rank = blockIdx.x % kBlocks;
  const int first = rank * kOwn, own = larger(smaller(kOwn, kChannels - first), 0);  // channels
  const unsigned all_sent = shared_address(&rest.all_sent);
  const size_t begin = (static_cast<size_t>(blockIdx.x / kBlocks) * kChannels + first) * kPlane;

  if (thread == 0) {
    init_barrier(all_sent);
    for (int i = 0; i < kPieces; ++i) init_barrier(shared_address(&rest.pieces[i]));
    publish_to_units();
    expect_bytes(all_sent, sizeof(rest.sent));
    for (int i = 0; i < kPieces; ++i) {
      const int from = i * kPiecePlanes, count = smaller(kPiecePlanes, own - from);
      if (count <= 0) break;
      const unsigned bytes = count * kPlane * static_cast<int>(sizeof(T)), barrier = shared_address(&rest.pieces[i]);
      expect_bytes(barrier, bytes);
      begin_bulk_copy(shared_address(planes + from * kPlane), x + begin + from * kPlane, bytes, barrier);
    }
  }
  cluster_arrive_relaxed();  // this block has barriers, which others may count on
  OfMeans::Piece of_means[kUnits][OfMeans::kPieces];
  load_weights<OfMeans>(of_means, w1 + first, kChannels, kHidden, own);
  const float bias1 = thread < kHidden ? to_float(b1[thread]) : 0.0f, bias2 = thread < own ? to_float(b2[first + thread]) : 0.0f;
  for (int i = thread; i < OfMeans::kNumbers * kLanes; i += kThreads) rest.means[i] = 0.0f;
  for (int i = thread; i < OfHidden::kNumbers * kLanes; i += kThreads) rest.hidden[i] = 0.0f;
  __syncthreads();

  for (int task = warp; task < own * kPlaneWarps; task += kWarps) {
    const int plane = task / kPlaneWarps, part = task % kPlaneWarps;
    wait_for_bytes(shared_address(&rest.pieces[plane / kPiecePlanes]));
    const float sum = sum_over_lanes<kWarp>(sum_of_vectors<kWarp * kPlaneWarps>(planes + plane * kPlane, part * kWarp + lane));
    if (lane == 0) rest.sums[task] = sum;
  }
  __syncthreads();
  if (thread < own) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kPlaneWarps; ++i) sum += rest.sums[thread * kPlaneWarps + i];
    rest.means[thread] = sum / static_cast<float>(kPlane);
  }
  __syncthreads();

  cluster_wait();
  float of_units[kUnits];
  multiply<OfMeans>(of_units, of_means, rest.means);
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int unit = thread / kLanes + i * kGroups;
    if (unit < kHidden) send_remote(shared_address(&rest.sent[rank][unit]), all_sent, thread % kLanes, of_units[i]);
  }
  OfHidden::Piece of_hidden[kGates][OfHidden::kPieces];
  load_weights<OfHidden>(of_hidden, w2 + static_cast<size_t>(first) * kHidden, kHidden, own, kHidden);
  wait_for_remote(all_sent);
  if (thread < kHidden) {
    float sum = bias1;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) sum += rest.sent[i][thread];
    rest.hidden[thread] = activate<kActivation>(sum);
  }
  if (thread < own) rest.gates[thread] = bias2;
  __syncthreads();
  float of_channels[kGates];
  multiply<OfHidden>(of_channels, of_hidden, rest.hidden);
#pragma unroll
  for (int i = 0; i < kGates; ++i) {
    const int channel = thread / kLanes + i * kGroups;
    if (thread % kLanes == 0 && channel < own) rest.gates[channel] = gate_of(of_channels[i] + rest.gates[channel]);
  }
  __syncthreads();

#pragma unroll 4
  for (int i = thread; i < own * kPlane / kPack; i += kThreads) {
    Pack16<T> pack = load_vector<kPack>(planes + i * kPack);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const int at = kPlane % kPack == 0 ? i * kPack : i * kPack + k;
      pack.value[k] = from_float<T>(to_float(pack.value[k]) * rest.gates[at / kPlane]);
    }
    store_vector(y + begin + i * kPack, pack);
  }
  // Every block has waited for all that was sent to it: none that ends is written to.
}
