// The second launch for long sequences: attention by wgmma, in fp16 and bfloat16, of tiles that lie ready (arranged.cuh), with a mask.
//
// Mapping: a block stays and takes part after part: a head and 128 of its queries, 64 for each of two warpgroups. These go over the keys, 128 at a time,
// as in by_wgmma.cuh. A warp of one more warpgroup lets tiles be copied, each by one bulk copy, into a ring: keys, then those of the next step and the
// values, in the order in which they are multiplied.
//
// Tiles that the mask hides are left out: whose shares would all be 0. A score is at most the product of the largest numbers of queries and keys
// times the number of elements; if what the mask adds in a tile is so far below that which each of the queries has somewhere, the exponential is 0.
// Where a number is not finite, the bound is not, and nothing is left out.
// Bytes: q and y once; k and v once for each part, from L2; the mask where it adds something.
#pragma once

#include "attention/arranged.cuh"
#include "attention/wgmma_rows.cuh"
#include "copies.cuh"
#include "split_floats/stages.cuh"

constexpr int kMultipliers = 2, kReaders = 4 * kMultipliers, kLoadRegisters = 24;  // warpgroups and their warps; of a thread
static_assert(kTileRows == 64 * kMultipliers);

// A ring of tiles, behind it the queries of two parts, and for each of these the barriers that say when they are there and not needed any more. The
// warp that loads leaves notes: which part it is, and which tile of keys a stage has.
struct TilePlan {
  static constexpr int kStages = 5;
  static constexpr unsigned kStageBytes = kTileBytes, kQueries = kStages * (kStageBytes + 16);
  static constexpr unsigned kParts = kQueries + 2 * kTileBytes, kNotes = kParts + 2 * 32, kSharedBytes = kNotes + 4 * kStages;
};
struct TileRing : Stages<TilePlan, kReaders, 1> {
  using Stages<TilePlan, kReaders, 1>::Stages;

  // Of the part `count` of a block.
  __device__ __forceinline__ unsigned queries(int count) const { return address + TilePlan::kQueries + count % 2 * kTileBytes; }
  __device__ __forceinline__ unsigned ready(int count) const { return address + TilePlan::kParts + count % 2 * 32; }
  __device__ __forceinline__ unsigned free(int count) const { return ready(count) + 8; }
  __device__ __forceinline__ int& part(int count) const { return *reinterpret_cast<int*>(stages + TilePlan::kParts + count % 2 * 32 + 16); }
  __device__ __forceinline__ unsigned char* at(unsigned place) const { return stages + (place - address); }
  // Of the keys in a stage.
  __device__ __forceinline__ unsigned& note(int stage) const { return reinterpret_cast<unsigned*>(stages + TilePlan::kNotes)[stage]; }
};

// A tile of keys: which one, whether the mask adds something, and whether no more come after it.
struct Note {
  static constexpr unsigned kAdds = 1, kLast = 2, kTile = 4;
  unsigned bits;

  __device__ __forceinline__ int tile() const { return static_cast<int>(bits / kTile); }
  __device__ __forceinline__ bool adds() const { return bits & kAdds; }
  __device__ __forceinline__ bool last() const { return bits & kLast; }
};

// A head and a tile of its queries. Those of the last tokens come first: a causal mask leaves them the most keys.
struct TiledPart {
  int image, head, tile;

  __device__ __forceinline__ TiledPart(int number, int images, const Arranged& of) {
    const int heads = images * of.heads;
    tile = of.tiles - 1 - number / heads;
    image = number % heads / of.heads, head = number % of.heads;
  }
};

// The tiles of keys that a mask does not hide from a part, one after the other. All lanes of a warp call it together.
struct SeenTiles {
  const MaskTile* __restrict__ of_mask;
  const int count;
  float limit;  // what a mask adds at least in a tile that counts
  int first = -32;
  unsigned seen = 0, adding = 0;  // of 32 tiles, a bit each

  __device__ __forceinline__ SeenTiles(const TiledPart& part, int repeats, const WindowMask& mask, const Arranged& of) : count(of.tiles) {
    const int lane = threadIdx.x % 32, of_matrix = ceil_div(mask.rows, kTileRows);
    of_mask = of.mask_tiles + static_cast<size_t>(mask.matrix(part.image, part.head) * of_matrix + (mask.rows == 1 ? 0 : part.tile)) * count;
    const float* const keys = of.largest + of.number(part.image, of.heads + part.head / repeats, 0);
    const float* const values = keys + static_cast<size_t>(of.groups) * count;
    unsigned largest = 0;
    float least = softmax::nothing();
    for (int tile = lane; tile < count; tile += 32) {
      largest = max(largest, max(__float_as_uint(keys[tile]), __float_as_uint(values[tile])));
      least = fmaxf(least, of_mask[tile].least);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) least = fmaxf(least, __shfl_xor_sync(kAllLanes, least, offset));
    const float of_query = of.largest[of.number(part.image, part.head, part.tile)], of_key = __uint_as_float(warp_max(largest));
    constexpr float kNone = 128.0f;  // exp(-kNone) is no normal float
    limit = least - 2.0f * kDepth * fabsf(kScale) * of_query * of_key - kNone;
  }

  // Takes the next one, if there is one more.
  __device__ __forceinline__ bool next(Note& note) {
    while (seen == 0) {
      first += 32;
      if (first >= count) return false;
      const int mine = first + threadIdx.x % 32;
      const MaskTile of_lane = of_mask[smaller(mine, count - 1)];
      seen = __ballot_sync(kAllLanes, mine < count && !(of_lane.most < limit));
      adding = __ballot_sync(kAllLanes, of_lane.adds != 0.0f);
    }
    const int i = __ffs(static_cast<int>(seen)) - 1;
    seen &= seen - 1;
    note.bits = (first + i) * Note::kTile + (adding >> i & 1) * Note::kAdds;
    return true;
  }
};

// Scores get their factor, and what the mask adds; -infinity behind the last key. In place of what is beyond the end the last keys are read.
template <bool kPairs>
__device__ __forceinline__ void add_mask(float (&scores)[kTileRows / 2], const WindowMask::Row (&mask)[2], int first_key, int keys) {
  constexpr int kAtOnce = 4;  // blocks of 8 keys
#pragma unroll
  for (int first = 0; first < kTileRows / 8; first += kAtOnce) {
    Vector<T, 2> added[kAtOnce][2];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int at = smaller(first_key + key_of(4 * (first + i)), keys - (kPairs ? 2 : 1));
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if constexpr (kPairs) {
          added[i][r] = load_vector<2>(mask[r].row + at);
        } else {
          added[i][r] = {{mask[r].row[at], mask[r].row[smaller(at + 1, keys - 1)]}};
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4 * kAtOnce; ++i) {
      float& score = scores[4 * first + i];
      // Towards zero: the least bfloat16 stays finite.
      score = fmaf(score, kScale * kLog2E, __fmul_rz(to_float(added[i / 4][i / 2 % 2].value[i % 2]), kLog2E));
      if (first_key + key_of(4 * first + i) >= keys) score = softmax::nothing();
    }
  }
}

// What the warp that loads does.
template <int kRepeats, typename Layer>
__device__ __forceinline__ void load_parts(const TileRing& ring, const Layer& layer, int images, const Arranged& from) {
  if (threadIdx.x >= 32) return;
  const int lane = threadIdx.x, parts = from.tiles * images * from.heads;
  Turn<TilePlan> turn;
  const auto load = [&](size_t number, Note note) {
    wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
    if (lane == 0) {
      ring.note(turn.stage) = note.bits;
      expect_bytes(ring.full(turn.stage), kTileBytes);
      begin_bulk_copy(ring.address + turn.stage * kTileBytes, from.tile(number), kTileBytes, ring.full(turn.stage));
    }
    turn.advance();
  };
#pragma unroll 1
  for (int count = 0;; ++count) {
    int number = 0;
    if (lane == 0) number = atomicAdd(from.next_part, 1);
    number = __shfl_sync(kAllLanes, number, 0);
    wait_for_bytes(ring.free(count), count / 2 % 2 ^ 1);
    if (lane == 0) ring.part(count) = number < parts ? number : -1;
    if (number >= parts) {
      if (lane == 0) arrive(ring.ready(count));
      return;
    }
    const TiledPart part(number, images, from);
    if (lane == 0) {
      expect_bytes(ring.ready(count), kTileBytes);
      begin_bulk_copy(ring.queries(count), from.tile(from.number(part.image, part.head, part.tile)), kTileBytes, ring.ready(count));
    }
    SeenTiles tiles(part, kRepeats, layer.mask, from);
    const size_t keys = from.number(part.image, from.heads + part.head / kRepeats, 0), values = keys + static_cast<size_t>(from.groups) * from.tiles;
    Note note, following;
    tiles.next(following);  // each query has a key in one of them, or none is left out
    int before = -1;
    do {
      note = following;
      if (!tiles.next(following)) note.bits += Note::kLast;
      load(keys + note.tile(), note);
      if (before >= 0) load(values + before, note);
      before = note.tile();
    } while (!note.last());
    load(values + before, note);
  }
}

// Stores the results of a warp's 16 rows, from `first` of the part on. They go through a tile in shared memory at `to`, so that a lane stores 16 bytes.
template <typename Layer>
__device__ __forceinline__ void store_rows_by_tile(const Layer& layer, const TiledPart& part, int first, unsigned char* to, const TwoRows& rows,
                                                   const float (&sums)[kDepth / 2]) {
  const int lane = threadIdx.x % 32;
  to += lane / 8 * kNextColumns + lane % 8 * 16;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float share = share_of<Layer>(rows.total[r]);
#pragma unroll
    for (int block = 0; block < kDepth / kEight; block += 4) {
      unsigned words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const pair = sums + 4 * (block + i) + 2 * r;
        words[i] = rounded<T>(pair[0] * share, pair[1] * share);
      }
      store_matrices(shared_address(to + r * kNextRows + block * kNextColumns), words);
    }
  }
  __syncwarp();  // a lane reads what four have written
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = part.tile * kTileRows + first + 8 * r + lane % 8;
    if (row >= layer.m) continue;
    T* const out = layer.result(part.image, part.head, row) + lane / 8 * kEight;
#pragma unroll
    for (int block = 0; block < kDepth / kEight; block += 4) {
      *reinterpret_cast<uint4*>(out + block * kEight) = *reinterpret_cast<const uint4*>(to + r * kNextRows + block * kNextColumns);
    }
  }
}

// What a warpgroup that multiplies does.
template <int kRepeats, typename Layer>
__device__ __forceinline__ void multiply_parts(const TileRing& ring, const Layer& layer, int images, const Arranged& from) {
  const int group = warpgroup() - 1, lane = threadIdx.x % 32;
  const int row_of_warp = threadIdx.x % kRole / 32 * 16, row_of_part = group * 64 + row_of_warp + lane / 4;  // the lane has it and the one 8 further
  Turn<TilePlan> turn;
#pragma unroll 1
  for (int count = 0;; ++count) {
    wait_for_bytes(ring.ready(count), count / 2 % 2);
    const int number = ring.part(count);
    if (number < 0) return;
    const TiledPart part(number, images, from);
    const int row = part.tile * kTileRows + row_of_part;
    const unsigned queries = ring.queries(count) + group * (64 / kEight) * kNextRows;
    TwoRows rows;
    float scores[kTileRows / 2], sums[kDepth / 2] = {};
    unsigned shares[kTileRows / 16][4];
    const auto wait = [&] {  // returns the stage
      const int stage = turn.stage;
      wait_for_bytes(ring.full(stage), turn.parity);
      turn.advance();
      return stage;
    };
    const auto give_back = [&](int stage) {
      if (lane == 0) arrive(ring.empty(stage));
    };
    const auto place = [&](int stage) { return ring.address + stage * kTileBytes; };
    int stage = wait(), before = -1;  // before: whose values may still be multiplied
    Note note = {ring.note(stage)};
    wgmma_begin();
    multiply_keys<kNextColumns, kNextRows>(scores, queries, place(stage));
    wgmma_finish(scores);
    give_back(stage);
#pragma unroll 1
    while (true) {
      float kept[2];
      const int first_key = note.tile() * kTileRows;
      if (note.adds()) {
        const WindowMask::Row mask[2] = {layer.mask.row(part.image, part.head, smaller(row, layer.m - 1)),
                                         layer.mask.row(part.image, part.head, smaller(row + 8, layer.m - 1))};
        if (layer.t % 2 == 0) {
          add_mask<true>(scores, mask, first_key, layer.t);
        } else {
          add_mask<false>(scores, mask, first_key, layer.t);
        }
        rows.exponentials_of<true>(scores, kept, kTileRows);
      } else {
        rows.exponentials_of(scores, kept, layer.t - first_key);
      }
      wgmma_finish_groups(sums);
      if (before >= 0) give_back(before);
      if (__any_sync(kAllLanes, kept[0] != 1.0f || kept[1] != 1.0f)) {
#pragma unroll
        for (int i = 0; i < kDepth / 2; ++i) sums[i] *= kept[i / 2 % 2];
      }
      round_shares(shares, scores);
      if (note.last()) break;
      stage = wait();
      note.bits = ring.note(stage);
      wgmma_begin();
      multiply_keys<kNextColumns, kNextRows>(scores, queries, place(stage));
      wgmma_commit();
      wgmma_wait<1>();  // for none: a group of their own
      before = wait();
      wgmma_begin();
      multiply_values<kNextColumns, kNextRows>(sums, shares, place(before));
      wgmma_commit();
      wgmma_wait<1>();  // for the scores
      wgmma_finish_with(scores);
      give_back(stage);
    }
    before = wait();
    wgmma_begin();
    multiply_values<kNextColumns, kNextRows>(sums, shares, place(before));
    wgmma_finish(sums);
    give_back(before);
    wait_for_group<kRole>(1 + group);  // all its warps have multiplied the queries, in whose place the results come
    store_rows_by_tile(layer, part, row_of_part - lane / 4, ring.at(queries + row_of_warp / kEight * kNextRows), rows, sums);
    publish_to_units();
    __syncwarp();
    if (lane == 0) arrive(ring.free(count));
  }
}

template <int kRepeats, typename Layer>
__device__ __forceinline__ void attention_by_arranged_tiles(unsigned char* shared, const Layer& layer, int images, const Arranged& from) {
  const TileRing ring(shared);
  if (threadIdx.x == 0) {
    ring.init();
    for (int count = 0; count < 2; ++count) {
      init_barrier(ring.ready(count), 1);
      init_barrier(ring.free(count), kReaders);
    }
  }
  __syncthreads();
  in_roles<kLoadRegisters, kMultipliers + 1>([=] { load_parts<kRepeats>(ring, layer, images, from); },
                                             [=] { multiply_parts<kRepeats>(ring, layer, images, from); });
}
