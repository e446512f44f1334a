// What tbs/wide.h needs of AVX-512: registers of 16 floats, and rows that are turned into them.
//
// As in tbs/x86.h, <immintrin.h> is left out where the compiler has the functions that it calls.
#pragma once

#include "platform.h"
#include "x86.h"

#if TBS_BUILT_INS + 0 && __has_builtin(__builtin_ia32_vfmaddps512_mask) && \
    __has_builtin(__builtin_ia32_vfnmaddps512_mask) && __has_builtin(__builtin_ia32_minps512_mask) && \
    __has_builtin(__builtin_ia32_maxps512_mask) && __has_builtin(__builtin_ia32_sqrtps512_mask) && \
    __has_builtin(__builtin_ia32_cmpps512_mask) && __has_builtin(__builtin_ia32_blendmps_512_mask) && \
    __has_builtin(__builtin_ia32_cmpd512_mask) && __has_builtin(__builtin_ia32_unpcklps512_mask) && \
    __has_builtin(__builtin_ia32_unpckhps512_mask) && __has_builtin(__builtin_ia32_unpcklpd512_mask) && \
    __has_builtin(__builtin_ia32_unpckhpd512_mask) && __has_builtin(__builtin_ia32_vpermt2varpd512_mask) && \
    __has_builtin(__builtin_ia32_ps512_256ps) && __has_builtin(__builtin_ia32_insertf64x4_mask) && \
    __has_builtin(__builtin_ia32_extractf64x4_mask)
#define TBS_WIDE_BUILT_INS 1
#else
#define TBS_WIDE_BUILT_INS 0
#include <immintrin.h>
#endif

namespace tbs::x86 {

typedef float Sixteen __attribute__((vector_size(64)));
typedef double Pairs __attribute__((vector_size(64)));  // the same, two floats each
typedef float Eight __attribute__((vector_size(32)));
typedef double FourPairs __attribute__((vector_size(32)));
typedef int Ints __attribute__((vector_size(64)));
typedef long long Places __attribute__((vector_size(64)));
using Mask = unsigned short;

#if TBS_WIDE_BUILT_INS
inline constexpr Mask all = 0xffff;
inline constexpr int rounding = 4;  // as the thread rounds

inline Sixteen fused(Sixteen a, Sixteen b, Sixteen c) {
    return __builtin_ia32_vfmaddps512_mask(a, b, c, all, rounding);
}
inline Sixteen fused_negative(Sixteen a, Sixteen b, Sixteen c) {
    return __builtin_ia32_vfnmaddps512_mask(a, b, c, all, rounding);
}
inline Sixteen min(Sixteen a, Sixteen b) { return __builtin_ia32_minps512_mask(a, b, Sixteen{}, all, rounding); }
inline Sixteen max(Sixteen a, Sixteen b) { return __builtin_ia32_maxps512_mask(a, b, Sixteen{}, all, rounding); }
inline Sixteen sqrt(Sixteen a) { return __builtin_ia32_sqrtps512_mask(a, Sixteen{}, all, rounding); }
// False of NaN.
inline Mask less(Sixteen a, Sixteen b) { return __builtin_ia32_cmpps512_mask(a, b, 17, all, rounding); }
inline Sixteen blend(Mask mask, Sixteen a, Sixteen b) { return __builtin_ia32_blendmps_512_mask(a, b, mask); }
inline Mask not_above(Ints a, Ints b) { return __builtin_ia32_cmpd512_mask(a, b, 2, all); }
// In each 128-bit part: the lower and the upper halves of a and of b in turns.
inline Pairs low(Sixteen a, Sixteen b) { return Pairs(__builtin_ia32_unpcklps512_mask(a, b, Sixteen{}, all)); }
inline Pairs high(Sixteen a, Sixteen b) { return Pairs(__builtin_ia32_unpckhps512_mask(a, b, Sixteen{}, all)); }
inline Sixteen low(Pairs a, Pairs b) { return Sixteen(__builtin_ia32_unpcklpd512_mask(a, b, Pairs{}, 0xff)); }
inline Sixteen high(Pairs a, Pairs b) { return Sixteen(__builtin_ia32_unpckhpd512_mask(a, b, Pairs{}, 0xff)); }
inline Pairs chosen(Pairs a, Places places, Pairs b) { return __builtin_ia32_vpermt2varpd512_mask(places, a, b, 0xff); }
inline Sixteen joined(Eight a, Eight b) {
    const Pairs first = Pairs(__builtin_ia32_ps512_256ps(a));
    return Sixteen(__builtin_ia32_insertf64x4_mask(first, FourPairs(b), 1, Pairs{}, 0xff));
}
template <int half>
inline Eight half_of(Sixteen a) {
    return Eight(__builtin_ia32_extractf64x4_mask(Pairs(a), half, FourPairs{}, 0xf));
}
#else  // with a mask of all items where g++ 12 warns of its own header's functions without one
inline Sixteen fused(Sixteen a, Sixteen b, Sixteen c) { return _mm512_fmadd_ps(a, b, c); }
inline Sixteen fused_negative(Sixteen a, Sixteen b, Sixteen c) { return _mm512_fnmadd_ps(a, b, c); }
inline Sixteen min(Sixteen a, Sixteen b) { return _mm512_maskz_min_ps(0xffff, a, b); }
inline Sixteen max(Sixteen a, Sixteen b) { return _mm512_maskz_max_ps(0xffff, a, b); }
inline Sixteen sqrt(Sixteen a) { return _mm512_maskz_sqrt_ps(0xffff, a); }
inline Mask less(Sixteen a, Sixteen b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline Sixteen blend(Mask mask, Sixteen a, Sixteen b) { return _mm512_mask_blend_ps(mask, a, b); }
inline Mask not_above(Ints a, Ints b) { return _mm512_cmple_epi32_mask(__m512i(a), __m512i(b)); }
inline Pairs low(Sixteen a, Sixteen b) { return Pairs(_mm512_maskz_unpacklo_ps(0xffff, a, b)); }
inline Pairs high(Sixteen a, Sixteen b) { return Pairs(_mm512_maskz_unpackhi_ps(0xffff, a, b)); }
inline Sixteen low(Pairs a, Pairs b) { return Sixteen(_mm512_maskz_unpacklo_pd(0xff, a, b)); }
inline Sixteen high(Pairs a, Pairs b) { return Sixteen(_mm512_maskz_unpackhi_pd(0xff, a, b)); }
inline Pairs chosen(Pairs a, Places places, Pairs b) { return _mm512_permutex2var_pd(a, __m512i(places), b); }
inline Sixteen joined(Eight a, Eight b) {
    const __m512d first = _mm512_castps_pd(_mm512_castps256_ps512(a));
    return Sixteen(_mm512_maskz_insertf64x4(0xff, first, __m256d(b), 1));
}
template <int half>
inline Eight half_of(Sixteen a) {
    return Eight(_mm512_maskz_extractf64x4_pd(0xf, __m512d(a), half));
}
#endif

}  // namespace tbs::x86
