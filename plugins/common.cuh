// Device helpers that several kernels share: storage type <-> float, NaN-propagating max, 16-byte and streaming accesses,
// addresses in shared memory, sums over lanes, integers that are compiled in.
//
// Everything here compiles for sm_75 and newer, with NVRTC and with nvcc. Kernels keep numbers in the storage type T of
// their arguments (float, __half or __nv_bfloat16) and do arithmetic in float.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// ---- what the declaration says of a launch ------------------------------------------------------------------------------

// Compares the geometry of a `__global__` function with the declaration's: threads a block and bytes of dynamic shared memory. The
// step that compiles a variant defines LAUNCH_ENTRY (a string), LAUNCH_THREADS, LAUNCH_BLOCK_X (the threads along x) and, where
// static axes and types decide it, LAUNCH_SHARED_BYTES. Functions of other variants in the same file are not compared.
#define ASSERT_LAUNCH(entry, threads, shared_bytes) ASSERT_LAUNCH_OF(entry, threads, shared_bytes)  // expands macros in `entry`
#define ASSERT_LAUNCH_OF(entry, threads, shared_bytes)                                                                 \
  static_assert(!is_launched(#entry) || LAUNCH_THREADS == (threads), #entry " is declared with another number of threads"); \
  static_assert(!is_launched(#entry) || LAUNCH_SHARED_BYTES == (shared_bytes), #entry " is declared with other shared memory")

// The same for a function that takes its number of threads from the declaration: `fits` says for which it is written.
#define ASSERT_LAUNCH_WHERE(entry, fits, shared_bytes)                                                                           \
  static_assert(!is_launched(#entry) || (LAUNCH_THREADS == LAUNCH_BLOCK_X && (fits)), #entry " is declared with other threads"); \
  static_assert(!is_launched(#entry) || LAUNCH_SHARED_BYTES == (shared_bytes), #entry " is declared with other shared memory")

__host__ __device__ constexpr bool is_launched(const char* name, const char* entry = LAUNCH_ENTRY) {
  return *name == *entry && (*name == 0 || is_launched(name + 1, entry + 1));
}

// ---- kernels that follow each other --------------------------------------------------------------------------------------

// A kernel may be launched before the one in front of it has ended (programmatic dependent launch, sm_90). In a usual launch these do nothing.

// Waits for the end of the kernel in front, and for all that it wrote. It is the first statement of most kernels. Before it a kernel may begin
// to copy or load weights, which no kernel writes, and touch no other tensor.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next launch now, and not only when all blocks have ended; a kernel calls it behind its wait. It pays where the next kernel copies its
// weights meanwhile. Blocks that only wait took up to 8% longer: they lie where there happens to be room, several on one multiprocessor and none
// on others.
__device__ __forceinline__ void allow_next_kernel() {
#if __CUDA_ARCH__ == 900  // no kernel copies weights so on another architecture
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Whether rows are so few that early launches pay. In a transformer the layers around a tensor of so many numbers, with up to four times as many
// outputs, have so few tiles by wgmma that blocks divide their inputs, and these copy weights before they wait (linear/by_wgmma.cuh).
constexpr int kFewNumbers = 1 << 18;
template <int kFeatures>
__device__ __forceinline__ bool are_few(int rows) {
  return rows <= kFewNumbers / kFeatures;
}

// ---- integers, lanes ---------------------------------------------------------------------------------------------------

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }
__host__ __device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int larger(int a, int b) { return a < b ? b : a; }
// The greatest of 4, 2 and 1 that divides an extent.
__host__ __device__ constexpr int divisor_of(int extent) { return extent % 4 == 0 ? 4 : extent % 2 == 0 ? 2 : 1; }

constexpr unsigned kAllLanes = 0xffffffffu;  // of a warp, as the mask of instructions that all of them execute together

// The largest of what all lanes have.
__device__ __forceinline__ unsigned warp_max(unsigned value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, value);
#else
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(kAllLanes, value, offset));
  return value;
#endif
}

// ---- storage type <-> float ------------------------------------------------------------------------------------------

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// ---- maximum and ReLU as ONNX and torch define them: NaN in, NaN out ---------------------------------------------------
// fmaxf returns the other operand when one is NaN, so it would hide a NaN. One instruction from sm_80 on, two before.

__device__ __forceinline__ float max_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return (a > b || a != a) ? a : b;  // a NaN in b makes the comparison false and is returned
#endif
}

__device__ __forceinline__ __half2 max_nan(__half2 a, __half2 b) {
#if __CUDA_ARCH__ >= 800
  return __hmax2_nan(a, b);
#else
  return __floats2half2_rn(max_nan(__low2float(a), __low2float(b)), max_nan(__high2float(a), __high2float(b)));
#endif
}

// The same of the two numbers of a word, fp16 or bfloat16; from sm_80 on.
template <typename T>
__device__ __forceinline__ unsigned max_nan_pairs(unsigned a, unsigned b);
#if __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ unsigned max_nan_pairs<__half>(unsigned a, unsigned b) {
  unsigned result;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
template <>
__device__ __forceinline__ unsigned max_nan_pairs<__nv_bfloat16>(unsigned a, unsigned b) {
  unsigned result;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
#endif

// What every other number is larger than.
__device__ __forceinline__ float lowest() { return __int_as_float(0xff800000); }

__device__ __forceinline__ float relu_nan(float value) { return max_nan(value, 0.0f); }
__device__ __forceinline__ __half2 relu_nan(__half2 value) { return max_nan(value, __float2half2_rn(0.0f)); }

// ---- exponentials ------------------------------------------------------------------------------------------------------

constexpr float kLog2E = 1.4426950408889634f;

// 2^value, to 2^-22; what is no normal number becomes 0.
__device__ __forceinline__ float exp2_approx(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// exp(value): the product with log2 e is rounded, so it loses digits as |value| grows, as __expf does.
__device__ __forceinline__ float exp_approx(float value) { return exp2_approx(value * kLog2E); }

// 1 / value, to 2^-23; of what is no normal number, or would be none, it is infinity or 0. It is one instruction where __fdividef has seven.
__device__ __forceinline__ float reciprocal_approx(float value) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// To a few units in the last place; where exp is infinite it is 0. Of a NaN it is NaN.
__device__ __forceinline__ float sigmoid(float x) { return reciprocal_approx(1.0f + exp_approx(-x)); }

// ---- wide accesses ------------------------------------------------------------------------------------------------------

// kCount neighbouring T, loaded and stored at once; its bytes are a power of two, at most 16.
template <typename T, int kCount_>
struct alignas(kCount_ * sizeof(T)) Vector {
  static constexpr int kCount = kCount_;
  T value[kCount];
};

// As many T as fit in 16 bytes: the widest access that one thread makes on every architecture supported.
template <typename T>
using Pack16 = Vector<T, 16 / static_cast<int>(sizeof(T))>;

// One load; the bytes are a power of two, at most 16.
template <int kCount, typename T>
__device__ __forceinline__ Vector<T, kCount> load_vector(const T* address) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  Vector<T, kCount> vector;
  if constexpr (kBytes == 16) {
    *reinterpret_cast<uint4*>(&vector) = *reinterpret_cast<const uint4*>(address);
  } else if constexpr (kBytes == 8) {
    *reinterpret_cast<uint2*>(&vector) = *reinterpret_cast<const uint2*>(address);
  } else if constexpr (kBytes == 4) {
    *reinterpret_cast<unsigned*>(&vector) = *reinterpret_cast<const unsigned*>(address);
  } else {
    static_assert(kCount == 1, "no load of this width");
    vector.value[0] = *address;
  }
  return vector;
}

// One store to global memory: NVVM 13.0 splits an assignment of a whole Vector into its elements, hence the assembly.
template <typename T, int kCount>
__device__ __forceinline__ void store_vector(T* address, const Vector<T, kCount>& vector) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  const size_t to = __cvta_generic_to_global(address);
  const unsigned* words = reinterpret_cast<const unsigned*>(&vector);
  if constexpr (kBytes == 16) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(words[0]), "r"(words[1]) : "memory");
  } else if constexpr (kBytes == 4) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(words[0]) : "memory");
  } else {
    static_assert(kCount == 1, "no store of this width");
    *address = vector.value[0];
  }
}

// The same, for data that is written once and not read soon: the first to be evicted from L2.
template <typename T, int kCount>
__device__ __forceinline__ void store_vector_streaming(T* address, const Vector<T, kCount>& vector) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  const unsigned* words = reinterpret_cast<const unsigned*>(&vector);
  if constexpr (kBytes == 16) {
    __stcs(reinterpret_cast<uint4*>(address), make_uint4(words[0], words[1], words[2], words[3]));
  } else if constexpr (kBytes == 8) {
    __stcs(reinterpret_cast<uint2*>(address), make_uint2(words[0], words[1]));
  } else {
    static_assert(kBytes == 4, "no store of this width");
    __stcs(reinterpret_cast<unsigned*>(address), words[0]);
  }
}

template <typename T>
__device__ __forceinline__ Pack16<T> pack_from_bits(uint4 bits) {
  Pack16<T> pack;
  *reinterpret_cast<uint4*>(&pack) = bits;
  return pack;
}

// `address` must be 16-byte aligned in both.
template <typename T>
__device__ __forceinline__ Pack16<T> load16(const T* address) {
  return pack_from_bits<T>(*reinterpret_cast<const uint4*>(address));
}

// For data that is read once: the first to be evicted from the caches.
template <typename T>
__device__ __forceinline__ Pack16<T> load16_streaming(const T* address) {
  return pack_from_bits<T>(__ldcs(reinterpret_cast<const uint4*>(address)));
}

// An address in shared memory, as PTX takes it.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Shows the units that read shared memory beside the threads (bulk copies, wgmma) what this thread wrote there, and the barriers that it made.
__device__ __forceinline__ void publish_to_units() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- warp sums ---------------------------------------------------------------------------------------------------------

// Adds sums[r] over kLanes = 2 * kOffset neighbouring lanes, for kCount rows at once: at each step a lane gives away half of its
// rows, so 8 rows of 16 lanes take 8 shuffles, not 32. Returns the first of the rows whose totals this lane ends up with, in
// sums[0] ...: kCount / kLanes rows, or one that kLanes / kCount lanes share. All 32 lanes must call.
template <int kCount, int kOffset>
__device__ __forceinline__ int exchange_sums(float* sums, int lane) {
  if constexpr (kOffset == 0) {
    return 0;
  } else if constexpr (kCount == 1) {
    sums[0] += __shfl_xor_sync(kAllLanes, sums[0], kOffset);
    return exchange_sums<1, kOffset / 2>(sums, lane);
  } else {
    constexpr int kHalf = kCount / 2;
    const bool upper = lane & kOffset;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float given = upper ? sums[i] : sums[i + kHalf], kept = upper ? sums[i + kHalf] : sums[i];
      sums[i] = kept + __shfl_xor_sync(kAllLanes, given, kOffset);
    }
    return (upper ? kHalf : 0) + exchange_sums<kHalf, kOffset / 2>(sums, lane);
  }
}
