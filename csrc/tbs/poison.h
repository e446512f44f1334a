// The fence around an author's systems: inside it libm's names, C's generators and what reaches beyond a world do not compile.
//
// sinf(), std::exp() or rand() in a system would break "same seed, same bits", and would do so silently.
// This is how systems have to be included, at global scope, after every other header:
//
//     #include "tbs/tbs.h"
//     ... components, parameters: in namespace tbs::fence::systems, so that the author's names are found first ...
//     #include "tbs/poison.h"
//     TBS_BEGIN_SYSTEMS(systems)
//     #include "systems.h"
//     TBS_END_SYSTEMS
//     ... here a system is called tbs::fence::systems::push_cart ...
//
// How a name in systems.h is found: in namespace tbs::fence::systems, then tbs::fence, then tbs, then
// globally, and the first that has it ends the search. So
//  - sin(x) is tbs::sin, and ::sin is never considered; no `using namespace tbs` must bring the two to one
//    level;
//  - sinf(x), rand() and std::sin(x) meet the deleted functions below, whose return type says what to use
//    instead;
//  - authors may give functions and variables of their own any of these names (y0, gamma, ...);
//  - with an f64 argument sin(x) is an error (math.h), with an integer it is tbs::sin(f32(x)).
// Only ::sin(x), with the colons, reaches libm. torch_batchsim/read/cpp_rules.py rejects such a call in an author's text, and under
// g++ it is an error (for f32 and f64 arguments); nvcc has no way to reject it, but g++ compiles the same systems first.
// Headers of the standard library can be included inside the fence only if they were before (include guards); systems do
// without them.
#pragma once

// C's own headers: those of C++ around them take g++ longer than all of the engine.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#include <stdlib.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS

#include "math.h"
#include "platform.h"

// libm's functions of one, two and three arguments that namespace tbs has under the same name; each comes as
// sin, sinf and sinl. Then those that it has under another name, and those that it lacks.
#define TBS_LIBM_1(X)                                                                                \
    X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(exp) X(exp2) X(log) X(log2) X(tanh) X(sqrt)       \
    X(floor) X(ceil) X(trunc) X(rint) X(round)
#define TBS_LIBM_2(X) X(atan2) X(pow) X(hypot) X(fmod) X(copysign)
#define TBS_LIBM_3(X) X(fma)
#define TBS_LIBM_RENAMED(X) X(fabs, abs) X(fmin, min) X(fmax, max) X(nearbyint, rint)
#define TBS_LIBM_LACKING(X)                                                                          \
    X(sinh) X(cosh) X(asinh) X(acosh) X(atanh) X(expm1) X(log10) X(log1p) X(cbrt) X(erf) X(erfc)     \
    X(tgamma) X(lgamma) X(remainder) X(fdim) X(ldexp) X(lrint) X(lround)
#define TBS_C_RANDOM(X) X(rand) X(srand) X(random) X(drand48) X(lrand48)
// What reaches beyond a world: clocks, files, other processes, the end of this one.
#define TBS_C_OUTSIDE(X)                                                                                            \
    X(clock) X(time) X(gettimeofday) X(clock_gettime) X(sleep) X(usleep) X(nanosleep) X(pause) X(system) X(fork)    \
    X(exit) X(_exit) X(quick_exit) X(atexit) X(abort) X(raise) X(kill) X(signal) X(getpid) X(read) X(write)         \
    X(open) X(close) X(remove) X(rename) X(scanf) X(getchar) X(setenv) X(setjmp) X(longjmp)

namespace tbs::fence {

// The return types of the deleted functions: they stand in the compiler's message.
#define TBS_ADVICE(name) struct libm_is_not_reproducible_use_tbs_##name {};
TBS_LIBM_1(TBS_ADVICE)
TBS_LIBM_2(TBS_ADVICE)
TBS_LIBM_3(TBS_ADVICE)
TBS_ADVICE(abs)
TBS_ADVICE(min)
TBS_ADVICE(max)
TBS_ADVICE(clamp)
TBS_ADVICE(isnan)
TBS_ADVICE(isinf)
TBS_ADVICE(isfinite)
TBS_ADVICE(signbit)
#undef TBS_ADVICE
struct libm_is_not_reproducible_and_namespace_tbs_lacks_this_function {};
struct not_reproducible_use_world_random {};
struct reaches_beyond_the_world {};

#define TBS_DELETED(name, advice) \
    template <class... T>         \
    advice name(T...) = delete;
#define TBS_DELETED_SUFFIXED(name)                                               \
    TBS_DELETED(name##f, libm_is_not_reproducible_use_tbs_##name)                \
    TBS_DELETED(name##l, libm_is_not_reproducible_use_tbs_##name)
#define TBS_DELETED_PLAIN(name) TBS_DELETED(name, libm_is_not_reproducible_use_tbs_##name)
#define TBS_DELETED_RENAMED(name, ours)                                          \
    TBS_DELETED(name, libm_is_not_reproducible_use_tbs_##ours)                   \
    TBS_DELETED(name##f, libm_is_not_reproducible_use_tbs_##ours)                \
    TBS_DELETED(name##l, libm_is_not_reproducible_use_tbs_##ours)
#define TBS_DELETED_LACKING(name)                                                          \
    TBS_DELETED(name, libm_is_not_reproducible_and_namespace_tbs_lacks_this_function)      \
    TBS_DELETED(name##f, libm_is_not_reproducible_and_namespace_tbs_lacks_this_function)   \
    TBS_DELETED(name##l, libm_is_not_reproducible_and_namespace_tbs_lacks_this_function)
#define TBS_DELETED_RANDOM(name) TBS_DELETED(name, not_reproducible_use_world_random)
#define TBS_DELETED_OUTSIDE(name) TBS_DELETED(name, reaches_beyond_the_world)
#define TBS_DELETED_EVERYWHERE            \
    TBS_LIBM_1(TBS_DELETED_SUFFIXED)      \
    TBS_LIBM_2(TBS_DELETED_SUFFIXED)      \
    TBS_LIBM_3(TBS_DELETED_SUFFIXED)      \
    TBS_LIBM_RENAMED(TBS_DELETED_RENAMED) \
    TBS_LIBM_LACKING(TBS_DELETED_LACKING) \
    TBS_C_RANDOM(TBS_DELETED_RANDOM)      \
    TBS_C_OUTSIDE(TBS_DELETED_OUTSIDE)

TBS_DELETED_EVERYWHERE

// What `std::` means inside the fence: this namespace, which has nothing else.
namespace std {

TBS_DELETED_EVERYWHERE
TBS_LIBM_1(TBS_DELETED_PLAIN)
TBS_LIBM_2(TBS_DELETED_PLAIN)
TBS_LIBM_3(TBS_DELETED_PLAIN)
TBS_DELETED_PLAIN(abs)
TBS_DELETED_PLAIN(min)
TBS_DELETED_PLAIN(max)
TBS_DELETED_PLAIN(clamp)
TBS_DELETED_PLAIN(isnan)
TBS_DELETED_PLAIN(isinf)
TBS_DELETED_PLAIN(isfinite)
TBS_DELETED_PLAIN(signbit)

}  // namespace std

}  // namespace tbs::fence

// The same names at global scope, marked so that `::sin(x)` is reported inside the fence. Redeclaring them
// is the only way to reach them; glibc and libstdc++ allow it under g++.
#if defined(__GLIBC__) && defined(__GLIBCXX__) && !defined(__CUDACC__) && !defined(__clang__)
#define TBS_MARK(name) [[deprecated("libm is not reproducible: write " #name "(...) or tbs::" #name "(...)")]]
#define TBS_MARK_1(name)                         \
    TBS_MARK(name) double name(double) noexcept; \
    TBS_MARK(name) float name##f(float) noexcept;
#define TBS_MARK_2(name)                                 \
    TBS_MARK(name) double name(double, double) noexcept; \
    TBS_MARK(name) float name##f(float, float) noexcept;
#define TBS_MARK_STD_1(name) TBS_MARK(name) constexpr float name(float);
#define TBS_MARK_STD_2(name) TBS_MARK(name) constexpr float name(float, float);
extern "C" {
TBS_LIBM_1(TBS_MARK_1)
TBS_LIBM_2(TBS_MARK_2)
[[deprecated("not reproducible: use world.random()")]] int rand() noexcept;
}
namespace std {
TBS_LIBM_1(TBS_MARK_STD_1)
TBS_LIBM_2(TBS_MARK_STD_2)
}  // namespace std
#undef TBS_MARK
#undef TBS_MARK_1
#undef TBS_MARK_2
#undef TBS_MARK_STD_1
#undef TBS_MARK_STD_2
#endif

#undef TBS_LIBM_1
#undef TBS_LIBM_2
#undef TBS_LIBM_3
#undef TBS_LIBM_RENAMED
#undef TBS_LIBM_LACKING
#undef TBS_C_RANDOM
#undef TBS_C_OUTSIDE
#undef TBS_DELETED
#undef TBS_DELETED_SUFFIXED
#undef TBS_DELETED_PLAIN
#undef TBS_DELETED_RENAMED
#undef TBS_DELETED_LACKING
#undef TBS_DELETED_RANDOM
#undef TBS_DELETED_OUTSIDE
#undef TBS_DELETED_EVERYWHERE

// A cast that removes const, also by an alias, is an error: others read const values at the same time. So is a function
// that may end without a value. The rest are warnings about the text, which change no code; g++ reports them, and
// nvcc's g++, which compiles the same text once more, need not.
#if defined(__CUDACC__)
#define TBS_WARN_OF_TEXT
#else
#define TBS_WARN_OF_TEXT                                       \
    _Pragma("GCC diagnostic warning \"-Wdouble-promotion\"")   \
    _Pragma("GCC diagnostic warning \"-Wfloat-conversion\"")   \
    _Pragma("GCC diagnostic warning \"-Wshadow=local\"")       \
    _Pragma("GCC diagnostic warning \"-Wunused-parameter\"")
#endif
// `name` is the namespace within tbs::fence: `systems` for the author's text, a library's own for a library's.
#define TBS_BEGIN_SYSTEMS(name)                                                      \
    _Pragma("GCC diagnostic push")                                                   \
    _Pragma("GCC diagnostic error \"-Wdeprecated-declarations\"")                    \
    _Pragma("GCC diagnostic error \"-Wcast-qual\"")                                  \
    _Pragma("GCC diagnostic error \"-Wreturn-type\"")                                \
    TBS_WARN_OF_TEXT                                                                 \
    namespace tbs::fence::name {
#define TBS_END_SYSTEMS \
    }                   \
    _Pragma("GCC diagnostic pop")
