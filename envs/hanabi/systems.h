// Hanabi as hanabi-learning-environment 0.0.4 plays and shows it. Moves have its uids; a card's kind is colour * ranks +
// rank; players, colours and ranks count from 0. codes.py has the enumerations.

constexpr i32 P = Constants::players, H = Constants::hand_size, C = Constants::colors, R = Constants::ranks;
constexpr i32 KINDS = C * R, DECK = Constants::cards, TOKENS = Constants::information_tokens;
constexpr i32 DISCARDS = 0, PLAYS = H, COLOR_REVEALS = 2 * H, RANK_REVEALS = 2 * H + (P - 1) * C, NO_OP = Constants::moves;
constexpr u64 WHOLE_HAND = (u64{1} << H) - 1;
constexpr bool ONE_ROW = Constants::agents == 1;  // a world's only row is the player to move

TBS_FUNCTION i32 copies_of(i32 rank) { return rank == 0 ? 3 : rank == R - 1 ? 1 : 2; }

// A user may have written any number into the state, so players and kinds are limited to their range.
TBS_FUNCTION i32 color_of(u8 kind) { return min(i32(kind), KINDS - 1) / R; }
TBS_FUNCTION i32 rank_of(u8 kind) { return min(i32(kind), KINDS - 1) % R; }
TBS_FUNCTION i32 mover_of(const Table &table) { return min(i32(table.mover), P - 1); }
TBS_FUNCTION u32 place_of(i32 player, i32 position) { return u32(player * H + position); }

// Deal ---------------------------------------------------------------------------------------------------------------

// A new card: everything is plausible; to seers it counts as revealed.
TBS_FUNCTION Card new_card(u8 kind) {
    if (!Constants::seer) return Card{kind, (1 << C) - 1, (1 << R) - 1, 0};
    return Card{kind, u8(1 << color_of(kind)), u8(1 << rank_of(kind)), COLOR_REVEALED | RANK_REVEALED};
}

TBS_SYSTEM void deal(World &world, Deck &deck, Table &table, Last &last) {
    Random &random = world.random();
    const bool random_start = world.parameters.random_start_player;
    const u8 drawn_start = random_start ? u8(random.below(P)) : 0;
    table.mover = deck.start != 0 ? u8(deck.start - 1) : drawn_start;
    if (deck.given == 0) {
        i32 filled = 0;
        for (i32 kind = 0; kind < KINDS; ++kind) {
            for (i32 copy = 0; copy < copies_of(kind % R); ++copy) deck.cards[filled++] = u8(kind);
        }
        random.shuffle(deck.cards, DECK);
    }
    deck.given = deck.start = 0;  // used up by this episode

    const Rows<Card> hands = world.rows<Held, Card>();
    for (i32 i = 0; i < P * H; ++i) hands[u32(i)] = new_card(deck.cards[i]);
    table.dealt = P * H;
    table.information = TOKENS;
    table.lives = Constants::life_tokens;
    table.left = P;
    last = Last{NONE, NONE, NONE, NONE, NONE, NONE, NONE, 0, 0, 0};
}

// Moves --------------------------------------------------------------------------------------------------------------

// A move: its type, the position of a card or the offset of a player, and the colour or rank that is revealed.
struct Move {
    u8 type;
    i32 where, value;
};

TBS_FUNCTION Move move_of(i32 uid) {
    if (uid < COLOR_REVEALS) return {uid < PLAYS ? DISCARD : PLAY, uid < PLAYS ? uid : uid - PLAYS, 0};
    if (uid < RANK_REVEALS) return {REVEAL_COLOR, 1 + (uid - COLOR_REVEALS) / C, (uid - COLOR_REVEALS) % C};
    return {REVEAL_RANK, 1 + (uid - RANK_REVEALS) / R, (uid - RANK_REVEALS) % R};
}

// Bit i: whether move i is legal for the player to move. No move is legal after the end.
TBS_FUNCTION u64 legal_moves(Rows<const Card> hands, const Table &table) {
    const i32 mover = mover_of(table);
    u64 own = 0;
    for (i32 i = 0; i < H; ++i) own |= u64{hands[place_of(mover, i)].kind != NONE} << i;
    u64 reveals = 0;
    for (i32 offset = 1; offset < P; ++offset) {
        u64 colors = 0, ranks = 0;
        const i32 target = mover + offset < P ? mover + offset : mover + offset - P;
        for (i32 i = 0; i < H; ++i) {
            const u8 kind = hands[place_of(target, i)].kind;
            const u64 there = kind != NONE;
            colors |= there << color_of(kind);
            ranks |= there << rank_of(kind);
        }
        reveals |= colors << (COLOR_REVEALS + (offset - 1) * C) | ranks << (RANK_REVEALS + (offset - 1) * R);
    }
    const u64 discards = table.information < TOKENS ? own << DISCARDS : 0;
    return table.over ? 0 : discards | own << PLAYS | (table.information > 0 ? reveals : 0);
}

// The score: cards in the fireworks.
TBS_FUNCTION i32 played(const Table &table) {
    i32 sum = 0;
    for (i32 color = 0; color < C; ++color) sum += table.fireworks[color];
    return sum;
}

// The card leaves the hand, where newer ones move down, for the fireworks or the discards.
TBS_FUNCTION void put_down(Rows<Card> hands, Table &table, Last &last, const Move &move) {
    const i32 mover = mover_of(table);
    const u8 kind = hands[place_of(mover, move.where)].kind;
    for (i32 i = move.where; i < H - 1; ++i) hands[place_of(mover, i)] = hands[place_of(mover, i + 1)];
    hands[place_of(mover, H - 1)] = Card{NONE, 0, 0, 0};

    const i32 color = color_of(kind), rank = rank_of(kind);
    const bool scored = move.type == PLAY && table.fireworks[color] == rank;
    table.fireworks[color] += scored;
    // The discards are as they are shown: for each kind a field with a bit for each card, and as many leading ones as
    // cards lie there. Adding one to a field of ones sets the next bit.
    const i32 first = color * (DECK / C) + (rank == 0 ? 0 : 1 + 2 * rank);
    const i64 ones = table.discards >> first & ((1 << copies_of(rank)) - 1);
    table.discards |= scored ? 0 : (ones + 1) << first;
    table.lives -= move.type == PLAY && !scored;
    const bool earns = move.type == DISCARD || (scored && rank == R - 1);
    const bool token = earns && table.information < TOKENS;
    table.information += token;
    last = Last{u8(mover), move.type, NONE, NONE, NONE, u8(move.where), kind, scored, move.type == PLAY && token, 0};
}

TBS_FUNCTION void reveal(Rows<Card> hands, Table &table, Last &last, const Move &move) {
    const bool by_color = move.type == REVEAL_COLOR;
    const i32 mover = mover_of(table);
    const i32 target = mover + move.where < P ? mover + move.where : mover + move.where - P;
    const u8 bit = u8(1 << move.value), what = by_color ? COLOR_REVEALED : RANK_REVEALED;
    table.information -= 1;
    u32 outcome = 0;
    for (i32 i = 0; i < H; ++i) {
        Card &card = hands[place_of(target, i)];
        const bool there = card.kind != NONE;
        const bool applies = there && (by_color ? color_of(card.kind) : rank_of(card.kind)) == move.value;
        const u8 left = applies ? bit : u8(~bit);
        card.colors &= by_color ? left : u8(255);
        card.ranks &= by_color ? u8(255) : left;
        card.revealed |= applies ? what : 0;
        outcome |= applies && i < 8 ? 1u << i : 0u;  // the reference keeps eight bits
    }
    last = Last{u8(mover), move.type, u8(target), by_color ? u8(move.value) : u8(NONE), by_color ? u8(NONE) : u8(move.value),
                NONE, NONE, 0, 0, u8(outcome)};
}

// The move that is made, and what it costs its player; NO_OP if none is made.
struct Chosen {
    i32 uid;
    f32 cost;
};

TBS_FUNCTION Chosen chosen_move(World &world, const Table &, u64 legal, i32 uid) {
    if (u32(uid) < u32(NO_OP) && (legal >> uid & 1)) return {uid, 0.0f};
    if (!Constants::penalises) {
        world.fail(Fault::illegal_move, uid);
        return {NO_OP, 0.0f};
    }
    i32 lowest = 0;
    while (lowest < NO_OP && !(legal >> lowest & 1)) ++lowest;
    return {lowest, world.parameters.illegal_penalty};
}

TBS_SYSTEM void act(World &world, Table &table, const Deck &deck, Last &last, const Mercy &mercy, Episode &episode) {
    const Rows<Card> hands = world.rows<Held, Card>();
    const Rows<const Choice> choices = world.rows<Player, const Choice>();
    const Rows<Reward> rewards = world.rows<Player, Reward>();
    const Rows<Score> scores = world.rows<Player, Score>();
    const i32 mover = mover_of(table), own_row = ONE_ROW ? 0 : mover;
    bool out_of_turn = false;
    for (i32 i = 0; i < Constants::agents; ++i) {
        if (i == own_row || choices[u32(i)].move == NO_OP) continue;
        out_of_turn = true;
        if (Constants::penalises) {
            rewards[u32(i)].value = -world.parameters.illegal_penalty;
        } else {
            world.fail(Fault::not_your_turn, i);
        }
    }
    if (out_of_turn && !Constants::penalises) return;
    const u64 legal = legal_moves(world.rows<Held, const Card>(), table);
    const Chosen chosen = chosen_move(world, table, legal, choices[u32(own_row)].move);
    if (chosen.uid == NO_OP) return;
    rewards[u32(own_row)].value = -chosen.cost;

    const i32 before = played(table);
    const Move move = move_of(chosen.uid);
    const bool takes_card = move.type == PLAY || move.type == DISCARD;
    table.left -= table.dealt >= DECK;
    if (takes_card) {
        put_down(hands, table, last, move);
    } else {
        reveal(hands, table, last, move);
    }
    const i32 after = played(table);
    const bool lost = table.lives == 0;
    table.over = lost || after == KINDS || table.left == 0;
    if (takes_card && !table.over && table.dealt < DECK) {
        hands[place_of(mover, H - 1)] = new_card(deck.cards[table.dealt]);
        table.dealt += 1;
    }
    table.mover = u8(mover + 1 < P ? mover + 1 : 0);
    const f32 change = lost ? mercy.factor * f32(before) - f32(before) : f32(after - before);
    for (u32 i = 0; i < Constants::agents; ++i) {
        rewards[i].value += change;
        scores[i].value = f32(lost ? 0 : after);
    }
    episode.terminated = table.over;
}

// Observation --------------------------------------------------------------------------------------------------------

// One bit among `count`; no bit for NONE.
template <class String>
TBS_FUNCTION void append_one_hot(String &bits, u32 index, u32 count) {
    bits.append(index < count ? u64{1} << index : 0, count);
}

// Common knowledge of a card: plausible kinds, the revealed colour, the revealed rank. Zeros without a card.
TBS_FUNCTION u64 knowledge_of(const Card &card) {
    const u64 ranks = card.ranks & ((1 << R) - 1), colors = card.colors & ((1 << C) - 1);
    u64 spread = 0;  // bit R * color of a plausible colour: the place of its ranks
    TBS_UNROLL
    for (i32 color = 0; color < C; ++color) spread |= (colors & u64{1} << color) << (R - 1) * color;
    const u64 color = card.revealed & COLOR_REVEALED ? colors : 0, rank = card.revealed & RANK_REVEALED ? ranks : 0;
    return spread * ranks | color << KINDS | rank << (KINDS + C);
}

template <class String>
TBS_FUNCTION void append_last(String &bits, const Last &last, i32 observer) {
    const auto offset_of = [&](u8 player) {  // from the observer
        const i32 offset = player - observer;
        return player == NONE ? u32(NONE) : u32(offset < 0 ? offset + P : offset);
    };
    append_one_hot(bits, offset_of(last.player), P);
    append_one_hot(bits, last.type, 4);
    append_one_hot(bits, offset_of(last.target), P);
    append_one_hot(bits, last.color, C);
    append_one_hot(bits, last.rank, R);
    bits.append(last.outcome & WHOLE_HAND, H);
    append_one_hot(bits, last.position, H);
    append_one_hot(bits, last.kind, KINDS);
    bits.append(last.scored != 0, 1);
    bits.append(last.token != 0, 1);
}

// The canonical encoder, and which moves are legal: as bits, put together by one thread, written out by a warp.
TBS_SYSTEM void encode(World &world, Encoding &encoding, const Table &table, const Last &last, Row row) {
    const Rows<const Card> hands = world.rows<Held, const Card>();
    const i32 mover = mover_of(table), observer = ONE_ROW ? mover : i32(row.index);
    u32 first[P];  // places of players' hands, the observer's first
    TBS_UNROLL
    for (i32 offset = 0; offset < P; ++offset) {
        first[offset] = place_of(observer + offset < P ? observer + offset : observer + offset - P, 0);
    }
    Bits<Constants::bits> bits;
    TBS_UNROLL
    for (i32 offset = 1; offset < P; ++offset) {
        TBS_UNROLL
        for (u32 i = 0; i < H; ++i) append_one_hot(bits, hands[first[offset] + i].kind, KINDS);
    }
    TBS_UNROLL
    for (i32 offset = 0; offset < P; ++offset) bits.append(hands[first[offset] + H - 1].kind == NONE, 1);
    bits.append_thermometer(u32(max(DECK - table.dealt, 0)), DECK - P * H);
    TBS_UNROLL
    for (i32 color = 0; color < C; ++color) append_one_hot(bits, table.fireworks[color] - 1u, R);
    bits.append_thermometer(table.information, TOKENS);
    bits.append_thermometer(table.lives, Constants::life_tokens);
    bits.append(u64(table.discards) & ((u64{1} << DECK) - 1), DECK);
    append_last(bits, last, observer);
    if (Constants::knowledge) {
        TBS_UNROLL
        for (i32 offset = 0; offset < P; ++offset) {
            TBS_UNROLL
            for (u32 i = 0; i < H; ++i) bits.append(knowledge_of(hands[first[offset] + i]), KINDS + C + R);
        }
    }
    bits.store(encoding.words);
    // After the end any choice is allowed, because a policy may have to choose before the next game begins; none is
    // made.
    const u64 of_observer = observer == mover ? legal_moves(hands, table) : u64{1} << NO_OP;
    encoding.legal[0] = table.over ? ~u64{0} : of_observer;
}

// A template, so that only the used one is compiled.
template <class Output>
TBS_FUNCTION void write_view(const Encoding &encoding, Output &out, Warp &warp) {
    if constexpr (Constants::packed) {
        write_packed_bits<Constants::bits>(encoding.words, out, warp);
    } else {
        write_bits<Constants::bits>(encoding.words, out, warp);
    }
}

TBS_SYSTEM void show(World &world, const Encoding &encoding, View &view, Legal &legal, Warp &warp) {
    write_view(encoding, view.bits, warp);
    write_bits<Constants::choices>(encoding.legal, legal.moves, warp);
}
