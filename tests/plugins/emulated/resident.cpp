// Runs lenet5_resident, whose translated source is included, with all its threads.
#include "cuda.h"
#include "translated/lenet5/resident.cu"

extern "C" void serve(const float* requests, const float* const* weights, const unsigned* control, unsigned* ended, unsigned run,
                      unsigned first, unsigned silent_us, unsigned life_us, float* answers) {
  constexpr unsigned kBlocks = 8, kThreads = 512;
  Cluster made;
  made.threads = kBlocks * kThreads;
  for (unsigned rank = 0; rank < kBlocks; ++rank) made.blocks.push_back(std::make_unique<Block>());
  cluster = &made;
  gridDim.x = kBlocks;
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < kBlocks; ++rank) {
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([=] {
        threadIdx.x = thread, blockIdx.x = rank, allocated = 0;
        lenet5_resident(requests, weights[0], weights[1], weights[2], weights[3], weights[4], weights[5], weights[6], weights[7],
                        weights[8], weights[9], reinterpret_cast<const lenet5::Control*>(control), ended, run, first, silent_us,
                        life_us, answers);
      });
    }
  }
  for (std::thread& each : threads) each.join();
}
