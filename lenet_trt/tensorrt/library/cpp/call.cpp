#include "call.h"

#include <algorithm>
#include <string>

#include "error.h"

namespace lenet_trt {
namespace {

constexpr int64_t kGridLimits[3] = {2147483647, 65535, 65535};
constexpr int64_t kMaxExtra = 2147483647;
// Of tensor maps, the last two in bytes.
constexpr int64_t kMaxMapSize = int64_t{1} << 32;
constexpr uint64_t kMaxStride = uint64_t{1} << 40, kStrideUnit = 16;
constexpr char kGridLimitsText[] = "2147483647 x 65535 x 65535";

struct Sizes {
  Size values[kMaxAxes];  // axis 0, the number of multiprocessors, is not known to shapes
};

std::string text_of(Shape const& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.rank; ++i) text += (i ? ", " : "") + std::to_string(shape.sizes[i]);
  return text + "]";
}

[[noreturn]] void refuse(KernelData const& data, Tensor const& tensor, Shape const& shape, std::string const& why) {
  fail(tensor.name, " has shape ", text_of(shape), "; ", data.kernel, " wants ", tensor.shape_text, ": ", why);
}

// Evaluates a size of the declaration; what goes wrong is told with what it was for.
Size evaluated(Expression const& size, Size const* axes, Tensor const& tensor) {
  try {
    return size.evaluate(axes);
  } catch (Error const& error) {
    fail("the shape of ", tensor.name, " cannot be computed: ", error.what());
  }
}

Sizes axes_of(KernelData const& data, Shape const* inputs) {
  Sizes result;
  for (size_t i = 0; i < data.axes.size(); ++i) {
    Axis const& axis = data.axes[i];
    Shape const& shape = inputs[axis.input];
    if (axis.dimension >= shape.rank) continue;  // a wrong rank, which the check of that tensor tells
    int64_t const size = shape.sizes[axis.dimension];
    result.values[i + 1] = {size, size >= 0};
  }
  return result;
}

void check_tensor(KernelData const& data, Tensor const& tensor, Shape const& shape, Size const* axes) {
  if (shape.rank != tensor.shape.size()) {
    refuse(data, tensor, shape, "it has " + std::to_string(shape.rank) + " dimensions");
  }
  for (size_t i = 0; i < shape.rank; ++i) {
    Size const wanted = evaluated(tensor.shape[i], axes, tensor);
    if (shape.sizes[i] < 0 || !wanted.known) continue;
    if (wanted.value < 0) refuse(data, tensor, shape, "the inputs are too small");
    if (wanted.value != shape.sizes[i]) {
      refuse(data, tensor, shape, std::to_string(wanted.value) + " there, not " + std::to_string(shape.sizes[i]));
    }
  }
}

void check_requirement(KernelData const& data, Size const* axes) {
  if (data.requirement.empty()) return;
  Size const holds = data.requirement.evaluate(axes);
  if (holds.known && holds.value == 0) fail(data.kernel, " wants ", data.requirement_text);
}

bool is_empty(Shape const& shape) {
  return std::find(shape.sizes, shape.sizes + shape.rank, 0) != shape.sizes + shape.rank;
}

uint64_t pack_of(Layout layout) { return layout == Layout::kLinear ? 1 : layout == Layout::kHwc8 ? 8 : 32; }

// The elements of a tensor's memory.
uint64_t check_elements(KernelData const& data, Tensor const& tensor, Shape const& shape) {
  if (is_empty(shape)) return 0;
  uint64_t elements = 1;
  for (size_t i = 0; i < shape.rank; ++i) {
    auto const size = static_cast<uint64_t>(shape.sizes[i]);
    uint64_t const pack = i + 3 == shape.rank ? pack_of(tensor.layout) : 1;
    uint64_t const stored = (size / pack + (size % pack != 0)) * pack;
    if (__builtin_mul_overflow(elements, stored, &elements) || elements > data.max_elements) {
      fail(tensor.name, " has shape ", text_of(shape), "; ", data.kernel, " takes at most ", data.max_elements,
           " elements a tensor: split the batch");
    }
  }
  return elements;
}

// Checks what has to hold of every call. Returns whether there is anything to compute.
bool check_call(KernelData const& data, Shape const* inputs, Shape const* outputs, Size const* axes) {
  auto const check_known = [&](Tensor const& tensor, Shape const& shape) {
    for (size_t i = 0; i < shape.rank; ++i) {
      if (shape.sizes[i] < 0) refuse(data, tensor, shape, "a size is not known");
    }
  };
  for (size_t i = 0; i < data.inputs.size(); ++i) {
    check_known(data.inputs[i], inputs[i]);
    check_tensor(data, data.inputs[i], inputs[i], axes);
  }
  check_requirement(data, axes);
  bool empty = true;
  for (size_t i = 0; i < data.outputs.size(); ++i) {
    check_known(data.outputs[i], outputs[i]);
    check_tensor(data, data.outputs[i], outputs[i], axes);
    empty = empty && is_empty(outputs[i]);
  }
  if (empty) return false;
  for (size_t i = 0; i < data.inputs.size(); ++i) check_elements(data, data.inputs[i], inputs[i]);
  for (size_t i = 0; i < data.outputs.size(); ++i) check_elements(data, data.outputs[i], outputs[i]);
  return true;
}

bool can_run(KernelData const& data, Size const* axes, Abilities const& gpu, size_t variant) {
  return (gpu.variants >> variant & 1) != 0 && data.variants[variant].when.holds(axes);
}

int declared_choice(KernelData const& data, Size const* axes, Abilities const& gpu) {
  for (size_t i = 0; gpu.tuned != nullptr && i < gpu.tuned->choices.size(); ++i) {
    TunedChoice const& choice = gpu.tuned->choices[i];
    if (choice.when.holds(axes) && can_run(data, axes, gpu, choice.variant)) return choice.variant;
  }
  for (size_t i = 0; i < data.variants.size(); ++i) {
    if (can_run(data, axes, gpu, i) && data.variants[i].prefer.holds(axes)) return static_cast<int>(i);
  }
  fail(data.title(), " has no variant for these sizes on this GPU");
}

int chosen(KernelData const& data, Size const* axes, Abilities const& gpu, Substitute substitute) {
  int const declared = declared_choice(data, axes, gpu);
  if (declared != substitute.of || substitute.by < 0) return declared;
  auto const by = static_cast<size_t>(substitute.by);
  return by < data.variants.size() && can_run(data, axes, gpu, by) ? substitute.by : declared;
}

int64_t within(int64_t value, int64_t least, int64_t most, Variant const& variant, char const* what) {
  if (value < least || value > most) {
    fail("variant ", variant.name, " would need ", value, " for ", what, "; ", least, " to ", most, " are possible");
  }
  return value;
}

// The shape of a tensor map of an input that has that many bytes.
void shape_map(Variant const& variant, TensorMap const& map, Size const* axes, uint64_t room, uint64_t* shape) {
  uint64_t bytes = size_of(map.type);  // between neighbours of an axis
  for (size_t i = map.shape.size(); i-- > 0;) {
    if (i + 1 < map.shape.size() && (bytes % kStrideUnit != 0 || bytes >= kMaxStride)) {
      fail("variant ", variant.name, " would need a tensor map with ", bytes, " bytes between neighbours of an axis; multiples of ",
           kStrideUnit, " below 2^40 are possible");
    }
    shape[i] = static_cast<uint64_t>(within(map.shape[i].value(axes), 1, kMaxMapSize, variant, "an axis of a tensor map"));
    if (__builtin_mul_overflow(bytes, shape[i], &bytes) || bytes > room) {
      fail("variant ", variant.name, " would need a tensor map that is larger than its input");
    }
  }
}

LaunchSizes sizes_of(KernelData const& data, Shape const* inputs, Variant const& variant, LaunchCode const& code, Size const* axes,
                     int64_t shared_limit) {
  LaunchSizes sizes;
  for (int i = 0; i < 3; ++i) {
    int64_t const size = code.grid[i].value(axes);
    if (size < 1 || size > kGridLimits[i]) {
      fail("variant ", variant.name, " would need a grid of ", size, " blocks in dimension ", i, "; CUDA allows 1 to ",
           kGridLimitsText);
    }
    sizes.grid[i] = static_cast<uint32_t>(size);
  }
  int64_t const shared = within(code.shared_bytes.value(axes), 0, shared_limit, variant, "shared memory, in bytes");
  sizes.shared_bytes = static_cast<uint32_t>(shared);
  for (size_t i = 0; i < code.extras.size(); ++i) {
    int64_t const extra = code.extras[i].value(axes);
    sizes.extras[i] = static_cast<int32_t>(within(extra, -kMaxExtra, kMaxExtra, variant, "a 32-bit argument"));
  }
  for (size_t i = 0; i < code.maps.size(); ++i) {
    Tensor const& tensor = data.inputs[code.maps[i].input];
    uint64_t room = 0;
    uint64_t const elements = check_elements(data, tensor, inputs[code.maps[i].input]);
    if (__builtin_mul_overflow(elements, size_of(tensor.type), &room)) room = UINT64_MAX;
    shape_map(variant, code.maps[i], axes, room, sizes.maps[i]);
  }
  return sizes;
}

}  // namespace

bool Shape::operator==(Shape const& other) const {
  return rank == other.rank && std::equal(sizes, sizes + rank, other.sizes);
}

void check_shapes(KernelData const& data, Shape const* inputs, Shape const* outputs) {
  Sizes const axes = axes_of(data, inputs);
  for (size_t i = 0; i < data.inputs.size(); ++i) check_tensor(data, data.inputs[i], inputs[i], axes.values);
  check_requirement(data, axes.values);
  for (size_t i = 0; outputs != nullptr && i < data.outputs.size(); ++i) {
    check_tensor(data, data.outputs[i], outputs[i], axes.values);
  }
}

Shape output_shape(KernelData const& data, size_t output, Shape const* inputs) {
  Sizes const axes = axes_of(data, inputs);
  Tensor const& tensor = data.outputs[output];
  Shape shape;
  shape.rank = tensor.shape.size();
  for (size_t i = 0; i < shape.rank; ++i) {
    Size const size = evaluated(tensor.shape[i], axes.values, tensor);
    if (size.known && size.value < 0) fail(tensor.name, " would have a size below 0: the inputs are too small");
    shape.sizes[i] = size.known ? size.value : kUnknown;
  }
  return shape;
}

TunedGpu const* tuned_for(KernelData const& data, std::string const& name, int sm, int64_t multiprocessors) {
  for (TunedGpu const& gpu : data.tuned) {
    if (gpu.name == name && gpu.sm == sm && gpu.multiprocessors == multiprocessors) return &gpu;
  }
  return nullptr;
}

int choose(KernelData const& data, Shape const* inputs, Abilities const& gpu, Substitute substitute) {
  Shape outputs[kMaxTensors];
  for (size_t i = 0; i < data.outputs.size(); ++i) outputs[i] = output_shape(data, i, inputs);
  return plan(data, inputs, outputs, gpu, substitute).variant;
}

Call plan(KernelData const& data, Shape const* inputs, Shape const* outputs, Abilities const& gpu, Substitute substitute) {
  Sizes axes = axes_of(data, inputs);
  Call call;
  if (!check_call(data, inputs, outputs, axes.values)) return call;
  size_t const count = data.inputs.size();
  for (size_t i = 0; i < count + data.outputs.size(); ++i) {
    if (is_empty(i < count ? inputs[i] : outputs[i - count])) call.empty |= uint64_t{1} << i;
  }
  axes.values[0] = {gpu.multiprocessors, true};
  int const index = chosen(data, axes.values, gpu, substitute);
  Variant const& variant = data.variants[static_cast<size_t>(index)];
  if (!variant.workspace.empty()) call.workspace = variant.workspace.value(axes.values);
  for (size_t i = 0; i < variant.launches.size(); ++i) {
    call.launches[i] = sizes_of(data, inputs, variant, variant.launches[i], axes.values, gpu.shared_limit[index][i]);
  }
  call.variant = index;
  return call;
}

int64_t largest_workspace(KernelData const& data, Shape const* inputs) {
  Sizes const axes = axes_of(data, inputs);
  int64_t most = 0;
  for (Variant const& variant : data.variants) {
    if (!variant.workspace.empty()) most = std::max(most, variant.workspace.largest(axes.values));
  }
  return most;
}

}  // namespace lenet_trt
