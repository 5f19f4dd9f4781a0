/* real: the scalar of the derivative kernels. One source makes two libraries: f32, the program's,
 * and with QTRAJ_REAL_F64 an f64 one for tests, whose symbols end in _f64 so that a test can link
 * both. A header of such code renames what it declares: #define diff_x REAL_NAME(diff_x). */
#pragma once

#ifdef QTRAJ_REAL_F64
typedef double real;
#define REAL_NAME(name) name##_f64
#else
typedef float real;
#define REAL_NAME(name) name
#endif
