// A kernel as a plugin node and the engine carry it: read from bytes, checked once, then trusted. encode.py owns the
// format. Nothing here knows TensorRT or CUDA.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "expression.h"
#include "sha256.h"

namespace lenet_trt {

constexpr size_t kMaxRank = 8;
constexpr size_t kMaxTensors = 64;
constexpr size_t kMaxExtras = 32;
constexpr size_t kMaxVariants = 64;
constexpr size_t kMaxLaunches = 4;
constexpr size_t kMaxMaps = 4;     // of a launch
constexpr size_t kMaxMapRank = 5;  // as hardware has it

enum class ElementType : uint8_t { kFloat32 = 1, kFloat16, kBfloat16, kInt32, kInt8 };

inline uint32_t size_of(ElementType type) {
  return type == ElementType::kInt8 ? 1 : type == ElementType::kFloat16 || type == ElementType::kBfloat16 ? 2 : 4;
}

// How a tensor lies in memory: without packs, or with the channels (the third dimension from the end) in packs of 8 or 32,
// of which the last is padded.
enum class Layout : uint8_t { kLinear, kHwc8, kChw32 };

// An axis whose size a call brings: which input has it, in which of its dimensions.
struct Axis {
  std::string name;
  uint16_t input;
  uint16_t dimension;
};

struct Tensor {
  std::string name;
  ElementType type;
  Layout layout;
  std::string shape_text;
  std::vector<Expression> shape;
};

// Machine code for one architecture (and, unless `exact`, its later minor revisions), or PTX for it and newer ones.
struct Image {
  bool is_ptx;
  bool exact;
  bool overlaps;  // its kernel waits for the one before it, and may be launched before that one has ended
  uint16_t sm;
  uint32_t cuda;  // the CUDA version that made it, as cuDriverGetVersion counts
  uint8_t const* bytes;
  size_t size;
  Hash hash;
};

// An array in the memory of an input, of which a kernel copies boxes to shared memory (TMA).
struct TensorMap {
  uint16_t input;
  ElementType type;
  std::vector<Expression> shape;  // outermost axis first, as `box`
  std::vector<uint32_t> box;

  uint32_t row_bytes() const { return box.back() * size_of(type); }  // of a box
};

// One launch of a variant: its arguments are the inputs, the extras, the outputs, the workspace if it takes that, and maps.
struct LaunchCode {
  std::string entry;
  uint32_t block[3];
  Expression grid[3];
  Expression shared_bytes;
  std::vector<Expression> extras;
  std::vector<uint16_t> images;
  bool takes_workspace = false;
  std::vector<TensorMap> maps;
};

struct Variant {
  std::string name;
  Expression when;       // it can run
  Expression prefer;     // it was the fastest
  Expression workspace;  // in bytes; empty for none
  std::vector<LaunchCode> launches;  // in order; never empty
};

// What was measured on one GPU: the first choice whose condition holds, and whose variant can run, is taken.
struct TunedChoice {
  Expression when;
  uint16_t variant;
};

struct TunedGpu {
  std::string name;  // as the driver has it
  uint16_t sm;
  uint32_t multiprocessors;
  std::vector<TunedChoice> choices;
};

class KernelData {
 public:
  // Reads and checks a copy of the bytes. Throws an Error that says what is wrong.
  static std::shared_ptr<KernelData const> read(void const* bytes, size_t size);

  std::string node, kernel, kernel_version, types, made_by;
  std::vector<Axis> axes;  // an expression's axis i + 1 is axes[i]
  std::vector<Tensor> inputs, outputs;
  uint32_t alignment = 1;
  uint64_t max_elements = 0;
  Expression requirement;
  std::string requirement_text;
  std::vector<Variant> variants;
  std::vector<Image> images;
  std::vector<TunedGpu> tuned;  // empty: the declared conditions hold everywhere

  std::vector<uint8_t> const& bytes() const { return bytes_; }
  // "lenet5 (fp32)": for messages.
  std::string title() const { return kernel + " (" + types + ")"; }
  // A hash, in hexadecimal, that two nodes share whose code and declaration are the same, whatever their names.
  std::string const& code_id() const { return code_id_; }

 private:
  friend class KernelReader;
  std::vector<uint8_t> bytes_;
  std::string code_id_;
};

}  // namespace lenet_trt
