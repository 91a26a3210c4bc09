#include "expression.h"

#include <algorithm>

#include "error.h"

namespace lenet_trt {
namespace {

bool is_operator(Op op) { return op >= Op::kAdd && op <= Op::kMaximum; }
bool is_relation(Op op) { return op >= Op::kLessEqual && op <= Op::kMultipleOf; }

struct Integers {
  using Value = Size;
  Size const* axes;
  char const* problem = nullptr;
  bool is_open = false;  // a comparison depends on a size that is not known

  Size constant(int64_t value) const { return {value, true}; }
  Size axis(size_t index) const { return axes[index]; }
  bool ends(Size value) {
    is_open = is_open || !value.known;
    return value.known && value.value == 0;
  }

  bool apply(Op op, Size left, Size right, Size& result) {
    result.known = left.known && right.known;
    return !result.known || compute(op, left.value, right.value, result.value);
  }

  bool compute(Op op, int64_t left, int64_t right, int64_t& result) {
    switch (op) {
      case Op::kAdd: return within(!__builtin_add_overflow(left, right, &result));
      case Op::kSubtract: return within(!__builtin_sub_overflow(left, right, &result));
      case Op::kMultiply: return within(!__builtin_mul_overflow(left, right, &result));
      case Op::kFloorDivide:
      case Op::kCeilDivide:
        if (left < 0 || right <= 0) return failed("a number below 0 is divided, or one by a number that is not above 0");
        result = left / right + (op == Op::kCeilDivide && left % right != 0 ? 1 : 0);
        return true;
      case Op::kMinimum: result = std::min(left, right); return true;
      case Op::kMaximum: result = std::max(left, right); return true;
      case Op::kLessEqual: result = left <= right; return true;
      case Op::kLess: result = left < right; return true;
      case Op::kEqual: result = left == right; return true;
      case Op::kMultipleOf:
        if (right == 0) return failed("a number is compared with multiples of 0");
        result = right == -1 || left % right == 0;  // the smallest number % -1 overflows
        return true;
      default: return failed("an unknown operator");
    }
  }

  bool within(bool fits) { return fits || failed("a step has more than 64 bits: the sizes are too large"); }

  bool failed(char const* why) {
    problem = why;
    return false;
  }
};

// The least and the largest that a value can be.
struct Range {
  int64_t least = 0, most = 0;
};

struct Ranges {
  using Value = Range;
  Size const* most;
  Integers integers{nullptr};

  Range constant(int64_t value) const { return {value, value}; }
  Range axis(size_t index) {
    if (!most[index].known || most[index].value < 0) fail("it depends on a size that is not known");
    return {0, most[index].value};
  }
  bool ends(Range) const { return false; }  // sizes have no conditions

  bool apply(Op op, Range left, Range right, Range& result) {
    Range made;
    bool fits = true;
    switch (op) {
      case Op::kSubtract:
        fits = compute(op, left.least, right.most, made.least) && compute(op, left.most, right.least, made.most);
        break;
      case Op::kMultiply: {
        int64_t ends[4];
        fits = compute(op, left.least, right.least, ends[0]) && compute(op, left.least, right.most, ends[1]) &&
               compute(op, left.most, right.least, ends[2]) && compute(op, left.most, right.most, ends[3]);
        if (fits) made = {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
        break;
      }
      case Op::kFloorDivide:
      case Op::kCeilDivide:
        // A dividend is never below 0 and a divisor never below 1: where one would be, there is no value.
        left = {std::max<int64_t>(left.least, 0), std::max<int64_t>(left.most, 0)};
        right = {std::max<int64_t>(right.least, 1), std::max<int64_t>(right.most, 1)};
        fits = compute(op, left.least, right.most, made.least) && compute(op, left.most, right.least, made.most);
        break;
      default:
        fits = compute(op, left.least, right.least, made.least) && compute(op, left.most, right.most, made.most);
    }
    result = made;
    return fits;
  }

  bool compute(Op op, int64_t left, int64_t right, int64_t& result) { return integers.compute(op, left, right, result); }
};

}  // namespace

Expression Expression::check(uint8_t const* code, size_t size, size_t axes, bool is_condition) {
  Expression result;
  result.code_ = code;
  result.size_ = size;
  if (size == 0 && is_condition) return result;
  size_t depth = 0;
  bool compared = false;  // whether the value on top is that of a comparison
  for (size_t at = 0; at < size;) {
    Op const op = static_cast<Op>(code[at++]);
    bool const was_compared = compared;
    compared = false;
    if (op == Op::kConstant || op == Op::kAxis) {
      size_t const operand = op == Op::kConstant ? sizeof(int64_t) : sizeof(uint16_t);
      if (size - at < operand) fail("an expression ends within a number");
      if (op == Op::kAxis) {
        size_t from = at;
        size_t const index = result.read<uint16_t>(from);
        if (index >= axes) fail("an expression names axis ", index, " of ", axes);
      }
      at += operand;
      if (++depth > kMaxDepth) fail("an expression is nested more than ", kMaxDepth, " deep");
    } else if (op == Op::kGuard) {
      if (!is_condition || !was_compared || depth != 1 || at == size) fail("a guard stands where none can");
      --depth;
    } else if (is_operator(op) || (is_condition && is_relation(op))) {
      if (depth < 2) fail("an operator has no operands");
      --depth;
      compared = is_relation(op);
    } else {
      fail("an expression has the unknown operator ", static_cast<int>(op));
    }
  }
  if (depth != 1) fail("an expression leaves ", depth, " values instead of one");
  if (is_condition && !compared) fail("a condition ends without a comparison");
  return result;
}

Size Expression::evaluate(Size const* axes) const {
  Integers algebra{axes};
  Size result;
  if (!fold(algebra, result)) fail(algebra.problem);
  if (algebra.is_open && result.value != 0) result.known = false;  // a comparison that is false decides alone
  return result;
}

int64_t Expression::largest(Size const* most) const {
  Ranges algebra{most};
  Range result;
  if (!fold(algebra, result)) fail(algebra.integers.problem);
  return result.most;
}

int64_t Expression::value(Size const* axes) const {
  Size const result = evaluate(axes);
  if (!result.known) fail("it depends on a size that is not known");
  return result.value;
}

}  // namespace lenet_trt
