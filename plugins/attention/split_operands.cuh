// Operands of attention in floats: two fp16 numbers each (split.cuh), of which three products stand for one of floats.
//
// All threads of a block split queries once, and keys and values each time, 4 columns a thread. Shared memory has the hi of all rows and
// then their lo.
#pragma once

#include "attention/tile.cuh"
#include "split_floats/split.cuh"

template <typename Team, typename Rows>
struct Operands<float, Team, Rows> {
  static constexpr int kThreads = Team::kThreads;
  // How many have the registers of a multiprocessor. With four small ones of 64 elements a head, the compiler spills.
  static constexpr int kBlocks = kThreads == 256 ? (kDepth <= 64 ? 2 : 1) : kDepth <= 32 ? 4 : kDepth <= 64 ? 3 : 2;
  static constexpr int kSums = 4;          // that take turns: of 8 keys or 8 columns of the values each
  static constexpr int kStepsAtOnce = 4;   // whose sums the tensor cores add up, before they are added as floats
  static constexpr float kFactor = 1.0f;   // of a product in its score: queries are split with the scale
  static constexpr bool kRange = true;     // a number beyond fp16 becomes NaN, and lo of a small one is not exact

  // The operand of 16 rows and 16 columns that a lane holds.
  struct Left {
    unsigned hi[4], lo[4];

    __device__ __forceinline__ void set(int i, float a, float b) { split(a, b, hi[i], lo[i]); }
  };

  template <int kCount>
  struct Sums {
    float high[kCount][4] = {}, low[kCount][4] = {};

    template <bool kTransposed, int kNext>
    __device__ __forceinline__ void add(const Left& a, unsigned address) {
      unsigned b_hi[kCount][2], b_lo[kCount][2];
      load_operands<kCount, kTransposed, kNext>(b_hi, address);
      load_operands<kCount, kTransposed, kNext>(b_lo, address + kPart * 2);
#pragma unroll
      for (int i = 0; i < kCount; ++i) dense::multiply<__half>(high[i], a.hi, b_hi[i]);
#pragma unroll
      for (int i = 0; i < kCount; ++i) dense::multiply<__half>(low[i], a.hi, b_lo[i]);
#pragma unroll
      for (int i = 0; i < kCount; ++i) dense::multiply<__half>(low[i], a.lo, b_hi[i]);
    }
    template <int kProducts>
    __device__ __forceinline__ float of(int i) const {
      return joined_sum<kProducts>(high[i / 4][i % 4], low[i / 4][i % 4]);
    }
  };

  static __device__ __forceinline__ float in_score(float added) { return added; }
  static __device__ __forceinline__ float exponential(float value) { return exp_approx(value); }

  const Head<float, Rows> head;
  __half *const of_keys, *const of_values, *const of_queries;
  const unsigned keys, values, queries;  // where they lie

  __device__ __forceinline__ Operands(unsigned char* shared, const Head<float, Rows>& head, int first_row, int /* first_key */)
      : head(head),
        of_keys(reinterpret_cast<__half*>(shared)),
        of_values(of_keys + 2 * kPart),
        of_queries(of_values + 2 * kPart),
        keys(shared_address(of_keys)),
        values(shared_address(of_values)),
        queries(shared_address(of_queries)) {
    split_rows<Tile<Team>::kRows>(of_queries, head.rows.from(head.q, first_row), head.m - first_row, kScale);
  }

  // Returns how far from the first ones the keys and values of this step lie, in bytes.
  __device__ __forceinline__ unsigned bring(int step, int first_key, int /* next */) const {
    if (step != 0) Team::wait();  // all have left the keys before
    split_rows<kKeys>(of_keys, head.rows.from(head.k, first_key), head.t - first_key, 1.0f);
    split_rows<kKeys>(of_values, head.rows.from(head.v, first_key), head.t - first_key, 1.0f);
    Team::wait();
    return 0;
  }

  // After the last step.
  __device__ __forceinline__ void leave() const { Team::wait(); }

  __device__ __forceinline__ Left query(int step) const {
    Left q;
    load_matrices(q.hi, queries + row_of_warp<Team>(step));
    load_matrices(q.lo, queries + row_of_warp<Team>(step) + Tile<Team>::kQueries * 2);
    return q;
  }

 private:
  // Rows times `factor`; zeros beyond the last one. All loads of a thread begin before it stores: memory answers late.
  template <int kRows, typename From>
  __device__ __forceinline__ void split_rows(__half* to, const From& from, int rows, float factor) const {
    constexpr int kPieces = kDepth / 4, kUnits = kRows * kPieces, kAtOnce = 8;
#pragma unroll
    for (int first = 0; first < kUnits; first += kAtOnce * kThreads) {
      Vector<float, 4> x[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int unit = first + i * kThreads + Team::thread(), row = unit / kPieces, column = unit % kPieces * 4;
        if (first + i * kThreads < kUnits) x[i] = load_vector<4>(from.row(row < rows ? row : 0) + column);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int unit = first + i * kThreads + Team::thread(), row = unit / kPieces, column = unit % kPieces * 4;
        if (first + i * kThreads >= kUnits || (kUnits % kThreads != 0 && row >= kRows)) continue;
        const float of_row = row < rows ? factor : 0.0f;
        uint2 hi, lo;
        split(x[i].value[0] * of_row, x[i].value[1] * of_row, hi.x, lo.x);
        split(x[i].value[2] * of_row, x[i].value[3] * of_row, hi.y, lo.y);
        *reinterpret_cast<uint2*>(to + row * kPitch + column) = hi;
        *reinterpret_cast<uint2*>(to + kRows * kPitch + row * kPitch + column) = lo;
      }
    }
  }
};
