// lenet5_split_99k: lenet5_split within 99 KB of shared memory, which is all that a block gets on sm_86, sm_89 and sm_120: six
// warps and features of 16 images instead of sixteen and 32.
#define LENET5_ENTRY lenet5_split_99k
#define LENET5_WARPS 6
#define LENET5_TILES 1
#include "lenet5/split.cu"
