// The layer that linear_half_gate_add is compiled for (linear/sizes.cuh).
#pragma once

#define GATES_SUMS
#include "linear_half/layer.cuh"
