"""The C code, and what of it Python may use."""

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    double smooth_value(double z, const void *context);
    double smooth_slope(double z, const void *context);
""")
ffi.set_source(
    "ranking_example_cffi._native",
    """
    static double smooth_value(double z, const void *context)
    {
        double width = *(const double *)context;
        if (z >= 1.0)
            return 0.0;
        if (z <= 1.0 - width)
            return 1.0 - z - 0.5 * width;
        return (1.0 - z) * (1.0 - z) / (2.0 * width);
    }

    static double smooth_slope(double z, const void *context)
    {
        double width = *(const double *)context;
        if (z >= 1.0)
            return 0.0;
        return z <= 1.0 - width ? -1.0 : (z - 1.0) / width;
    }
    """,
)
