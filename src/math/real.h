/* real: the scalar type of the derivatives' code, which is compiled twice: in f32 for the program,
 * and with QTRAJ_REAL_F64 in f64 for tests. The f64 symbols end in _f64, so that a test can link
 * both: the build renames what the headers of that code declare (qtraj_f64 in
 * src/cmake/qtraj.cmake); REAL_NAME names what is declared by hand for both. */
#pragma once

#ifdef QTRAJ_REAL_F64
typedef double real;
#define REAL_NAME(name) name##_f64
#else
typedef float real;
#define REAL_NAME(name) name
#endif
