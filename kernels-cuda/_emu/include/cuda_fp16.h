#pragma once
#include "emulator.h"

struct __half { uint16_t bits; };
struct __half2 { __half x, y; };
inline float __half2float(__half h) { _Float16 f; memcpy(&f, &h, 2); return (float)f; }
inline __half __float2half_rn(float x) { _Float16 f = (_Float16)x; __half h; memcpy(&h, &f, 2); return h; }
inline __half __float2half(float x) { return __float2half_rn(x); }
inline __half __ushort_as_half(uint16_t u) { return {u}; }
inline uint16_t __half_as_ushort(__half h) { return h.bits; }
inline float2 __half22float2(__half2 h) { return {__half2float(h.x), __half2float(h.y)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline __half2 __half2half2(__half h) { return {h, h}; }
inline __half2 __hsub2(__half2 a, __half2 b) { return __floats2half2_rn(__half2float(a.x) - __half2float(b.x), __half2float(a.y) - __half2float(b.y)); }
inline __half2 __hmul2(__half2 a, __half2 b) { return __floats2half2_rn(__half2float(a.x) * __half2float(b.x), __half2float(a.y) * __half2float(b.y)); }
