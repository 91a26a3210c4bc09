// The tensor maps of a launch, as the last parameters of its entry and the last members of the kernel's struct of arguments. The compiler is told how
// many: those that the launch declares (maps=...), or none for a route that can pass only addresses and integers.
#pragma once

#ifndef LAUNCH_MAPS
#define LAUNCH_MAPS 0
#endif

#if LAUNCH_MAPS == 0
#define MAP_PARAMETERS
#define MAP_ARGUMENTS
#elif LAUNCH_MAPS == 1
#define MAP_PARAMETERS , const __grid_constant__ TensorMap map
#define MAP_ARGUMENTS , &map
#elif LAUNCH_MAPS == 2
#define MAP_PARAMETERS , const __grid_constant__ TensorMap map, const __grid_constant__ TensorMap second_map
#define MAP_ARGUMENTS , &map, &second_map
#else
#error "a launch that includes this file has two tensor maps at most"
#endif
