// The tensor-core product of Hopper that kernels here use: d += a b with a 64x16 in registers or in shared memory, b 16xN in shared memory,
// fp16 or bfloat16, float sums, by the four warps of a warpgroup together. It compiles only for sm_90a.
//
// Warp w has rows 16 w ... of a and d, and a lane has the same elements as in mma.cuh: d[4 j ...] belong to columns 8 j ... .
// b lies in shared memory as blocks of 8 columns x 8 k (128 bytes), in which a column's 8 k are together (16 bytes); so does a, with rows for
// columns. A descriptor says where the first block begins, a multiple of 16 bytes, and how far it is to the next 8 k and to the next 8 columns:
// kWgmmaNextK and kWgmmaNextColumns, or any other multiples of 16. The threads that write an operand call publish_to_units before the
// barrier at which the others wait. Nothing may touch the sums and a's registers between wgmma_begin and wgmma_finish.
// Source: PTX ISA 9.0, asynchronous warpgroup-level matrix instructions: register fragments, matrix descriptor, no swizzling.
#pragma once

#include "common.cuh"

constexpr unsigned kWgmmaNextK = 128, kWgmmaNextColumns = 256;

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group of products.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kPending groups of this warp are under way: their operands and sums are not touched yet.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Returns the descriptor that tells a product where an operand is. Add bytes / 16 for further operands. kSwizzled: 32 where 16 of K are 32 bytes,
// swizzled as a tensor map does it (bulk.cuh), and 8 columns follow each other; then kNextK means nothing.
template <unsigned kNextK = kWgmmaNextK, unsigned kNextColumns = kWgmmaNextColumns, int kSwizzled = 0>
__device__ __forceinline__ unsigned long long wgmma_operand(unsigned address) {
  static_assert(kNextK % 16 == 0 && kNextColumns % 16 == 0 && kNextK < 1 << 18 && kNextColumns < 1 << 18);
  constexpr unsigned long long kOffsets =
      static_cast<unsigned long long>(kNextK / 16) << 16 | static_cast<unsigned long long>(kNextColumns / 16) << 32;
  static_assert(kSwizzled == 0 || kSwizzled == 32);
  return (address & 0x3ffff) / 16 | kOffsets | (kSwizzled == 32 ? 3ull << 62 : 0);
}

// Waits until kThreads threads of the block have come here: whole warps, and not all of them. `barrier`: 1 to 15, another one for each group.
template <int kThreads>
__device__ __forceinline__ void wait_for_group(int barrier = 1) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

// Gives registers back to the multiprocessor, or takes them: all warps of a warpgroup call it; kCount, of a thread, is a multiple of 8.
template <int kCount>
__device__ __forceinline__ void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Lists of operands, eight at a time.
#define WGMMA_D8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define WGMMA_D16 WGMMA_D8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define WGMMA_D24 WGMMA_D16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define WGMMA_D32 WGMMA_D24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_D40 WGMMA_D32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define WGMMA_D48 WGMMA_D40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define WGMMA_D56 WGMMA_D48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define WGMMA_D64 WGMMA_D56 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define WGMMA_D72 WGMMA_D64 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define WGMMA_D80 WGMMA_D72 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define WGMMA_D88 WGMMA_D80 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define WGMMA_D96 WGMMA_D88 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define WGMMA_D104 WGMMA_D96 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define WGMMA_D112 WGMMA_D104 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define WGMMA_D120 WGMMA_D112 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define WGMMA_D128 WGMMA_D120 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define WGMMA_FROM(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_OUT16 WGMMA_FROM(0), WGMMA_FROM(8)
#define WGMMA_OUT24 WGMMA_OUT16, WGMMA_FROM(16)
#define WGMMA_OUT32 WGMMA_OUT24, WGMMA_FROM(24)
#define WGMMA_OUT40 WGMMA_OUT32, WGMMA_FROM(32)
#define WGMMA_OUT48 WGMMA_OUT40, WGMMA_FROM(40)
#define WGMMA_OUT56 WGMMA_OUT48, WGMMA_FROM(48)
#define WGMMA_OUT64 WGMMA_OUT56, WGMMA_FROM(56)
#define WGMMA_OUT72 WGMMA_OUT64, WGMMA_FROM(64)
#define WGMMA_OUT80 WGMMA_OUT72, WGMMA_FROM(72)
#define WGMMA_OUT88 WGMMA_OUT80, WGMMA_FROM(80)
#define WGMMA_OUT96 WGMMA_OUT88, WGMMA_FROM(88)
#define WGMMA_OUT104 WGMMA_OUT96, WGMMA_FROM(96)
#define WGMMA_OUT112 WGMMA_OUT104, WGMMA_FROM(104)
#define WGMMA_OUT120 WGMMA_OUT112, WGMMA_FROM(112)
#define WGMMA_OUT128 WGMMA_OUT120, WGMMA_FROM(120)

template <typename Operand>
constexpr bool kIsBfloat16 = false;
template <>
constexpr bool kIsBfloat16<__nv_bfloat16> = true;

// One number of columns, with its sums and the numbers of the operands after them. wgmma_multiply: d = a b, or += with kAdd, a in registers;
// kTransposed: in each 8x8 block of b, the 8 columns of a k are together.
// wgmma_finish: ends a group, and waits until all products of this warp are in d. wgmma_finish_groups: the same, where all groups are ended.
// wgmma_finish_with: says that d is of products that have been waited for.
#define WGMMA_PRODUCT(columns, count, type, a, b, add, transposed, ...)                                                           \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %" #add ", 0; wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type  \
               " {" WGMMA_D##count "}, " a ", %" #b ", p, 1, 1, %" #transposed ";}"                                               \
               : WGMMA_OUT##count                                                                                                 \
               : __VA_ARGS__, "n"(kAdd ? 1 : 0), "n"(kTransposed ? 1 : 0))
#define WGMMA_OF_TYPE(columns, count, a, b, add, transposed, ...)               \
  if constexpr (kIsBfloat16<Operand>) {                                         \
    WGMMA_PRODUCT(columns, count, "bf16", a, b, add, transposed, __VA_ARGS__);  \
  } else {                                                                      \
    WGMMA_PRODUCT(columns, count, "f16", a, b, add, transposed, __VA_ARGS__);   \
  }
#define WGMMA_COLUMNS(columns, count, i0, i1, i2, i3, i4, i5, i6)                                                                   \
  template <bool kAdd, typename Operand = __half, bool kTransposed = false>                                                         \
  __device__ __forceinline__ void wgmma_multiply(float (&d)[count], const unsigned* a, unsigned long long b) {                      \
    WGMMA_OF_TYPE(columns, count, "{%" #i0 ",%" #i1 ",%" #i2 ",%" #i3 "}", i4, i5, i6, "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),  \
                  "l"(b))                                                                                                           \
  }                                                                                                                                 \
  __device__ __forceinline__ void wgmma_finish(float (&d)[count]) {                                                                 \
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" : WGMMA_OUT##count::"memory");                 \
  }                                                                                                                                 \
  __device__ __forceinline__ void wgmma_finish_groups(float (&d)[count]) {                                                          \
    asm volatile("wgmma.wait_group.sync.aligned 0;" : WGMMA_OUT##count::"memory");                                                  \
  }                                                                                                                                 \
  __device__ __forceinline__ void wgmma_finish_with(float (&d)[count]) { asm volatile("" : WGMMA_OUT##count::"memory"); }
WGMMA_COLUMNS(32, 16, 16, 17, 18, 19, 20, 21, 22)
WGMMA_COLUMNS(48, 24, 24, 25, 26, 27, 28, 29, 30)
WGMMA_COLUMNS(64, 32, 32, 33, 34, 35, 36, 37, 38)
WGMMA_COLUMNS(80, 40, 40, 41, 42, 43, 44, 45, 46)
WGMMA_COLUMNS(96, 48, 48, 49, 50, 51, 52, 53, 54)
WGMMA_COLUMNS(112, 56, 56, 57, 58, 59, 60, 61, 62)
WGMMA_COLUMNS(128, 64, 64, 65, 66, 67, 68, 69, 70)
WGMMA_COLUMNS(144, 72, 72, 73, 74, 75, 76, 77, 78)
WGMMA_COLUMNS(160, 80, 80, 81, 82, 83, 84, 85, 86)
WGMMA_COLUMNS(176, 88, 88, 89, 90, 91, 92, 93, 94)
WGMMA_COLUMNS(192, 96, 96, 97, 98, 99, 100, 101, 102)
WGMMA_COLUMNS(208, 104, 104, 105, 106, 107, 108, 109, 110)
WGMMA_COLUMNS(224, 112, 112, 113, 114, 115, 116, 117, 118)
WGMMA_COLUMNS(240, 120, 120, 121, 122, 123, 124, 125, 126)
WGMMA_COLUMNS(256, 128, 128, 129, 130, 131, 132, 133, 134)

// The same with a in shared memory; d is overwritten if `add` is false.
#define WGMMA_SHARED_PRODUCT(columns, count, type, i0, i1, i2)                                                                   \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %" #i2 ", 0; wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type  \
               " {" WGMMA_D##count "}, %" #i0 ", %" #i1 ", p, 1, 1, 0, 0;}"                                                      \
               : WGMMA_OUT##count                                                                                                \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)))
#define WGMMA_SHARED_COLUMNS(columns, count, i0, i1, i2)                                                                     \
  template <typename Operand = __half>                                                                                       \
  __device__ __forceinline__ void wgmma_multiply(float (&d)[count], unsigned long long a, unsigned long long b, bool add) {  \
    if constexpr (kIsBfloat16<Operand>) {                                                                                    \
      WGMMA_SHARED_PRODUCT(columns, count, "bf16", i0, i1, i2);                                                              \
    } else {                                                                                                                 \
      WGMMA_SHARED_PRODUCT(columns, count, "f16", i0, i1, i2);                                                               \
    }                                                                                                                        \
  }
WGMMA_SHARED_COLUMNS(64, 32, 32, 33, 34)
WGMMA_SHARED_COLUMNS(112, 56, 56, 57, 58)
WGMMA_SHARED_COLUMNS(128, 64, 64, 65, 66)
