// Everything that a systems.h may use. The generated unit includes it; authors need no include of their own.
#pragma once
#include "bits.h"
#ifdef TBS_CHECKS
#include "checked_types.h"
#endif
#include "copy.h"
#include "fault.h"
#include "integers.h"
#include "lanes.h"
#include "math.h"
#include "platform.h"
#include "random.h"
#include "table.h"
#include "vector.h"
#include "workspace.h"
#include "world.h"
#include "worlds.h"
