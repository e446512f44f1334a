#pragma once

template <class Number>
TBS_FUNCTION Number larger(Number a, Number b) {
    return a < b ? b : a;
}
