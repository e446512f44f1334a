// What is scored: the rules of the 104 games, which read the RAM after each frame, as ale-py 0.12.1 does.
//
// `r` is the console's RAM, r[0x80] .. r[0xFF]. A game's function returns its score, the lives that are left (0 where
// it counts none, 1 where the first one is the last) and whether it is over. The reward of a frame is by how much the
// score has grown, unless the function gives another; `game` then is the state after the frame before.

struct Memory {
    const u8 *ram;        // 128 bytes
    const u8 *cartridge;  // as many, of a cartridge with RAM; else nullptr

    TBS_METHOD i32 operator[](u32 address) const { return ram[address & 0x7F]; }
    TBS_METHOD i32 low(u32 address) const { return (*this)[address] & 15; }
    TBS_METHOD i32 high(u32 address) const { return (*this)[address] >> 4; }
    TBS_METHOD bool bits(u32 address, i32 mask) const { return ((*this)[address] & mask) != 0; }
    TBS_METHOD i32 signed_byte(u32 address) const { return i8((*this)[address]); }

    // The number with these bytes of two decimal digits each, the lowest first. Digits above 9 count as they are.
    TBS_METHOD i32 decimal(u32 lowest) const { return low(lowest) + 10 * high(lowest); }
    TBS_METHOD i32 decimal(u32 lowest, u32 second) const { return decimal(lowest) + 100 * decimal(second); }
    TBS_METHOD i32 decimal(u32 lowest, u32 second, u32 third) const {
        return decimal(lowest, second) + 10000 * decimal(third);
    }

    // The number with a digit in the low half of each of `count` bytes, the lowest first; 10 stands for 0.
    TBS_METHOD i32 digits(u32 first, u32 count) const {
        i32 number = 0;
        for (u32 i = count; i-- > 0;) number = 10 * number + zero_of_ten(low(first + i));
        return number;
    }

    TBS_METHOD static i32 zero_of_ten(i32 digit) { return digit == 10 ? 0 : digit; }
};

constexpr i32 DIFFERENCE = -2147483647 - 1;  // a reward: that of the scores

struct Seen {
    i32 score, lives;
    bool over;
    i32 reward = DIFFERENCE;
};

TBS_FUNCTION Seen adventure(Memory r, const Game &game) {
    const bool home = r[0xB9] == 0x12;
    return {0, 1, home || r[0xE0] == 2, home ? 1 : game.reward};
}

TBS_FUNCTION Seen air_raid(Memory r) { return {r.decimal(0xAA, 0xA9, 0xA8), 1, r[0xA7] == 0xFF}; }

TBS_FUNCTION Seen alien(Memory r) {
    i32 score = 0;
    for (u32 address = 0x83; address <= 0x8B; address += 2) {
        score = 10 * score + (r[address] == 0x80 ? 0 : r[address] >> 3);
    }
    const i32 lives = r.low(0xC0);
    return {10 * score, lives, lives == 0};
}

TBS_FUNCTION Seen amidar(Memory r) { return {r.decimal(0xD9, 0xDA, 0xDB), r.low(0xD6), r[0xD6] == 0x80}; }

TBS_FUNCTION Seen assault(Memory r) { return {r.decimal(0x82, 0x81, 0x80), r[0xE5], r[0xE5] == 0}; }

TBS_FUNCTION Seen asterix(Memory r) {
    const i32 lives = r.low(0xD3);
    return {r.decimal(0xE0, 0xDF, 0xDE), lives, r[0xC7] == 1 && lives == 1};
}

TBS_FUNCTION Seen asteroids(Memory r, const Game &game) {
    const i32 score = 10 * r.decimal(0xBE, 0xBD), more = score - game.score, lives = r.high(0xBC);
    return {score, lives, lives == 0, more < 0 ? more + 100000 : more};
}

TBS_FUNCTION Seen atlantis(Memory r, const Game &game) {
    const i32 lives = r[0xF1];
    return {lives == 0xFF ? game.score : 100 * r.decimal(0xA2, 0xA3, 0xA1), lives, lives == 0xFF};
}

TBS_FUNCTION Seen atlantis2(Memory r, const Game &game) {
    const i32 lives = r[0xF1];
    return {lives == 0xFF ? game.score : r.decimal(0xA1, 0xA2, 0xA3), lives, lives == 0xFF};
}

// The computer's pieces count up, the player's down; 0x80 and 0x8E have those that are out.
TBS_FUNCTION Seen backgammon(Memory r, const Game &game) {
    const i32 own_out = -r.signed_byte(0x80), its_out = r.signed_byte(0x8E);
    i32 own = own_out, its = its_out;
    for (u32 point = 0x81; point <= 0x9B; ++point) {
        if (point == 0x8E) continue;
        own += max(-r.signed_byte(point), 0);
        its += max(r.signed_byte(point), 0);
    }
    if (own != 15 || its != 15) return {0, 1, game.over, game.reward};  // a piece is being moved
    if (own_out == 15) return {0, 1, true, 1};
    if (its_out == 15) return {0, 1, true, -1};
    return {0, 1, false, game.reward};
}

TBS_FUNCTION Seen bank_heist(Memory r) {
    return {r.decimal(0xDA, 0xD9, 0xD8), r[0xD5], r[0xCE] == 1 && r[0xD5] == 0};
}

TBS_FUNCTION Seen basic_math(Memory r) { return {r.decimal(0x84), 1, r[0x86] != 0}; }

TBS_FUNCTION Seen battle_zone(Memory r) {
    const i32 thousands = Memory::zero_of_ten(r.high(0x9D)) + 10 * Memory::zero_of_ten(r.low(0x9E)) +
                          100 * Memory::zero_of_ten(r.high(0x9E));
    return {1000 * thousands, r.low(0xBA), r.low(0xBA) == 0};
}

TBS_FUNCTION Seen beam_rider(Memory r, const Game &game) {
    const i32 shown = r[0x85] + 1;
    const i32 lives = shown == game.lives - 1 && r[0x8C] != 1 ? game.lives : shown;
    return {r.decimal(0x89, 0x8A, 0x8B), lives, r[0x85] == 0xFF};
}

TBS_FUNCTION Seen berzerk(Memory r) { return {r.decimal(0xDF, 0xDE, 0xDD), r[0xDA] + 1, r[0xDA] == 0xFF}; }

TBS_FUNCTION Seen blackjack(Memory r) {
    const bool broke = r[0x86] == 0x0B && r[0x89] == 0xBB;  // a text stands in place of the money
    const i32 money = broke ? 0 : r.decimal(0x89, 0x86);
    return {money, 1, broke || money >= 1000};
}

TBS_FUNCTION Seen bowling(Memory r) { return {r.decimal(0xA1, 0xA6), 0, r[0xA4] > 0x10}; }

TBS_FUNCTION Seen boxing(Memory r) {
    const i32 own = r[0x92] == 0xC0 ? 100 : r.decimal(0x92), its = r[0x93] == 0xC0 ? 100 : r.decimal(0x93);
    const bool time_up = r.high(0x90) == 0 && r[0x91] == 0;
    return {own - its, 0, own == 100 || its == 100 || time_up};
}

TBS_FUNCTION Seen breakout(Memory r, Game &game) {
    i16 &started = game.latches[0];
    if (r[0xB9] == 5) started = true;
    return {r.decimal(0xCD) + 100 * r.low(0xCC), r[0xB9], started && r[0xB9] == 0};
}

TBS_FUNCTION Seen carnival(Memory r) { return {10 * r.decimal(0xAE, 0xAD), 0, r[0x83] == 0}; }

TBS_FUNCTION Seen casino(Memory r, const Game &game) {
    const i32 money = r.decimal(0x95, 0x8C);
    const bool solitaire = r[0xD4] == 3, waits = r.bits(0xD3, 0x80);
    const bool over = solitaire ? money > 0 && r[0x9E] == 0xAA : money == 0 || (r[0x9E] != 0 && waits);
    return {money, 1, over, solitaire || !waits ? money - game.score : game.reward};
}

TBS_FUNCTION Seen centipede(Memory r, const Game &game) {
    const i32 score = r.decimal(0xF6, 0xF5, 0xF4);
    return {score, (r[0xED] >> 4 & 7) + 1, r.bits(0xA6, 0x40), max(score - game.score, 0)};
}

TBS_FUNCTION Seen chopper_command(Memory r, Game &game) {
    i16 &started = game.latches[0];
    const i32 lives = r.low(0xE4);
    const bool over = started && lives == 0;
    if (r.bits(0xC2, 1)) started = true;
    return {100 * r.decimal(0xEE, 0xEC), lives, over};
}

TBS_FUNCTION Seen crazy_climber(Memory r, const Game &game) {
    const i32 score = 100 * (r[0x82] + 10 * r[0x83] + 100 * r[0x84] + 1000 * r[0x85]);
    return {score, r[0xAA], r[0xAA] == 0, max(score - game.score, 0)};
}

TBS_FUNCTION Seen crossbow(Memory r) { return {r.decimal(0x8D, 0x8C, 0x8B), 1, r[0xE7] == 0x82}; }

// Over where the level or the score falls, or no health is left.
TBS_FUNCTION Seen darkchambers(Memory r, Game &game) {
    i16 &last_level = game.latches[0];
    const i32 level = r[0xD5], score = 10 * r.decimal(0xCC, 0xCF);
    const bool fell = level < last_level || score < game.score, dead = (r[0xCA] & 31) == 0;
    last_level = i16(level);
    return {score, 1, fell || dead, fell ? 0 : score - game.score};
}

TBS_FUNCTION Seen defender(Memory r) { return {r.digits(0x9C, 6), r[0xC2], r[0xC2] == 0}; }

TBS_FUNCTION Seen demon_attack(Memory r, Game &game) {
    i16 &fresh = game.latches[0];  // no frame has passed since the mode was chosen
    const bool title = r[0x81] == 0xAB && r[0x83] == 0xCD && r[0x85] == 0xEA;
    const bool over = r[0xF2] == 0 && r[0xF1] == 0xBD && !fresh;
    fresh = false;
    return {title ? 0 : r.decimal(0x85, 0x83, 0x81), r[0xF2] + 1, over};
}

TBS_FUNCTION Seen donkey_kong(Memory r) {
    return {100 * r.decimal(0x88, 0x87), r[0xA3], r[0xA3] == 0 && r[0x8F] == 3 && r[0x8B] == 0x1F};
}

TBS_FUNCTION Seen double_dunk(Memory r) {
    const i32 own = r.decimal(0xF6), its = r.decimal(0xF7);
    return {own - its, 0, (own >= 24 || its >= 24) && r[0xFE] == 0xE7};
}

TBS_FUNCTION Seen earthworld(Memory r) { return {r.decimal(0xA7), 1, r.decimal(0xA7) == 10}; }

TBS_FUNCTION Seen elevator_action(Memory r) {
    return {r.decimal(0x89, 0x88, 0x87), r[0x83], r[0x83] == 0 && r[0x81] != 0};
}

// 200 cars are to be passed on the first day, 300 on each later one; the game counts those that are left.
TBS_FUNCTION Seen enduro(Memory r) {
    const i32 day = r[0xAD], left = r.decimal(0xAB, 0xAC);
    return {day == 0 ? 0 : 200 + 300 * (day - 1) - left, 0, r[0xAF] == 0xFF};
}

TBS_FUNCTION Seen entombed(Memory r) { return {r[0xE3], 1, !r.bits(0xC7, 3)}; }

TBS_FUNCTION Seen et(Memory r) {
    const i32 lives = i8(r[0xE5] + 1);
    return {r.decimal(0xE1, 0xE0, 0xDF), lives, lives == 0 && r[0x80] == 8};
}

TBS_FUNCTION Seen fishing_derby(Memory r) {
    return {r.decimal(0xBD) - r.decimal(0xBE), 0, r[0xBD] == 0x99 || r[0xBE] == 0x99};
}

TBS_FUNCTION Seen flag_capture(Memory r) { return {r.decimal(0xEA), 1, r[0xEB] == 0}; }

TBS_FUNCTION Seen freeway(Memory r, const Game &game) {
    const i32 score = r.decimal(0xE7);
    return {score, 0, r[0x96] == 1, clamp(score - game.score, 0, 1)};
}

TBS_FUNCTION Seen frogger(Memory r) { return {r.decimal(0xCE, 0xCC), r[0xD0], r[0xD0] == 0xFF}; }

TBS_FUNCTION Seen frostbite(Memory r) {
    return {r.decimal(0xCA, 0xC9, 0xC8), r.low(0xCC) + 1, r.low(0xCC) == 0 && r.bits(0xF1, 0x80)};
}

TBS_FUNCTION Seen galaxian(Memory r, const Game &game) {
    const i32 score = r.decimal(0xAE, 0xAD, 0xAC), more = score - game.score;
    const bool over = r.bits(0xBF, 0x80);
    return {score, over ? 0 : r[0xB9] + 1, over, more < 0 ? more + 1000000 : more};
}

TBS_FUNCTION Seen gopher(Memory r) {
    const u32 carrots = u32(r[0xB4] & 7);  // a bit each
    return {r.decimal(0xB2, 0xB1, 0xB0), i32(count_bits(carrots)), carrots == 0};
}

TBS_FUNCTION Seen gravitar(Memory r) {
    return {r.decimal(0x89, 0x88, 0x87), r[0x81] == 0 ? 6 : r[0x84] + 1, r[0x81] == 1};
}

TBS_FUNCTION Seen hangman(Memory r, Game &game) {
    i16 &now = game.latches[0], &before = game.latches[1];
    before = now;
    now = i16(r[0xF1]);
    const i32 score = r.decimal(0xEB) - r.decimal(0xEC);
    return {score, 1, score != game.score || (now == 0 && before == 0xFF)};
}

TBS_FUNCTION Seen haunted_house(Memory r, const Game &game) {
    const i32 score = r.decimal(0x82);
    const bool escaped = r[0x99] == 0x44;
    return {score, r[0x96], escaped || r[0x96] == 0, 100 * escaped - (score != game.score)};
}

TBS_FUNCTION Seen hero(Memory r) { return {r.decimal(0xB9, 0xB8, 0xB7), r[0xB3], r[0xB3] == 0}; }

TBS_FUNCTION Seen human_cannonball(Memory r) {
    return {r.decimal(0xB6), 1, r.decimal(0xB6) == 7 || r.decimal(0xB7) == 7};
}

TBS_FUNCTION Seen ice_hockey(Memory r, const Game &game) {
    const i32 score = r.decimal(0x8A) - r.decimal(0x8B);
    return {score, 0, r[0x87] == 0 && r[0x86] == 0, min(score - game.score, 1)};
}

TBS_FUNCTION Seen jamesbond(Memory r) {
    return {r.decimal(0xDC, 0xDD, 0xDE), r.low(0x86) + 1, r.low(0x86) == 0 && r[0x8C] == 0x68};
}

TBS_FUNCTION Seen journey_escape(Memory r, const Game &game) {
    const i32 score = r.decimal(0x92, 0x91, 0x90), more = score - game.score;
    return {score, 0, r[0x95] == 0 && r[0x96] == 0, more == 50000 ? 0 : more};  // 50,000 are what a game begins with
}

TBS_FUNCTION Seen kaboom(Memory r) {
    const i32 score = r.decimal(0xA5, 0xA4, 0xA3);
    return {score, 1, r[0xA1] == 0 || score == 999999};
}

TBS_FUNCTION Seen kangaroo(Memory r) { return {100 * r.decimal(0xA8, 0xA7), (r[0xAD] & 7) + 1, r[0xAD] == 0xFF}; }

TBS_FUNCTION Seen keystone_kapers(Memory r) {
    return {r.decimal(0x9C, 0x9B), r[0x96], r[0x96] == 0 && r[0x88] == 0};
}

TBS_FUNCTION Seen king_kong(Memory r) { return {r.decimal(0x83, 0x82), r[0xEE], r[0xEE] == 0}; }

// Its numbers are in the RAM of the cartridge. Five columns hold five tiles each; colours of tiles are even.
TBS_FUNCTION Seen klax(Memory r) {
    const Memory own{r.cartridge, nullptr};
    bool full = r[0xA8] == 4;
    for (u32 place = 0xB3; place < 0xB3 + 25; ++place) {
        const i32 tile = r[place];
        full = full && tile != 0 && tile != 2 && tile != 6 && tile != 10 && tile != 14;
    }
    const bool dropped = own[0xE9] > 0 && own[0xEE] == own[0xE9];
    return {own.decimal(0xB4, 0xB5, 0xB6), 1, dropped || full || own[0x9D] == 0x99};
}

TBS_FUNCTION Seen koolaid(Memory r) { return {100 * r.decimal(0x81, 0x80), 0, r[0xD1] == 0x80}; }

TBS_FUNCTION Seen krull(Memory r) {
    const bool over = r[0x9F] == 0 && r[0xA2] == 3 && r[0x80] == 0x80;
    return {r.decimal(0x9E, 0x9D, 0x9C), (r[0x9F] & 7) + 1, over};
}

TBS_FUNCTION Seen kung_fu_master(Memory r) {
    return {r.decimal(0x9A, 0x99, 0x98), (r[0x9D] & 7) + 1, r[0x9D] == 0xFF};
}

TBS_FUNCTION Seen laser_gates(Memory r) { return {r.decimal(0x82, 0x81, 0x80), 0, r[0x83] == 0}; }

TBS_FUNCTION Seen lost_luggage(Memory r) {
    const bool over = r[0xCA] == 0 && r[0xC8] == 0x0A && r[0xA5] == 0 && r[0xA9] == 0;
    return {r.decimal(0x96, 0x95, 0x94), r[0xCA], over};
}

TBS_FUNCTION Seen mario_bros(Memory r) { return {100 * r.decimal(0x8A, 0x89), r[0x87], r[0x87] == 0}; }

// Par less the strokes, at the end of each hole. The game shows strokes left of par until a hole is done.
TBS_FUNCTION Seen miniature_golf(Memory r, Game &game) {
    i16 &last_left = game.latches[0], &more = game.latches[1], &par = game.latches[2], &last_hole = game.latches[3];
    const i32 left = r.decimal(0x87), right = r.decimal(0x88), hole = r.decimal(0xAF);
    i32 reward = 0;
    bool over = false;
    if (hole != last_hole) {
        const i32 strokes = last_left + more;
        if (strokes > 0) reward = par - strokes;
        over = hole == 0;
        last_hole = i16(hole);
        more = i16(-last_left);
    }
    if (right != 0) {
        par = i16(right);
    } else {
        if (left < last_left) more = i16(more + last_left);
        last_left = i16(left);
    }
    return {0, 1, over, reward};
}

TBS_FUNCTION Seen montezuma_revenge(Memory r) {
    return {r.decimal(0x95, 0x94, 0x93), (r[0xBA] & 7) + 1, r[0xBA] == 0 && r[0xFE] == 0x60};
}

TBS_FUNCTION Seen mr_do(Memory r) { return {10 * r.decimal(0x82, 0x83), r[0xDB], r[0xDA] == 0x40}; }

TBS_FUNCTION Seen ms_pacman(Memory r) {
    return {r.decimal(0xF8, 0xF9, 0xFA), (r[0xFB] & 7) + 1, r.low(0xFB) == 0 && r[0xA7] == 0x53};
}

TBS_FUNCTION Seen name_this_game(Memory r) {
    const i32 lives = r[0xC7] & 7;
    return {r.decimal(0xC6, 0xC5, 0xC4), lives, lives == 0};
}

TBS_FUNCTION Seen othello(Memory r, Game &game) {
    i16 &idle = game.latches[0];  // frames in which nobody is to move
    idle = r[0xC0] == 0 ? i16(min(idle + 1, 51)) : i16(0);
    return {r.decimal(0xCE) - r.decimal(0xD0), 1, idle > 50};
}

TBS_FUNCTION Seen pacman(Memory r) {
    return {r.decimal(0xCC, 0xCE, 0xD0), r[0x98] + 1, r[0x98] == 0 && r[0xE4] == 0x3F};
}

TBS_FUNCTION Seen phoenix(Memory r) {
    return {10 * (10 * r.decimal(0xC8, 0xC9) + r.high(0xC7)), r[0xCB] & 7, r[0xCC] == 0x80};
}

TBS_FUNCTION Seen pitfall(Memory r) {
    const i32 marks = r.high(0x80);  // strokes for lives, in the picture
    return {r.decimal(0xD7, 0xD6, 0xD5), marks == 10 ? 3 : marks == 8 ? 2 : 1, marks == 0 && r[0x9E] != 0};
}

TBS_FUNCTION Seen pitfall2(Memory r) {
    const i32 score = r.decimal(0xC9, 0xC8, 0xC7);
    return {score, 1, score == 199000};
}

TBS_FUNCTION Seen pong(Memory r) { return {r[0x8E] - r[0x8D], 0, r[0x8D] == 21 || r[0x8E] == 21}; }

TBS_FUNCTION Seen pooyan(Memory r) {
    return {r.decimal(0x8A, 0x89, 0x88), (r[0x96] & 7) + 1, r[0x96] == 0 && r[0x98] == 5};
}

TBS_FUNCTION Seen private_eye(Memory r) { return {r.decimal(0xCA, 0xC9, 0xC8), 0, r[0xC2] > 1}; }

TBS_FUNCTION Seen qbert(Memory r, Game &game) {
    i16 &last = game.latches[0];
    const i32 shown = r.signed_byte(0x88);
    const bool over = shown == -2 || (shown == 2 && last == -1);
    const i32 lives = last - 1 == shown ? game.lives - 1 : game.lives;
    last = i16(shown);
    return {over ? game.score : r.decimal(0xDB, 0xDA, 0xD9), lives, over};
}

TBS_FUNCTION Seen riverraid(Memory r, Game &game) {
    i16 &last = game.latches[0];
    i32 score = 0;
    for (u32 address = 0xCD; address <= 0xD7; address += 2) {  // offsets of pictures of digits, 8 bytes each
        const i32 offset = r[address];
        score = 10 * score + (offset % 8 == 0 && offset <= 72 ? offset / 8 : 0);
    }
    const i32 shown = r[0xC0];
    const bool over = shown == 0x58 && last == 0x59;
    last = i16(shown);
    return {score, shown == 0x58 ? 4 : shown == 0x59 ? 1 : shown / 8 + 1, over};
}

TBS_FUNCTION Seen road_runner(Memory r) {
    const bool over = !r.bits(0xC4, 7) && (r[0xB9] != 0 || r[0xBD] != 0);
    return {100 * r.digits(0xC9, 4), (r[0xC4] & 7) + 1, over};
}

TBS_FUNCTION Seen robotank(Memory r) {
    return {12 * r[0xB6] + r[0xB5], r.low(0xA8) + 1, r[0xA8] == 0 && r[0xB4] == 0xFF};
}

TBS_FUNCTION Seen seaquest(Memory r) { return {r.decimal(0xBA, 0xB9, 0xB8), r[0xBB] + 1, r[0xA3] != 0}; }

TBS_FUNCTION Seen sir_lancelot(Memory r) {
    return {r.decimal(0xA0, 0x9F, 0x9E), r[0xA9], r[0xA9] == 0 && r[0xA7] == 0xA0};
}

// The time in hundredths of a second counts down.
TBS_FUNCTION Seen skiing(Memory r) { return {-(6000 * r[0xE8] + r.decimal(0xEA, 0xE9)), 0, r[0x91] == 0xFF}; }

TBS_FUNCTION Seen solaris(Memory r) { return {10 * r.decimal(0xDC, 0xDD, 0xDE), r.low(0xD9), r[0xD9] == 0}; }

TBS_FUNCTION Seen space_invaders(Memory r, const Game &game) {
    const i32 score = r.decimal(0xE8, 0xE6), more = score - game.score;
    return {score, r[0xC9], r.bits(0x98, 0x80) || r[0xC9] == 0, more < 0 ? more + 10000 : more};
}

TBS_FUNCTION Seen space_war(Memory r) {
    const i32 score = r.decimal(0xA7);
    return {score, 1, score == 10 || r[0x80] == 0};
}

TBS_FUNCTION Seen star_gunner(Memory r, Game &game) {
    i16 &started = game.latches[0];
    if (r[0x87] == 5) started = true;
    return {100 * r.digits(0x83, 4), started ? r.low(0x87) : 5, r[0x87] == 0};
}

// All is won at once: what is left of the time is the reward.
TBS_FUNCTION Seen superman(Memory r) {
    const bool over = r.bits(0x9F, 0x40) && r[0x81] == 0xF2 && r[0x80] == 0xAC;
    return {0, 1, over, over ? 5999 - (60 * r.decimal(0xE3) + r.decimal(0xE2)) : 0};
}

TBS_FUNCTION Seen surround(Memory r) {
    const i32 own = r.decimal(0xF7), its = r.decimal(0xF6);
    return {own - its, 1, own == 10 || its == 10};
}

// A game that is won counts, in its own frame, in place of the points.
TBS_FUNCTION Seen tennis(Memory r, Game &game) {
    i16 &lead = game.latches[0];  // in games
    const i32 own = r[0xC7], its = r[0xC8], points = r[0xC5] - r[0xC6], won = own - its - lead;
    lead = i16(own - its);
    const bool over = (own >= 6 && lead >= 2) || (its >= 6 && lead <= -2) || own == 7 || its == 7;
    return {points, 0, over, won != 0 ? won : points - game.score};
}

TBS_FUNCTION Seen tetris(Memory r, const Game &game) {
    const bool over = r.bits(0xF3, 0x80);
    const i32 score = r.decimal(0xF1, 0xF2);
    return {over ? 0 : score, 0, over, max(score - game.score, 0)};
}

TBS_FUNCTION Seen tic_tac_toe_3d(Memory r, const Game &game) {
    const bool won = r[0xFF] == 0xF3 && r[0xFE] == 0x10;
    bool full = true;
    for (u32 place = 0x9A; place < 0x9A + 64; ++place) full = full && r[place] != 0;
    return {0, 1, game.over || won || full, !won ? 0 : r[0xE1] == 8 ? 1 : -1};
}

TBS_FUNCTION Seen time_pilot(Memory r, const Game &game) {
    const i32 lives = r.low(0x80) == 2 ? (r[0x8B] & 7) + 1 : game.lives;
    return {100 * r.decimal(0x8D, 0x8F), lives, r[0xA0] != 0};
}

TBS_FUNCTION Seen trondead(Memory r) { return {r.decimal(0xBF, 0xBE, 0xBD), 5 - r[0xC8], r[0xC8] == 5}; }

TBS_FUNCTION Seen turmoil(Memory r) {
    return {10 * (r.decimal(0x89, 0x8A) + r[0xD3]), r[0xB9], r[0xB9] == 0 && r[0xC5] == 1};
}

TBS_FUNCTION Seen tutankham(Memory r) {
    return {r.decimal(0x9C, 0x9A), r[0x9E] & 3, r[0x9E] == 0 && r[0x81] != 0x84};
}

TBS_FUNCTION Seen up_n_down(Memory r) {
    return {r.decimal(0x82, 0x81, 0x80), r.low(0x86) + 1, r[0x94] > 0x40 && r.low(0x86) == 0};
}

TBS_FUNCTION Seen venture(Memory r) {
    const bool over = r[0xC6] == 0 && r[0xCD] == 0xFF && r.bits(0xBF, 0x80);
    return {100 * r.decimal(0xC8, 0xC7), (r[0xC6] & 7) + 1, over};
}

// Rows of four squares: 0x10 and 0x20 are black's pieces, 0x90 and 0xA0 white's.
TBS_FUNCTION Seen video_checkers(Memory r) {
    bool black = false, white = false;
    for (u32 square = 0x80; square <= 0xA2; ++square) {
        if (square % 9 == 0x88 % 9) continue;  // between two rows of eight
        const i32 piece = r[square];
        black = black || piece == 0x10 || piece == 0x20;
        white = white || piece == 0x90 || piece == 0xA0;
    }
    const i32 reward = !black ? -1 : !white ? 1 : 0;
    return {0, 1, reward != 0, r[0xF6] >= 0x11 ? -reward : reward};
}

TBS_FUNCTION Seen video_chess(Memory r, const Game &game) {
    const bool done = r[0xE1] == 0x82 && r[0xEE] <= 1;
    return {0, 1, game.over || done, !done ? 0 : r[0xEE] == 0 ? 1 : -1};
}

// Six faces of nine tiles: a face of one colour counts. With a clock, the game is lost when that runs out.
TBS_FUNCTION Seen video_cube(Memory r, Game &game) {
    i16 &last_faces = game.latches[0], &last_clock = game.latches[1];
    i32 faces = 0;
    for (u32 face = 0xA0; face < 0xA0 + 6 * 9; face += 9) {
        bool same = true;
        for (u32 tile = 1; tile < 9; ++tile) same = same && r[face] == r[face + tile];
        faces += same;
    }
    const i32 more = faces - last_faces, clock = r[0xDB];
    const bool late = last_clock == 0xFF && clock == 0;
    last_faces = i16(faces);
    last_clock = i16(clock);
    return {0, 1, faces == 6 || late, late ? -1 : more};
}

TBS_FUNCTION Seen video_pinball(Memory r) {
    return {r.decimal(0xB0, 0xB2, 0xB4), 4 + (r[0xA8] & 1) - (r[0x99] & 7), r.bits(0xAF, 1)};
}

TBS_FUNCTION Seen wizard_of_wor(Memory r, const Game &game) {
    const i32 shown = r.decimal(0x86, 0x88), lives = r.low(0x8D);
    const i32 score = 100 * (shown >= 8000 ? shown - 8000 : shown);
    return {score, r.bits(0xD7, 1) ? game.lives : lives, lives == 0 && r[0xF4] == 0xF8};
}

TBS_FUNCTION Seen word_zapper(Memory r, const Game &game) {
    if (r[0xCF] == 0) return {game.score, 1, game.over, game.reward};  // between two games
    const i32 score = 2 - r.signed_byte(0xDC);
    return {score, 1, score == 3 || r[0xDE] == 0, score - game.score};
}

TBS_FUNCTION Seen yars_revenge(Memory r) { return {r.decimal(0xE2, 0xE1, 0xE0), r.high(0x9E), r.high(0x9E) == 0}; }

TBS_FUNCTION Seen zaxxon(Memory r) {
    const i32 lives = r[0xEA] & 7;
    return {100 * r.decimal(0xE9, 0xE8), lives, lives == 0};
}

// Dispatch -----------------------------------------------------------------------------------------------------------

// Whether this simulator has the game: the rules of others are not compiled.
TBS_FUNCTION constexpr bool plays(Title title) {
    const i32 played[4] = {Constants::games_0, Constants::games_1, Constants::games_2, Constants::games_3};
    return (played[title / 26] >> title % 26 & 1) != 0;
}

#define RULES(TITLE, seen) \
    case TITLE: \
        if constexpr (plays(TITLE)) return seen; \
        break

TBS_FUNCTION Seen seen(Memory r, Game &game) {
    switch (game.title) {
        RULES(ADVENTURE, adventure(r, game));
        RULES(AIR_RAID, air_raid(r));
        RULES(ALIEN, alien(r));
        RULES(AMIDAR, amidar(r));
        RULES(ASSAULT, assault(r));
        RULES(ASTERIX, asterix(r));
        RULES(ASTEROIDS, asteroids(r, game));
        RULES(ATLANTIS, atlantis(r, game));
        RULES(ATLANTIS2, atlantis2(r, game));
        RULES(BACKGAMMON, backgammon(r, game));
        RULES(BANK_HEIST, bank_heist(r));
        RULES(BASIC_MATH, basic_math(r));
        RULES(BATTLE_ZONE, battle_zone(r));
        RULES(BEAM_RIDER, beam_rider(r, game));
        RULES(BERZERK, berzerk(r));
        RULES(BLACKJACK, blackjack(r));
        RULES(BOWLING, bowling(r));
        RULES(BOXING, boxing(r));
        RULES(BREAKOUT, breakout(r, game));
        RULES(CARNIVAL, carnival(r));
        RULES(CASINO, casino(r, game));
        RULES(CENTIPEDE, centipede(r, game));
        RULES(CHOPPER_COMMAND, chopper_command(r, game));
        RULES(CRAZY_CLIMBER, crazy_climber(r, game));
        RULES(CROSSBOW, crossbow(r));
        RULES(DARKCHAMBERS, darkchambers(r, game));
        RULES(DEFENDER, defender(r));
        RULES(DEMON_ATTACK, demon_attack(r, game));
        RULES(DONKEY_KONG, donkey_kong(r));
        RULES(DOUBLE_DUNK, double_dunk(r));
        RULES(EARTHWORLD, earthworld(r));
        RULES(ELEVATOR_ACTION, elevator_action(r));
        RULES(ENDURO, enduro(r));
        RULES(ENTOMBED, entombed(r));
        RULES(ET, et(r));
        RULES(FISHING_DERBY, fishing_derby(r));
        RULES(FLAG_CAPTURE, flag_capture(r));
        RULES(FREEWAY, freeway(r, game));
        RULES(FROGGER, frogger(r));
        RULES(FROSTBITE, frostbite(r));
        RULES(GALAXIAN, galaxian(r, game));
        RULES(GOPHER, gopher(r));
        RULES(GRAVITAR, gravitar(r));
        RULES(HANGMAN, hangman(r, game));
        RULES(HAUNTED_HOUSE, haunted_house(r, game));
        RULES(HERO, hero(r));
        RULES(HUMAN_CANNONBALL, human_cannonball(r));
        RULES(ICE_HOCKEY, ice_hockey(r, game));
        RULES(JAMESBOND, jamesbond(r));
        RULES(JOURNEY_ESCAPE, journey_escape(r, game));
        RULES(KABOOM, kaboom(r));
        RULES(KANGAROO, kangaroo(r));
        RULES(KEYSTONE_KAPERS, keystone_kapers(r));
        RULES(KING_KONG, king_kong(r));
        RULES(KLAX, klax(r));
        RULES(KOOLAID, koolaid(r));
        RULES(KRULL, krull(r));
        RULES(KUNG_FU_MASTER, kung_fu_master(r));
        RULES(LASER_GATES, laser_gates(r));
        RULES(LOST_LUGGAGE, lost_luggage(r));
        RULES(MARIO_BROS, mario_bros(r));
        RULES(MINIATURE_GOLF, miniature_golf(r, game));
        RULES(MONTEZUMA_REVENGE, montezuma_revenge(r));
        RULES(MR_DO, mr_do(r));
        RULES(MS_PACMAN, ms_pacman(r));
        RULES(NAME_THIS_GAME, name_this_game(r));
        RULES(OTHELLO, othello(r, game));
        RULES(PACMAN, pacman(r));
        RULES(PHOENIX, phoenix(r));
        RULES(PITFALL, pitfall(r));
        RULES(PITFALL2, pitfall2(r));
        RULES(PONG, pong(r));
        RULES(POOYAN, pooyan(r));
        RULES(PRIVATE_EYE, private_eye(r));
        RULES(QBERT, qbert(r, game));
        RULES(RIVERRAID, riverraid(r, game));
        RULES(ROAD_RUNNER, road_runner(r));
        RULES(ROBOTANK, robotank(r));
        RULES(SEAQUEST, seaquest(r));
        RULES(SIR_LANCELOT, sir_lancelot(r));
        RULES(SKIING, skiing(r));
        RULES(SOLARIS, solaris(r));
        RULES(SPACE_INVADERS, space_invaders(r, game));
        RULES(SPACE_WAR, space_war(r));
        RULES(STAR_GUNNER, star_gunner(r, game));
        RULES(SUPERMAN, superman(r));
        RULES(SURROUND, surround(r));
        RULES(TENNIS, tennis(r, game));
        RULES(TETRIS, tetris(r, game));
        RULES(TIC_TAC_TOE_3D, tic_tac_toe_3d(r, game));
        RULES(TIME_PILOT, time_pilot(r, game));
        RULES(TRONDEAD, trondead(r));
        RULES(TURMOIL, turmoil(r));
        RULES(TUTANKHAM, tutankham(r));
        RULES(UP_N_DOWN, up_n_down(r));
        RULES(VENTURE, venture(r));
        RULES(VIDEO_CHECKERS, video_checkers(r));
        RULES(VIDEO_CHESS, video_chess(r, game));
        RULES(VIDEO_CUBE, video_cube(r, game));
        RULES(VIDEO_PINBALL, video_pinball(r));
        RULES(WIZARD_OF_WOR, wizard_of_wor(r, game));
        RULES(WORD_ZAPPER, word_zapper(r, game));
        RULES(YARS_REVENGE, yars_revenge(r));
        RULES(ZAXXON, zaxxon(r));
    }
    return {};
}

#undef RULES

// What an episode begins with, before its first frame.
TBS_FUNCTION void begin_rules(Game &game, Title title) {
    game = Game{};
    game.title = title;
    switch (title) {
        case BEAM_RIDER:
        case WIZARD_OF_WOR: game.lives = 3; break;
        case DEMON_ATTACK: game.latches[0] = true; break;
        case HANGMAN: game.latches[0] = game.latches[1] = -1; break;
        case PITFALL: game.score = 2000; break;
        case PITFALL2: game.score = 4000; break;
        case PRIVATE_EYE: game.score = 1000; break;
        case QBERT:
            game.lives = 4;
            game.latches[0] = 2;
            break;
        case RIVERRAID: game.latches[0] = 0x58; break;
        case TIME_PILOT: game.lives = 5; break;
        default: break;
    }
}

// Reads what a frame has done. Nothing more is lost where a game is over; two games go on to show their lives.
TBS_FUNCTION void judge_frame(Memory r, Game &game) {
    const Seen now = seen(r, game);
    const bool shows_lives = game.title == ADVENTURE || game.title == CHOPPER_COMMAND;
    game.reward = now.reward == DIFFERENCE ? now.score - game.score : now.reward;
    game.score = now.score;
    game.lives = i16(now.over && !shows_lives ? 0 : now.lives);
    game.over = now.over;
}

// The number by which a game shows its mode (Facts.shown_mode), -1 while it shows none; `shown_at` is of its Facts.
TBS_FUNCTION i32 mode_of(Memory r, Title title, u32 shown_at) {
    switch (title) {
        case ADVENTURE: return r[shown_at] >> 1 & 3;
        case HUMAN_CANNONBALL: return r[0xB7] == 1 ? r[shown_at] : -1;
        case JAMESBOND: return r[shown_at] < 0x48 ? r[shown_at] : r[shown_at] - 0x48;
        case KANGAROO: return r[shown_at] & 0x7F;
        case KLAX: return Memory{r.cartridge, nullptr}[shown_at];
        case MS_PACMAN: return r[0xA1] == 0 ? r[shown_at] : r[0xA1] == 1 && r[shown_at] == 1 ? 0 : -1;
        case PACMAN: return r[0xE6] == 0 ? r[shown_at] : -1;
        case SPACE_WAR: return r.decimal(shown_at);
        default: return r[shown_at];
    }
}
