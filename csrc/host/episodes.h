// Statistics of episodes.
#pragma once

#include <cstdint>

namespace episodes {

using i64 = std::int64_t;

// As train/rollouts/episodes.py has it: a rollout, [steps, rows] each, `active` or null; and return and length, [2,
// rows], of the running episode of each row, and of the latest that ended.
struct Given {
    i64 steps, rows;
    const float *rewards;
    const bool *terminations, *truncations, *active;
    float *running, *latest;
};

// Follows the episodes through the rollout. Where several of a row end in it, the latest are their mean.
inline void follow(const Given &given) {
    const i64 rows = given.rows;
    for (i64 r = 0; r < rows; ++r) {
        float &running = given.running[r], &length = given.running[rows + r];
        float total = 0, lengths = 0;
        i64 ended = 0;
        for (i64 place = r; place < given.steps * rows; place += rows) {
            if (!given.active || given.active[place]) running += given.rewards[place], length += 1;
            // An agent that has left meets the end of its world as well, which is not another episode.
            if ((given.terminations[place] || given.truncations[place]) && length > 0) {
                total += running, lengths += length, ++ended;
                running = length = 0;
            }
        }
        if (ended) given.latest[r] = total / ended, given.latest[rows + r] = lengths / ended;
    }
}

}  // namespace episodes
