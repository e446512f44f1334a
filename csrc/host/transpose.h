// Matrices with rows and columns exchanged.
#pragma once

#include <algorithm>
#include <cstdint>

#if defined(__AVX512F__)
#include <immintrin.h>

// Which of 16 are the first `some`, a bit each.
inline __mmask16 first(std::int64_t some) {
    return some >= 16 ? 0xffff : static_cast<__mmask16>((1u << std::max<std::int64_t>(some, 0)) - 1);
}

// Line i of what comes out is column i of what goes in. (g++ warns of the forms without a mask.)
inline void transpose(__m512i (&words)[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_maskz_unpacklo_epi32(-1, words[i], words[i + 1]);
        t[i + 1] = _mm512_maskz_unpackhi_epi32(-1, words[i], words[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; ++j) {
            words[i + 2 * j] = _mm512_maskz_unpacklo_epi64(-1, t[i + j], t[i + j + 2]);
            words[i + 2 * j + 1] = _mm512_maskz_unpackhi_epi64(-1, t[i + j], t[i + j + 2]);
        }
    // Now words[4 * i + c] has, in each of its four parts p, column 4 * p + c of lines 4 * i to 4 * i + 3.
    for (int c = 0; c < 4; ++c) {
        const __m512i a = _mm512_maskz_shuffle_i32x4(-1, words[c], words[4 + c], 0x88);
        const __m512i b = _mm512_maskz_shuffle_i32x4(-1, words[c], words[4 + c], 0xdd);
        const __m512i d = _mm512_maskz_shuffle_i32x4(-1, words[8 + c], words[12 + c], 0x88);
        const __m512i e = _mm512_maskz_shuffle_i32x4(-1, words[8 + c], words[12 + c], 0xdd);
        t[c] = _mm512_maskz_shuffle_i32x4(-1, a, d, 0x88), t[8 + c] = _mm512_maskz_shuffle_i32x4(-1, a, d, 0xdd);
        t[4 + c] = _mm512_maskz_shuffle_i32x4(-1, b, e, 0x88), t[12 + c] = _mm512_maskz_shuffle_i32x4(-1, b, e, 0xdd);
    }
    for (int i = 0; i < 16; ++i) words[i] = t[i];
}
#endif

// From [rows][columns], lines `from_line` apart, to [columns][rows], lines `to_line` apart.
inline void transpose(const float *from, std::int64_t from_line, std::int64_t rows, std::int64_t columns, float *to,
                      std::int64_t to_line) {
    constexpr std::int64_t square = 16;  // whose lines of the cache are used whole
    for (std::int64_t row = 0; row < rows; row += square)
        for (std::int64_t column = 0; column < columns; column += square) {
            const std::int64_t down = std::min(square, rows - row), right = std::min(square, columns - column);
            const float *const corner = from + row * from_line + column;
            float *const turned = to + column * to_line + row;
#if defined(__AVX512F__)
            __m512i words[square];
            for (int r = 0; r < square; ++r)
                words[r] = _mm512_maskz_loadu_epi32(r < down ? first(right) : 0, corner + r * from_line);
            transpose(words);
            for (int c = 0; c < right; ++c) _mm512_mask_storeu_epi32(turned + c * to_line, first(down), words[c]);
#else
            for (std::int64_t c = 0; c < right; ++c)
                for (std::int64_t r = 0; r < down; ++r) turned[c * to_line + r] = corner[r * from_line + c];
#endif
        }
}
