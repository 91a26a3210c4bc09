// Take requests from a ring in the host's memory, by looking at the data itself, and tell when nobody asks any more.
//
// A slot is filled with ones while it is empty; a request is there when no word of it is all ones. So a request is found and read
// by the same loads. Where its data has such words, `full` of the slot tells: the host sets it after the data.
// lenet_trt/runtimes/latency/ring.py has the other side, and the layout.
#pragma once

namespace lenet5 {

constexpr unsigned kSlots = 4;
constexpr unsigned kMissing = 0xffffffffu;

// Words that the host writes: it counts `beat` to say that it lives, sets `stop` to end the kernel, and full[slot] to the number of
// the request in the slot, plus one.
struct alignas(8) Control {
  unsigned beat, stop, unused[14];
  unsigned full[kSlots];
};

__device__ __forceinline__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ unsigned host_word(const unsigned* address) {
  unsigned word;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
  return word;
}

// kWords neighbouring words of the host's memory.
template <int kWords>
__device__ __forceinline__ void host_words(unsigned (&word)[kWords], const void* address) {
  static_assert(kWords == 2 || kWords == 4, "words a load");
  if constexpr (kWords == 4) {
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "l"(address)
                 : "memory");
  } else {
    asm volatile("ld.relaxed.sys.global.v2.u32 {%0, %1}, [%2];" : "=r"(word[0]), "=r"(word[1]) : "l"(address) : "memory");
  }
}

__device__ __forceinline__ void host_store(float* address, float value) {
  asm volatile("st.relaxed.sys.global.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}
__device__ __forceinline__ void host_store(__half* address, __half value) {
  asm volatile("st.relaxed.sys.global.u16 [%0], %1;" ::"l"(address), "h"(__half_as_ushort(value)) : "memory");
}

// Whether it is so for one of the kThreads threads that come to this barrier.
template <int kBarrier, int kThreads>
__device__ __forceinline__ bool any_of(bool mine) {
  int any;
  asm volatile(
      "{\n\t"
      ".reg .pred mine, any;\n\t"
      "setp.ne.s32 mine, %1, 0;\n\t"
      "barrier.cta.red.or.pred any, %2, %3, mine;\n\t"
      "selp.s32 %0, 1, 0, any;\n\t"
      "}"
      : "=r"(any)
      : "r"(static_cast<int>(mine)), "n"(kBarrier), "n"(kThreads)
      : "memory");
  return any;
}

// Knows when to give up: the host asked for it, was silent for too long, or the kernel has run long enough.
struct Watch {
  const Control* control;
  unsigned long long begun, heard;   // the heard time is old where `asked`: the next check renews it
  unsigned long long silence, life;  // nanoseconds
  unsigned beat, looks;
  bool asked;

  __device__ __forceinline__ void begin(const Control* words, unsigned silent_us, unsigned life_us) {
    control = words;
    begun = heard = nanoseconds();
    silence = silent_us * 1000ull, life = life_us * 1000ull;
    beat = host_word(&words->beat);
    looks = 0;
    asked = false;
  }

  __device__ __forceinline__ bool over(unsigned beat_now, unsigned stop) {
    const unsigned long long now = nanoseconds();
    if (asked || beat_now != beat) beat = beat_now, heard = now, asked = false;
    return stop != 0 || now - heard > silence || now - begun > life;
  }
};

// Takes request `number` of the ring: kWords words at `address` for each thread that `takes` some. Returns false where it gave up.
// All threads look together until none misses a word, so that none is a look behind. Now and then the one that `leads` looks at the
// control words as well, by loads that are under way together; it alone, since reads of one line of the host's memory wait for each
// other. After kHot looks without a request they rest between looks, since each look crosses the bus.
template <int kBarrier, int kThreads, int kWords>
__device__ __forceinline__ bool take(unsigned (&word)[kWords], const void* address, unsigned number, bool takes, bool leads,
                                     Watch& watch) {
  constexpr unsigned kCheck = 16, kHot = 1024, kRestNs = 1000;
  unsigned seen_full = 0;
  for (unsigned spin = 0;; ++spin) {
    const bool due = ++watch.looks % kCheck == 0;
    bool missing = false;
    unsigned said[2] = {}, full = 0;
    if (takes) host_words(word, address);
    if (due && leads) {
      host_words(said, &watch.control->beat);
      full = host_word(&watch.control->full[number % kSlots]);
    }
    if (takes) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) missing |= word[i] == kMissing;
    }
    if (!any_of<kBarrier, kThreads>(missing)) break;
    if (due) {
      // The third sight is much later than the first, so the data is here, whatever the order of the host's writes.
      if (any_of<kBarrier, kThreads>(leads && full == number + 1 && ++seen_full == 3)) break;
      if (any_of<kBarrier, kThreads>(leads && watch.over(said[0], said[1]))) return false;
    }
    if (spin > kHot) __nanosleep(kRestNs);
  }
  watch.asked = true;
  return true;
}

}  // namespace lenet5
