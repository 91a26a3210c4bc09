// The layer that linear_half is compiled for (linear/sizes.cuh).
#pragma once

#include "linear/sizes.cuh"

#include "linear_half/rows_in_order.cuh"
