// A body as tests hand it over; a header of csrc/physics comes before.
#pragma once

struct Body {
    i32 kind, hull;
    vec3 size;
    Transform at;
};

TBS_FUNCTION Geometry geometry(const Body &body, const Hull *hulls) {
    return {body.kind, body.size, body.kind == HULL ? hulls + body.hull : hulls};
}
