// The few instructions of AVX-512 and BMI2 that the engine names itself, over vectors of the compiler's own.
//
// <immintrin.h> declares all instructions of all processors, which takes g++ a third of a second in every unit. Where the
// compiler has the built-in functions that its own header calls, this calls them; elsewhere it includes the header.
#pragma once

#include "platform.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__BMI2__) && !defined(__CUDACC__)
#define TBS_AVX512 1
#else
#define TBS_AVX512 0
#endif

#if TBS_AVX512
#if defined(__GNUC__) && !defined(__clang__) && __has_builtin(__builtin_ia32_compresssi512_mask) && \
    __has_builtin(__builtin_ia32_loaddqusi512_mask) && __has_builtin(__builtin_ia32_storedqusi512_mask) && \
    __has_builtin(__builtin_ia32_ptestmd512) && __has_builtin(__builtin_ia32_ptestmb128) && \
    __has_builtin(__builtin_ia32_storedquqi512_mask) && __has_builtin(__builtin_ia32_pbroadcastb512_gpr_mask) && \
    __has_builtin(__builtin_ia32_pdep_di)
#define TBS_BUILT_INS 1
#else
#define TBS_BUILT_INS 0
#include <immintrin.h>
#endif

namespace tbs::x86 {

typedef int Words __attribute__((vector_size(64)));  // 16 of 32 bits

#if TBS_BUILT_INS
typedef char Bytes __attribute__((vector_size(64)));
typedef char SixteenBytes __attribute__((vector_size(16), aligned(1), may_alias));

// Lanes of `words` whose bit is set, side by side; zeros behind them.
inline Words compressed(u32 mask, Words words) {
    return __builtin_ia32_compresssi512_mask(words, Words{}, static_cast<unsigned short>(mask));
}
// 16 words from memory of any alignment, those whose bit is set; zeros elsewhere, where nothing is read.
inline Words load(u32 mask, const void *from) {
    return __builtin_ia32_loaddqusi512_mask(static_cast<const int *>(from), Words{}, static_cast<unsigned short>(mask));
}
// Writes the words whose bit is set.
inline void store(void *to, u32 mask, Words words) {
    __builtin_ia32_storedqusi512_mask(static_cast<int *>(to), words, static_cast<unsigned short>(mask));
}
// A bit for each word that is not zero.
inline u32 non_zero(Words words) { return __builtin_ia32_ptestmd512(words, words, static_cast<unsigned short>(-1)); }
// A bit for each of 16 bytes in memory that is not zero.
inline u32 non_zero_bytes(const void *from) {
    const auto bytes = *static_cast<const SixteenBytes *>(from);
    return __builtin_ia32_ptestmb128(bytes, bytes, static_cast<unsigned short>(-1));
}
// Writes the lowest `count` bits, 1 to 64, a byte of 0 or 1 each.
inline void store_bits(void *to, u64 bits, u32 count) {
    const Bytes ones = __builtin_ia32_pbroadcastb512_gpr_mask(1, Bytes{}, bits);
    __builtin_ia32_storedquqi512_mask(static_cast<char *>(to), ones, ~u64{0} >> (64 - count));
}
// The lowest bits of `bits`, at the places of the set bits of `places`.
inline u64 deposited(u64 bits, u64 places) { return __builtin_ia32_pdep_di(bits, places); }
#else
inline Words compressed(u32 mask, Words words) { return Words(_mm512_maskz_compress_epi32(__mmask16(mask), __m512i(words))); }
inline Words load(u32 mask, const void *from) { return Words(_mm512_maskz_loadu_epi32(__mmask16(mask), from)); }
inline void store(void *to, u32 mask, Words words) { _mm512_mask_storeu_epi32(to, __mmask16(mask), __m512i(words)); }
inline u32 non_zero(Words words) { return _mm512_test_epi32_mask(__m512i(words), __m512i(words)); }
inline u32 non_zero_bytes(const void *from) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i *>(from));
    return _mm_test_epi8_mask(bytes, bytes);
}
inline void store_bits(void *to, u64 bits, u32 count) {
    _mm512_mask_storeu_epi8(to, ~u64{0} >> (64 - count), _mm512_maskz_set1_epi8(bits, 1));
}
inline u64 deposited(u64 bits, u64 places) { return _pdep_u64(bits, places); }
#endif

}  // namespace tbs::x86
#endif
