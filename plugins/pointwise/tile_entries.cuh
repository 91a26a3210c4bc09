// The entries by tiles of 32 pixels of all images, of up to so many times 16 filters.
#pragma once

#include "pointwise/entries.cuh"
#include "pointwise/tensor_core.cuh"

POINTWISE(ENTRY(tile_64x128), pointwise, Tile, 4, 4, 1, 2)
POINTWISE(ENTRY(tile_32x128), pointwise, Tile, 2, 4, 1, 3)
POINTWISE(ENTRY(tile_64x64_by2), pointwise, Tile, 4, 2, 2, 2)
POINTWISE(ENTRY(tile_64x32_by4), pointwise, Tile, 4, 1, 4, 2)
POINTWISE(ENTRY(tile_32x32_by4), pointwise, Tile, 2, 1, 4, 3)
POINTWISE(ENTRY(tile_16x32_by8), pointwise, Tile, 1, 1, 8, 4)
