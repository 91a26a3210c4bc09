// lenet5_tensor_core_99k: lenet5_tensor_core within 99 KB of shared memory, which is all that a block gets on sm_86, sm_89 and
// sm_120: eight warps and features of 32 images instead of sixteen and 80.
#define LENET5_ENTRY lenet5_tensor_core_99k
#define LENET5_WARPS 8
#define LENET5_TILES 2
#define LENET5_BLOCKS 2
#include "lenet5/tensor_core.cu"
