// What the variants of lstm share: its sizes, and the functions of a cell.
//
// x [steps, n, I], w [D, 4H, I], r [D, 4H, H], b [D, 8H], h0, c0 [D, n, H], y [steps, D, n, H], y_h, y_c [D, n, H]; the 4H rows are
// the gates in ONNX's order: input, output, forget, cell.
#pragma once

#include "common.cuh"

constexpr int kInputs = AXIS_INPUTS, kDirections = AXIS_DIRS, kHidden = ATTR_HIDDEN_SIZE, kGates = 4 * kHidden;
using T = TYPE_T;
enum class Direction { kForward, kReverse, kBoth };
constexpr Direction kDirection = static_cast<Direction>(ATTR_DIRECTION);

__device__ __forceinline__ bool runs_backwards(int way) { return kDirection == Direction::kReverse || way == 1; }

// tanh, or sigmoid where `is_tanh` is not set, without a branch. Near 0 a polynomial keeps the digits that 2 sigmoid(2 x) - 1 loses.
__device__ __forceinline__ float activated(float x, bool is_tanh) {
  const float s = sigmoid(is_tanh ? 2.0f * x : x), square = x * x;
  float series = fmaf(-6.274228916e-3f, square, 2.107167058e-2f);
  series = fmaf(series, square, -5.385230854e-2f);
  series = fmaf(series, square, 1.333258599e-1f);
  series = fmaf(series, square, -3.333331645e-1f);
  const float small = fmaf(series * square, x, x), large = fmaf(2.0f, s, -1.0f);
  return is_tanh ? (fabsf(x) < 0.55f ? small : large) : s;
}
__device__ __forceinline__ float hyperbolic(float x) { return activated(x, true); }

// The new state from the sums of a unit's gates, which are kHidden apart; `cell` becomes the new one.
__device__ __forceinline__ float next_state(const float* gates, float& cell) {
  cell = fmaf(sigmoid(gates[2 * kHidden]), cell, sigmoid(gates[0]) * hyperbolic(gates[3 * kHidden]));
  return sigmoid(gates[kHidden]) * hyperbolic(cell);
}
