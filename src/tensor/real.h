/* real: the scalar type of the derivatives' code, which is compiled twice: in f32 for the program,
 * and with QTRAJ_REAL_F64 in f64 for tests. The f64 symbols end in _f64, so that a test can link
 * both; the headers rename what they declare: #define diff_x REAL_NAME(diff_x). */
#pragma once

#ifdef QTRAJ_REAL_F64
typedef double real;
#define REAL_NAME(name) name##_f64
#else
typedef float real;
#define REAL_NAME(name) name
#endif
