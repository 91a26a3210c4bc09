// Integer expressions over axes, as the data has them: code in postfix order (encode.py says which).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lenet_trt {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxAxes = 32;  // the number of multiprocessors, which is axis 0, among them

enum class Op : uint8_t {
  kConstant = 1,  // and 8 bytes
  kAxis = 2,      // and 2 bytes
  kAdd = 16,
  kSubtract,
  kMultiply,
  kFloorDivide,
  kCeilDivide,
  kMinimum,
  kMaximum,
  kLessEqual = 32,
  kLess,
  kEqual,
  kMultipleOf,
  kGuard = 48,  // ends with "false" if the value is 0, and takes it away otherwise
};

// A number, or none where it depends on a size that is not known yet.
struct Size {
  int64_t value = 0;
  bool known = false;
};

// Checked code: `check` has seen that it is well formed, so nothing is checked again when it is folded. It points into
// the kernel's data, which outlives it. An empty condition holds.
class Expression {
 public:
  Expression() = default;

  // Throws an Error unless the code leaves one value, never has more than kMaxDepth and names `axes` axes at most.
  static Expression check(uint8_t const* code, size_t size, size_t axes, bool is_condition);

  bool empty() const { return size_ == 0; }

  // Lowers the code: `algebra` has Value, constant(int64_t), axis(size_t), apply(Op, Value, Value, Value&) -> bool and
  // ends(Value), whether a guard ends with it. Returns whether every `apply` did.
  template <class Algebra>
  bool fold(Algebra& algebra, typename Algebra::Value& result) const {
    typename Algebra::Value stack[kMaxDepth];
    size_t depth = 0;
    for (size_t at = 0; at < size_;) {
      Op const op = static_cast<Op>(code_[at++]);
      if (op == Op::kConstant) {
        stack[depth++] = algebra.constant(read<int64_t>(at));
      } else if (op == Op::kAxis) {
        stack[depth++] = algebra.axis(read<uint16_t>(at));
      } else if (op == Op::kGuard) {
        if (algebra.ends(stack[--depth])) {
          result = stack[depth];
          return true;
        }
      } else {
        --depth;
        if (!algebra.apply(op, stack[depth - 1], stack[depth], stack[depth - 1])) return false;
      }
    }
    result = stack[0];
    return true;
  }

  // The value for these sizes of the axes. Throws an Error where a step has more than 64 bits or divides what sizes
  // cannot be: a number below 0, or by one that is not above it.
  Size evaluate(Size const* axes) const;

  // The same where every axis is known. Throws an Error as well if one is not.
  int64_t value(Size const* axes) const;

  // A number that the value never exceeds while each axis is from 0 to the size given. Throws an Error where a step has
  // more than 64 bits, or an axis has no size.
  int64_t largest(Size const* most) const;

  // Whether a condition holds, every axis known.
  bool holds(Size const* axes) const { return empty() || value(axes) != 0; }

 private:
  template <class Number>
  Number read(size_t& at) const {
    Number value;
    std::memcpy(&value, code_ + at, sizeof(value));
    at += sizeof(value);
    return value;
  }

  uint8_t const* code_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lenet_trt
