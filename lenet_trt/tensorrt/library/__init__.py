"""The plugin library: kernels travel as data in the node and the engine, and one C++ library runs them all."""
