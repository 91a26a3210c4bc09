// What programs of all kernels share: the fibers, the barriers, the copies and the arrays. It is compiled once.
#include <setjmp.h>
#include <ucontext.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "block_cluster.cuh"
#include "bulk.cuh"
#include "common.cuh"
#include "copies.cuh"
#include "wgmma.cuh"

alignas(1024) thread_local unsigned char shared[232448];
constexpr size_t kStackBytes = 64 * 1024;
constexpr unsigned char kUnwritten = 0x3f;  // floats below 1: kernels compute a sum that is not finite in another way

struct Group { int size = 0, arrived = 0; long generation = 0; };
// A barrier in shared memory: threads of its block wait for its phases, which other blocks may end.
struct Barrier { Group phases; int count = 1, arrivals = 1; long bytes = 0; };
struct Fiber { ucontext_t context; jmp_buf jump; bool started = false; std::unique_ptr<char[]> stack; bool done = false; const Group* waits = nullptr; long generation = 0; };
struct Block {
  std::vector<Fiber> fibers;
  std::vector<Group> warps;
  Group all, some[16], of_cluster;
  std::map<size_t, Barrier> barriers;  // by their places in shared memory
  std::vector<unsigned char> slots;
  std::vector<unsigned char> shared;  // its shared memory, while another block of its cluster runs
  Index index;
  int left;
  jmp_buf scheduler_jump;
  void (*kernel)(const void* captured);
  const void* captured;
};
static Block* block;
struct Cluster { std::vector<Block> blocks; unsigned rank; };
static Cluster* cluster;

// Between fibers that have started by jumps: swapcontext asks the system for the mask of signals each time.
static void wait_for_next(const Group& phases) {
  Fiber& self = block->fibers[threadIdx.x];
  const unsigned thread = threadIdx.x;
  self.waits = &phases;
  self.generation = phases.generation;
  if (_setjmp(self.jump) == 0) _longjmp(block->scheduler_jump, 1);
  threadIdx.x = thread;
}
static void go_on(Block& of, Fiber& fiber) {
  if (_setjmp(of.scheduler_jump) != 0) return;
  if (fiber.started) _longjmp(fiber.jump, 1);
  fiber.started = true;
  setcontext(&fiber.context);
}

static void wait_for(Group& group) {
  if (++group.arrived < group.size) return wait_for_next(group);
  group.arrived = 0;
  ++group.generation;
}
void __syncthreads() { wait_for(block->all); }
void __syncwarp() { wait_for(block->warps[threadIdx.x / kWarpLanes]); }

unsigned char* slots_of_warp() { return block->slots.data() + threadIdx.x / kWarpLanes * kWarpLanes * kSlot; }
void wait_for_threads(int barrier, int count) {
  block->some[barrier].size = count;
  wait_for(block->some[barrier]);
}

// The scheduler goes on with this block after all blocks of the cluster have come here.
void wait_for_cluster() {
  ++block->of_cluster.arrived;
  wait_for_next(block->of_cluster);
}

static void enter() {
  block->kernel(block->captured);
  block->fibers[threadIdx.x].done = true;
  _longjmp(block->scheduler_jump, 1);
}

// Runs the threads of a block until each has returned or waits for other blocks; returns whether one ran.
static bool run(Block& of, unsigned& random) {
  block = &of;
  blockIdx = of.index;
  std::memcpy(shared, of.shared.data(), sizeof(shared));
  const int threads = static_cast<int>(of.fibers.size());
  std::vector<int> order(threads);
  for (int i = 0; i < threads; ++i) order[i] = i;
  bool ran = false;
  while (of.left > of.of_cluster.arrived) {
    for (int i = threads - 1; i > 0; --i) {
      random = random * 1664525u + 1013904223u;
      std::swap(order[i], order[static_cast<uint64_t>(random) * (i + 1) >> 32]);
    }
    bool moved = false;
    for (int i : order) {
      Fiber& fiber = of.fibers[i];
      if (fiber.done || (fiber.waits != nullptr && fiber.waits->generation == fiber.generation)) continue;
      fiber.waits = nullptr;
      threadIdx.x = i;
      go_on(of, fiber);
      moved = true;
      if (!fiber.done) continue;
      --of.left;  // threads that have returned are not waited for
      for (Group* group : {&of.all, &of.warps[i / kWarpLanes]}) {
        if (--group->size > 0 && group->arrived == group->size) {
          group->arrived = 0;
          ++group->generation;
        }
      }
    }
    if (!moved) break;
    ran = true;
  }
  std::memcpy(of.shared.data(), shared, sizeof(shared));
  return ran;
}

void launch_captured(int blocks_x, int blocks_y, int threads, int shared_bytes, int in_cluster, void (*kernel)(const void*), const void* captured) {
  unsigned random = 1;
  Cluster state;
  cluster = &state;
  state.blocks.resize(in_cluster);
  gridDim = {static_cast<unsigned>(blocks_x), static_cast<unsigned>(blocks_y)};
  for (int b = 0; b < blocks_x * blocks_y; b += in_cluster) {
    for (int rank = 0; rank < in_cluster; ++rank) {
      Block& made = state.blocks[rank];
      made.kernel = kernel;
      made.captured = captured;
      made.index = {static_cast<unsigned>((b + rank) % blocks_x), static_cast<unsigned>((b + rank) / blocks_x)};
      made.shared.assign(sizeof(shared), kUnwritten);
      made.left = threads;
      made.fibers.resize(threads);
      made.warps.assign(threads / kWarpLanes, {kWarpLanes});
      made.all = {threads};
      for (Group& some : made.some) some = {};
      made.of_cluster = {};
      made.barriers.clear();
      made.slots.resize(threads * kSlot);
      for (Fiber& fiber : made.fibers) {
        fiber.done = fiber.started = false;
        fiber.waits = nullptr;
        if (!fiber.stack) fiber.stack.reset(new char[kStackBytes]);  // not zeros: most of it is never touched
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = kStackBytes;
        makecontext(&fiber.context, enter, 0);
      }
    }
    for (bool left = true; left;) {
      bool ran = false, all_wait = true;
      left = false;
      for (unsigned rank = 0; rank < state.blocks.size(); ++rank) {
        state.rank = rank;
        ran = run(state.blocks[rank], random) || ran;
      }
      for (Block& of : state.blocks) {
        left = left || of.left > 0;
        all_wait = all_wait && of.left == of.of_cluster.arrived;
      }
      if (all_wait) {
        for (Block& of : state.blocks) {
          of.of_cluster.arrived = 0;
          ++of.of_cluster.generation;
        }
      } else if (!ran) {
        for (Block& of : state.blocks) {
          std::fprintf(stderr, "block %u: %d threads wait for others that never come\n", of.index.x, of.left);
        }
        std::exit(1);
      }
    }
    for (const Block& of : state.blocks) {
      for (size_t i = shared_bytes; i < of.shared.size(); ++i) {
        if (of.shared[i] == kUnwritten) continue;
        std::fprintf(stderr, "block %u wrote byte %zu of its shared memory, of which it has %d\n", of.index.x, i, shared_bytes);
        std::exit(1);
      }
    }
  }
}

// ---- barriers in shared memory ---------------------------------------------------------------------------------------------

static Barrier& barrier_of(Block& of, unsigned address) {
  if (address % 8 != 0) std::exit(2);
  return of.barriers[address];
}
static void change(Barrier& barrier, int arrivals, long bytes) {
  barrier.arrivals -= arrivals;
  barrier.bytes += bytes;
  if (barrier.arrivals > 0 || barrier.bytes != 0) return;
  barrier.arrivals = barrier.count;
  ++barrier.phases.generation;
}
void init_barrier(unsigned address, unsigned arrivals) {
  barrier_of(*block, address) = {{}, static_cast<int>(arrivals), static_cast<int>(arrivals)};
}
void arrive(unsigned address) { change(barrier_of(*block, address), 1, 0); }
void expect_bytes(unsigned address, unsigned bytes) { change(barrier_of(*block, address), 1, bytes); }
void begin_bulk_copy(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  if (to % 16 != 0 || bytes % 16 != 0 || reinterpret_cast<size_t>(from) % 16 != 0) std::exit(2);
  std::memcpy(at_address(to), from, bytes);
  change(barrier_of(*block, barrier), 0, -static_cast<long>(bytes));
}
// A box whose rows have 32, 64 or 128 bytes. Its 16-byte unit u of a row goes to u ^ l, where l counts the lines of 128 bytes.
void begin_box(unsigned to, const TensorMap& map, const std::vector<int>& first, unsigned barrier) {
  constexpr int kUnit = 16, kLine = 128;
  const int axes = map.box.size(), columns = map.box.back(), bytes = map.element_bytes, row_bytes = columns * bytes, units = row_bytes / kUnit;
  if (first.size() != map.box.size() || map.shape.size() != map.box.size()) std::exit(2);
  if (to % (8 * row_bytes) != 0 || reinterpret_cast<size_t>(map.tensor) % kUnit != 0 || map.shape.back() * bytes % kUnit != 0) std::exit(2);
  int elements = 1;
  for (const int size : map.box) elements *= size;
  for (int i = 0; i < elements; ++i) {
    const int row = i / columns, column = i % columns;
    const int unit = column * bytes / kUnit ^ row * row_bytes / kLine % units;
    unsigned char* const place = at_address(to) + row * row_bytes + unit * kUnit + column * bytes % kUnit;
    bool exists = true;
    long from = 0;
    for (int axis = 0, inner = elements; axis < axes; ++axis) {
      inner /= map.box[axis];
      const int index = first[axis] + i / inner % map.box[axis];
      exists &= 0 <= index && index < map.shape[axis];
      from = from * map.shape[axis] + index;
    }
    if (exists) std::memcpy(place, static_cast<const unsigned char*>(map.tensor) + from * bytes, bytes);
    else std::memset(place, 0, bytes);
  }
  change(barrier_of(*block, barrier), 0, -static_cast<long>(elements * bytes));
}
void wait_for_bytes(unsigned address, unsigned parity) {
  const Group& phases = barrier_of(*block, address).phases;
  if (phases.generation % 2 == parity) wait_for_next(phases);  // else that phase has ended
}

// ---- other blocks of the cluster -------------------------------------------------------------------------------------------

unsigned char* remote_place(unsigned address, unsigned rank) {
  const size_t place = address - shared_address(shared);
  return rank == cluster->rank ? shared + place : cluster->blocks[rank].shared.data() + place;
}
void bytes_arrive(unsigned barrier, unsigned rank, int bytes) {
  change(barrier_of(cluster->blocks[rank], barrier), 0, -static_cast<long>(bytes));
}

// ---- copies ----------------------------------------------------------------------------------------------------------------

struct Copy { unsigned to; const void* from; int bytes, count; };
struct Copies { std::vector<Copy> open; std::deque<std::vector<Copy>> groups; };
static Copies& my_copies() {
  static std::vector<Copies> all(1024);
  return all[threadIdx.x];
}
static void finish(const std::vector<Copy>& group) {
  for (const Copy& copy : group) {
    std::memset(at_address(copy.to), 0, copy.count);
    std::memcpy(at_address(copy.to), copy.from, copy.bytes);
  }
}
void begin_copy(unsigned to, const void* from, int bytes, int count) {
  if (to % count != 0 || reinterpret_cast<size_t>(from) % count != 0) std::exit(2);
  my_copies().open.push_back({to, from, bytes, count});
}
void copy_async_commit() {
  my_copies().groups.push_back(std::move(my_copies().open));
  my_copies().open.clear();
}
void finish_copies(size_t pending) {
  auto& groups = my_copies().groups;
  for (; groups.size() > pending; groups.pop_front()) finish(groups.front());
}

// ---- arrays of a launch ----------------------------------------------------------------------------------------------------

void* read(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) std::abort();
  std::fseek(file, 0, SEEK_END);
  const size_t bytes = std::ftell(file);
  std::rewind(file);
  void* values = std::malloc(bytes);
  if (std::fread(values, 1, bytes, file) != bytes) std::abort();
  std::fclose(file);
  return values;
}
void* unwritten(size_t bytes) { return std::memset(std::malloc(bytes), 0xff, bytes); }
void write(const char* path, const void* from, size_t bytes) {
  std::FILE* file = std::fopen(path, "wb");
  if (std::fwrite(from, 1, bytes, file) != bytes) std::abort();
  std::fclose(file);
}
