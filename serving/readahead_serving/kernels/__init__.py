"""C++ kernels for what PyTorch leaves slow on CPUs. Optional: without them, PyTorch computes the same."""
