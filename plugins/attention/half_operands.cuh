// Operands of attention in fp16 and bf16: as they are, one product each.
//
// All threads of a block copy them, 16 bytes a thread, and go on: while they compute with keys and values, the next ones come beside them.
// Where a head has few elements, its queries stay in registers. Scores are in units of 1 / log2(e), so that exponentials are powers of two.
#pragma once

#include "attention/rounded.cuh"
#include "attention/tile.cuh"

// What is kept to turn rows that have arrived: where the memory of the team begins, and the first query.
template <bool kRotated>
struct Arrived {
  __device__ __forceinline__ Arrived(unsigned char* /* memory */, int /* first_row */) {}
};
template <>
struct Arrived<true> {
  unsigned char* const memory;
  const int first_row;
  __device__ __forceinline__ Arrived(unsigned char* memory, int first_row) : memory(memory), first_row(first_row) {}
};

template <typename T, typename Team, typename Rows>
struct Operands : Arrived<Rows::kRotated> {
  static constexpr int kThreads = Team::kThreads;
  static constexpr int kBlocks = kThreads == 256 ? (kDepth <= 64 ? 2 : 1) : kDepth <= 32 ? 5 : kDepth <= 64 ? 4 : 3;
  static constexpr int kSums = kDepth <= 32 ? 2 : 4;  // that take turns: of 8 keys or 8 columns of the values each
  static constexpr int kStepsAtOnce = kSteps;
  static constexpr float kFactor = kScale * kLog2E;  // of a product in its score
  static constexpr bool kRange = false;
  static constexpr int kLanes = kDepth <= 16 ? 2 : kDepth <= 32 ? 4 : kDepth <= 64 ? 8 : 16;  // that copy a row
  static constexpr bool kHeld = kDepth <= 64;  // queries, in registers

  // The operand of 16 rows and 16 columns that a lane holds.
  struct Left {
    unsigned words[4];

    __device__ __forceinline__ void set(int i, float a, float b) { words[i] = rounded<T>(a, b); }
  };

  template <int kCount>
  struct Sums {
    float sums[kCount][4] = {};

    template <bool kTransposed, int kNext>
    __device__ __forceinline__ void add(const Left& a, unsigned address) {
      unsigned b[kCount][2];
      load_operands<kCount, kTransposed, kNext>(b, address);
#pragma unroll
      for (int i = 0; i < kCount; ++i) dense::multiply<T>(sums[i], a.words, b[i]);
    }
    template <int kProducts>
    __device__ __forceinline__ float of(int i) const {
      return sums[i / 4][i % 4];  // what tensor cores cut off is far below the last bit of fp16
    }
  };

  // Towards zero: the least bfloat16 stays finite.
  static __device__ __forceinline__ float in_score(float added) { return __fmul_rz(added, kLog2E); }
  static __device__ __forceinline__ float exponential(float value) { return exp2_approx(value); }

  const Head<T, Rows> head;
  const unsigned keys, values, queries;  // where they lie
  Left held[kHeld ? kSteps : 1];

  __device__ __forceinline__ Operands(unsigned char* shared, const Head<T, Rows>& head, int first_row, int first_key)
      : Arrived<Rows::kRotated>(shared, first_row),
        head(head),
        keys(shared_address(shared)),
        values(keys + Tile<Team>::kKeysBytes),
        queries(values + Tile<Team>::kKeysBytes) {
    copy_rows<Tile<Team>::kRows>(queries, head.rows.from(head.q, first_row), head.m - first_row);
    begin_step(0, first_key);
  }

  // Returns how far from the first ones the keys and values of this step lie, in bytes; the keys after them begin at `next`.
  __device__ __forceinline__ unsigned bring(int step, int first_key, int next) {
    copy_async_wait<0>();
    Team::wait();  // all copies have arrived, and all have left the keys before
    if (next < head.t) begin_step(step + 1, next);
    if constexpr (Rows::kRotated) {
      if (step == 0) head.rows.template rotate<Team, Tile<Team>::kRows, true>(numbers(queries), this->first_row, head.m);
      head.rows.template rotate<Team, kKeys, false>(numbers(keys + place(step)), first_key, head.t);
      Team::wait();
    }
    if (kHeld && step == 0) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) load_matrices(held[i].words, queries + row_of_warp<Team>(i));
    }
    return place(step);
  }

  // After the last step: a team without keys has begun to copy zeros.
  __device__ __forceinline__ void leave() const {
    copy_async_wait<0>();
    Team::wait();
  }

  __device__ __forceinline__ Left query(int step) const {
    if constexpr (kHeld) return held[step];
    Left q;
    load_matrices(q.words, queries + row_of_warp<Team>(step));
    return q;
  }

 private:
  static __device__ __forceinline__ unsigned place(int step) { return step % 2 * kPart * 2; }
  __device__ __forceinline__ T* numbers(unsigned address) const { return reinterpret_cast<T*>(this->memory + (address - keys)); }

  __device__ __forceinline__ void begin_step(int step, int first_key) const {
    copy_rows<kKeys>(keys + place(step), head.rows.from(head.k, first_key), head.t - first_key);
    copy_rows<kKeys>(values + place(step), head.rows.from(head.v, first_key), head.t - first_key);
    copy_async_commit();
  }

  // Rows, and zeros beyond the last one.
  template <int kRows, typename From>
  __device__ __forceinline__ void copy_rows(unsigned to, const From& rows_from, int rows) const {
    const int first = Team::thread() / kLanes, column = Team::thread() % kLanes * Pack16<T>::kCount;
    to += (first * kPitch + column) * 2;
    const auto from = rows_from.from(first);
    if (column >= kDepth) return;
#pragma unroll
    for (int i = 0; i < kRows; i += kThreads / kLanes) {
      if (kRows % (kThreads / kLanes) != 0 && first + i >= kRows) return;
      copy_async<16>(to + i * kPitch * 2, from.row(i) + column, first + i < rows ? 16 : 0);
    }
  }
};
