// Rules without a console: a test writes the RAM of each frame.
#include "rules.h"

TBS_SYSTEM void judge(World &world, const Ram &ram, const CartridgeRam &cartridge, const Choice &choice,
                   const Frame &frame, Game &game) {
    if (frame.begins) {  // ale-py judges all frames of a start, of which the last is known
        begin_rules(game, Title(choice.title));
        judge_frame(Memory{ram.bytes, cartridge.bytes}, game);
    }
    judge_frame(Memory{ram.bytes, cartridge.bytes}, game);
}
