// Networks and policies, as Python has them.
#pragma once

#include "host/memory.h"
#include "host/perceptron.h"

namespace {

// A policy of `count` categorical choices, of `sizes` each; or, where these are null, a Gaussian in so many dimensions,
// with the logarithms of its standard deviations and the place of their gradient.
struct PolicyGiven {
    i64 count;
    const i64 *sizes;
    const float *log_stds;
    float *of_log_stds;
};

// Hidden layers, a memory and a last layer, as train/policies/memory.py has them; or layers, and nothing else.
struct NetworkGiven {
    const PerceptronGiven *body, *last;
    const memory::CellGiven *cell;
};

}  // namespace
