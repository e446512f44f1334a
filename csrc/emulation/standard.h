// What emulated units include before everything else, precompiled where there are many. Found from any folder.
#pragma once
#include "emulation/cuda_words.h"
#include "tbs/standard.h"
