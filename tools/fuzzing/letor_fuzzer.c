/* A libFuzzer target for the parser of LETOR text: `make fuzz-letor`.

   The file that Cython generates from letor.pyx is a part of it, so that its functions are called
   as they are; buffers have the sizes of the contract to the byte, so that ASan sees each write
   behind them. */
#include LETOR_C

#include <stdlib.h>
#include <string.h>

#define PARSE_FLOAT __pyx_fuse_0__pyx_f_7ranking_7kernels_6cython_6_letor_parse_chunk
#define PARSE_DOUBLE __pyx_fuse_1__pyx_f_7ranking_7kernels_6cython_6_letor_parse_chunk

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    PyImport_AppendInittab("_letor", PyInit__letor);
    Py_Initialize();
    if (!PyImport_ImportModule("_letor")) {
        PyErr_Print();
        abort();
    }
    return 0;
}

static void parse(const uint8_t *text, int64_t size, int64_t rows, int is64)
{
    int64_t pairs = size / 4, span[2] = {0, size}, info[9];
    double *grades = malloc((size_t)rows * sizeof(double));
    int64_t *row_info = malloc(6 * (size_t)rows * sizeof(int64_t));
    int32_t *indices = malloc((size_t)pairs * sizeof(int32_t));
    void *values = malloc((size_t)pairs * (is64 ? sizeof(double) : sizeof(float)));
    if (is64)
        PARSE_DOUBLE(text, span, grades, row_info, indices, values, info);
    else
        PARSE_FLOAT(text, span, grades, row_info, indices, values, info);
    if (info[0] < 0 || info[0] > rows || info[1] < 0 || info[1] > pairs)
        abort();
    for (int64_t row = 0; row < info[0]; row++) {
        const int64_t *one = row_info + 6 * row;
        if (one[2] < 0 || one[3] < 1 || one[2] + one[3] > size || one[4] + one[5] > size)
            abort();
    }
    free(grades);
    free(row_info);
    free(indices);
    free(values);
}

/* The text ends with a newline, as the reader sees to. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *text = malloc(size + 1);
    int64_t rows = 1;
    memcpy(text, data, size);
    text[size] = '\n';
    for (size_t at = 0; at < size; at++)
        rows += text[at] == '\n';
    parse(text, (int64_t)size + 1, rows, 0);
    parse(text, (int64_t)size + 1, rows, 1);
    free(text);
    return 0;
}
