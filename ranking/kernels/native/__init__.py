"""C functions of plugins: the C ABI, checked calls, and parts that are built on them."""
