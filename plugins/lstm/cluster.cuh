// lstm by a cluster of kBlocks blocks, which has one direction of kRows sequences; its weights stay in registers over all steps.
//
// x [steps, n, I], w, r, b, h0, c0, y, y_h, y_c: cell.cuh.
//
// Mapping: a block has kUnits of the H states. kLanes neighbouring lanes have the four gates of a unit; each multiplies every
// kLanes-th feature and every kLanes-th 16-byte piece of the states by its weights. They exchange their sums, so that a lane has one
// gate of one or more sequences, and two more shuffles bring the four gates together. The new states go to every block of the
// cluster. A barrier in each one's shared memory counts their bytes; while they travel, the features of the next step are multiplied.
// Where registers do not hold the weights of the features, those are in shared memory, four gates an access.
// Bytes: the weights once a cluster, the features once a block, y once; between blocks kRows * H floats a step and block.
#pragma once

#include "block_cluster.cuh"
#include "bulk.cuh"
#include "lstm/cell.cuh"

constexpr int kWarp = 32;  // lanes

// How a cluster divides its work.
template <int kBlocks, int kRows>
struct Division {
  static constexpr int kThreads = 512;
  static constexpr int kMostWeights = kRows == 1 ? 84 : 80;  // in registers; of 128, the others are for sums and addresses
  static constexpr int kUnits = ceil_div(kHidden, kBlocks), kLanes = kUnits <= 16 ? 32 : kUnits <= 32 ? 16 : 8;
  static constexpr int kFilled = ceil_div(kHidden, kUnits);  // blocks that have units
  // A 16-byte piece has kPer states of each sequence; a lane reads kPieces of them, and kOfX features.
  static constexpr int kPer = 4 / kRows, kPieces = ceil_div(kHidden, kPer * kLanes), kOfX = ceil_div(kInputs, kLanes);
  static constexpr bool kAllInRegisters = 4 * (kPieces * kPer + kOfX) <= kMostWeights;
  // Floats of a step: states [H][kRows] and features [I][kRows], up to what the lanes read.
  static constexpr int kStates = 4 * kLanes * kPieces, kFeatures = kRows * kLanes * kOfX;
  static constexpr int kWeights = kAllInRegisters ? 0 : 4 * kThreads * kOfX;  // in shared memory
  static constexpr int kAtOnce = kRows == 1 ? 4 : 1;  // loads of them
  static constexpr int kBytes = 16 + 8 * (kStates + kFeatures) + kWeights * static_cast<int>(sizeof(T));
  // After the exchange a quarter of the lanes has each gate: kRowLanes times kTotals sequences, each in kShare lanes.
  static constexpr int kRowLanes = smaller(kRows, kLanes / 4), kTotals = kRows / kRowLanes, kShare = kLanes / 4 / kRowLanes;
};

template <int kBlocks, int kRows>
__device__ __forceinline__ void lstm_by_cluster(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ r,
                                                const T* __restrict__ b, const T* __restrict__ h0, const T* __restrict__ c0,
                                                int steps, int n, T* __restrict__ y, T* __restrict__ y_h, T* __restrict__ y_c,
                                                unsigned char* shared) {
  using D = Division<kBlocks, kRows>;
  constexpr int kLanes = D::kLanes, kTotals = D::kTotals;
  if constexpr (D::kUnits * kLanes <= D::kThreads) {  // for other sizes it is compiled with other variants, and not launched
    float* states = reinterpret_cast<float*>(shared + 16);    // [2][kStates], of the steps in turn
    float* features = states + 2 * D::kStates;                // [2][kFeatures]
    T* weights = reinterpret_cast<T*>(features + 2 * D::kFeatures);  // [kOfX][kThreads][4]
    const unsigned barriers = shared_address(shared);         // of 8 bytes, for the states of the steps in turn
    const int thread = threadIdx.x, lane = thread % kLanes, way = blockIdx.y, first = blockIdx.x / kBlocks * kRows;
    const unsigned rank = blockIdx.x % kBlocks;
    const int place = thread / kLanes, unit = rank * D::kUnits + place;
    const bool has_unit = place < D::kUnits && unit < kHidden;
    const bool warp_works = thread / kWarp * (kWarp / kLanes) < D::kUnits;
    const bool backwards = runs_backwards(way);
    const auto step_of = [&](int done) { return backwards ? steps - 1 - done : done; };

    // Gates in the order input, forget, cell, output: lanes of input and cell, and of forget and output, are kLanes / 2 apart.
    const auto row_of = [&](int gate) { return (gate == 0 ? 0 : gate == 1 ? 2 : gate == 2 ? 3 : 1) * kHidden + unit; };
    float of_h[D::kPieces * D::kPer][4], of_x[D::kAllInRegisters ? D::kOfX : 1][4];
    w += static_cast<size_t>(way) * kGates * kInputs;
    r += static_cast<size_t>(way) * kGates * kHidden;
    b += way * 2 * kGates;
#pragma unroll
    for (int i = 0; i < D::kPieces * D::kPer; ++i) {
      const int k = (i / D::kPer * kLanes + lane) * D::kPer + i % D::kPer;
#pragma unroll
      for (int gate = 0; gate < 4; ++gate) {
        of_h[i][gate] = has_unit && k < kHidden ? to_float(r[row_of(gate) * kHidden + k]) : 0.0f;
      }
    }
#pragma unroll
    for (int i = 0; i < D::kOfX; ++i) {
      const int k = i * kLanes + lane;
#pragma unroll
      for (int gate = 0; gate < 4; ++gate) {
        const T weight = has_unit && k < kInputs ? w[row_of(gate) * kInputs + k] : from_float<T>(0.0f);
        if constexpr (D::kAllInRegisters) {
          of_x[i][gate] = to_float(weight);
        } else {
          weights[(i * D::kThreads + thread) * 4 + gate] = weight;  // no other thread reads it
        }
      }
    }

    // What a lane has after the exchange: a gate, and kTotals sequences.
    const int gate = lane / (kLanes / 4), quarter = lane % (kLanes / 4), row = first + quarter / D::kShare * kTotals;
    const bool has_h = gate % 2 == 1 && has_unit;  // lanes of forget and output make the new state
    const float bias = has_unit ? to_float(b[row_of(gate)]) + to_float(b[kGates + row_of(gate)]) : 0.0f;
    const auto state_at = [&](int i) { return (static_cast<size_t>(way) * n + row + i) * kHidden + unit; };
    float cells[kTotals], h[kTotals];
#pragma unroll
    for (int i = 0; i < kTotals; ++i) {
      const bool is_there = has_h && row + i < n;
      cells[i] = is_there ? to_float(c0[state_at(i)]) : 0.0f;
      h[i] = is_there ? to_float(h0[state_at(i)]) : 0.0f;
    }

    // The features that this thread reads of each step.
    constexpr int kRead = ceil_div(kRows * kInputs, D::kThreads);
    T read[kRead];  // not converted: that would wait for it
    const auto read_features = [&](int done) {
#pragma unroll
      for (int i = 0; i < kRead; ++i) {
        const int item = thread + i * D::kThreads, of = first + item / kInputs;
        read[i] = from_float<T>(0.0f);
        if (done < steps && item < kRows * kInputs && of < n) {
          read[i] = x[(static_cast<size_t>(step_of(done)) * n + of) * kInputs + item % kInputs];
        }
      }
    };
    const auto store_features = [&](int buffer) {
#pragma unroll
      for (int i = 0; i < kRead; ++i) {
        const int item = thread + i * D::kThreads;
        if (item < kRows * kInputs) features[buffer * D::kFeatures + item % kInputs * kRows + item / kInputs] = to_float(read[i]);
      }
    };

    // The first states are those before step 0, in buffer 1; what is past their ends stays 0.
    for (int i = thread; i < 2 * (D::kStates + D::kFeatures); i += D::kThreads) states[i] = 0.0f;
    if (kBlocks > 1 && thread < 2) init_barrier(barriers + 8 * thread);
    __syncthreads();
    if (kBlocks > 1 && thread < 2) expect_bytes(barriers + 8 * thread, 4 * kRows * kHidden);
    for (int i = thread; i < kRows * kHidden; i += D::kThreads) {
      const int of = first + i % kRows;
      if (of < n) states[D::kStates + i] = to_float(h0[(static_cast<size_t>(way) * n + of) * kHidden + i / kRows]);
    }
#pragma unroll
    for (int buffer = 0; buffer < 2; ++buffer) {
      read_features(buffer);
      store_features(buffer);
    }
    read_features(2);
    if constexpr (kBlocks > 1) {
      cluster_arrive();  // others may write here now
      cluster_wait();
    } else {
      __syncthreads();
    }

    // Nobody would wait for a block without units, which may not be sent more than it has waited for.
    if (rank >= D::kFilled) return;

    float sums[4 * kRows];  // [gate][sequence]
    const auto multiply = [&](const float (&by)[4], const float* values) {
#pragma unroll
      for (int g = 0; g < 4; ++g) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) sums[g * kRows + i] = fmaf(by[g], values[i], sums[g * kRows + i]);
      }
    };
    const auto multiply_features = [&](int buffer) {
      const float* from = features + buffer * D::kFeatures + lane * kRows;
#pragma unroll
      for (int i = 0; i < 4 * kRows; ++i) sums[i] = 0.0f;
      if constexpr (D::kAllInRegisters) {
#pragma unroll
        for (int i = 0; i < D::kOfX; ++i) multiply(of_x[i], load_vector<kRows>(from + i * kLanes * kRows).value);
      } else {
#pragma unroll D::kAtOnce
        for (int i = 0; i < D::kOfX; ++i) {
          const auto four = load_vector<4>(weights + (i * D::kThreads + thread) * 4);
          const float by[4] = {to_float(four.value[0]), to_float(four.value[1]), to_float(four.value[2]), to_float(four.value[3])};
          multiply(by, load_vector<kRows>(from + i * kLanes * kRows).value);
        }
      }
    };
    if (warp_works) multiply_features(0);

    for (int done = 0; done < steps; ++done) {
      const int here = done % 2, before = 1 - here;
      const bool is_last = done + 1 == steps;
      if (warp_works) {
        if (kBlocks > 1 && done > 0) {
          wait_for_remote(barriers + 8 * before, (done - 1) / 2 % 2);
          if (thread == 0) expect_bytes(barriers + 8 * before, 4 * kRows * kHidden);  // of the step after this one
        }
        const float* from = states + before * D::kStates + lane * 4;
#pragma unroll
        for (int piece = 0; piece < D::kPieces; ++piece) {
          const auto four = load_vector<4>(from + piece * kLanes * 4);
#pragma unroll
          for (int k = 0; k < D::kPer; ++k) multiply(of_h[piece * D::kPer + k], four.value + k * kRows);
        }
        exchange_sums<4 * kRows, kLanes / 2>(sums, thread % kWarp);
#pragma unroll
        for (int i = 0; i < kTotals; ++i) {
          const float own = activated(sums[i] + bias, gate == 2);
          const float other = __shfl_xor_sync(kAllLanes, own, kLanes / 2);
          const float added = __shfl_xor_sync(kAllLanes, own * other, kLanes / 4);  // input times cell
          cells[i] = fmaf(gate == 1 ? own : other, cells[i], added);
          h[i] = (gate == 1 ? other : own) * hyperbolic(cells[i]);
        }
        if (!is_last) {
          float all[kRows];
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            const int from_lane = thread % kWarp - quarter + i / kTotals * D::kShare;
            all[i] = D::kRowLanes == 1 ? h[i] : __shfl_sync(kAllLanes, h[i % kTotals], from_lane);
          }
          // Each of the kLanes / 2 lanes that have the new state writes it to one block.
          const unsigned to = quarter + (gate == 3 ? kLanes / 4 : 0);
          static_assert(kBlocks <= kLanes / 2, "a lane writes to one block at most");
          float* state = states + here * D::kStates + unit * kRows;
          if (has_h && to < D::kFilled) {
            if constexpr (kBlocks > 1) {
              send_remote(shared_address(state), barriers + 8 * here, to, all);
            } else {
#pragma unroll
              for (int i = 0; i < kRows; ++i) state[i] = all[i];
            }
          }
        }
#pragma unroll
        for (int i = 0; i < kTotals; ++i) {
          if (has_h && gate == 3 && quarter % D::kShare == 0 && row + i < n) {
            y[((static_cast<size_t>(step_of(done)) * kDirections + way) * n + row + i) * kHidden + unit] = from_float<T>(h[i]);
          }
        }
      }
      if (is_last) break;
      __syncthreads();  // the features of the next step are there, and those of this one are read
      if (warp_works) multiply_features(before);
      store_features(here);
      read_features(done + 3);
    }

#pragma unroll
    for (int i = 0; i < kTotals; ++i) {
      if (has_h && gate == 3 && quarter % D::kShare == 0 && row + i < n) {
        y_h[state_at(i)] = from_float<T>(h[i]);
        y_c[state_at(i)] = from_float<T>(cells[i]);
      }
    }
    // Every block has waited for all that was sent to it: none that ends is written to.
  }
}
