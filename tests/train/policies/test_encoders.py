"""How parts of an observation are read: pictures, sets and small integers."""

import re

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch_batchsim.train import ActorCritic, PPOConfig, Trainer
from torch_batchsim.train.policies.encoders import Attention, Encoder, Trunk, readings
from training import assert_goes_on_to_the_bit

CPU = torch.device("cpu")
GRID = spaces.Box(0, 1, (5, 4, 3), np.float32)
SPACE = spaces.Dict(
    near=spaces.Box(-1, 1, (2,), np.float32),
    grid=GRID,
    others=spaces.Box(-1, 1, (6, 3), np.float32),
    there=spaces.Box(0, 1, (6,), np.uint8),
    card=spaces.Box(-1, 4, (2,), np.int32),
)
ALL = ("grid=conv", "others=attention:there", "card=embedding")


def trunk(*texts, space=SPACE):
    encoder = Encoder(space)
    generator = torch.Generator().manual_seed(1)
    return Trunk(encoder, readings(texts, encoder), generator)


def observation(*leading, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return {
        "near": torch.rand(*leading, 2, generator=generator),
        "grid": torch.rand(*leading, 5, 4, 3, generator=generator),
        "others": torch.rand(*leading, 6, 3, generator=generator),
        "there": torch.randint(0, 2, (*leading, 6), generator=generator, dtype=torch.uint8),
        "card": torch.randint(-1, 5, (*leading, 2), generator=generator, dtype=torch.int32),
    }


def test_all_kinds_side_by_side_take_any_leading_shape():
    made = trunk(*ALL)
    assert made.size == 2 + 5 * 4 * 64 + 2 * 16 + 64  # the mask is not an input of its own
    encoder, rows = Encoder(SPACE), observation(7)
    out = made(encoder(rows))
    assert out.shape == (7, made.size)
    longer = {name: leaf.expand(3, *leaf.shape) for name, leaf in rows.items()}
    torch.testing.assert_close(made(encoder(longer)), out.expand(3, 7, made.size))


def test_convolutions_see_channels_last():
    made = trunk("conv", space=GRID)
    picture = torch.rand(2, 5, 4, 3)
    expected = picture.permute(0, 3, 1, 2)
    for layer in (module for module in made.modules() if isinstance(module, torch.nn.Conv2d)):
        expected = layer(expected).relu()
    expected = expected.flatten(1)
    torch.testing.assert_close(made(Encoder(GRID)(picture)), expected)


def test_large_pictures_are_halved():
    space = spaces.Box(0, 255, (33, 20), np.uint8)
    made = trunk("=conv", space=space)
    assert made.size == 17 * 10 * 64  # the first convolution moves by 2
    assert made(Encoder(space)(torch.zeros(2, 33, 20, dtype=torch.uint8))).shape == (2, made.size)


def test_an_embedding_is_a_row_of_its_table():
    space = spaces.Box(-1, 4, (2,), np.int32)
    made = trunk("embedding", space=space)
    table = made.tables["part_"].table
    assert table.shape == (6, 16)
    out = made(torch.tensor([[-1.0, 4.0], [0.0, 99.0]]))
    assert torch.equal(out[0], torch.cat([table[0], table[5]]))
    assert torch.equal(out[1], torch.cat([table[1], table[5]]))  # beyond the bounds: the nearest


def test_attention_does_not_depend_on_the_order_of_entities_nor_on_those_that_are_not_there():
    made, rows = trunk("others=attention:there"), observation(9)
    encoder = Encoder(SPACE)
    out = made(encoder(rows))
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    shuffled = rows | {"others": rows["others"][:, order], "there": rows["there"][:, order]}
    both = made(encoder(shuffled))
    torch.testing.assert_close(both[:, -64:], out[:, -64:])
    absent = rows["there"] == 0
    spoilt = rows["others"].clone()
    spoilt[absent] = torch.nan
    assert torch.equal(made(encoder(rows | {"others": spoilt})), out)
    changed = rows["others"].clone()
    changed[~absent] += 1
    assert not torch.allclose(made(encoder(rows | {"others": changed}))[:, -64:], out[:, -64:])


def test_a_set_without_entities_is_zero_and_has_finite_gradients():
    made, rows = trunk("others=attention:there"), observation(4)
    rows["there"][1] = 0
    out = made(Encoder(SPACE)(rows))
    assert not out[1, -64:].any() and out[0, -64:].any()
    out.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in made.parameters() if parameter.grad is not None)


def test_several_sets_attend_to_each_other():
    space = spaces.Dict(a=spaces.Box(-1, 1, (2, 3), np.float32), b=spaces.Box(-1, 1, (4, 5), np.float32))
    made = trunk("a=attention", "b=attention", space=space)
    part = made.attention
    assert isinstance(part, Attention) and part.beside is None and made.size == 64
    first = {"a": torch.rand(3, 2, 3), "b": torch.rand(3, 4, 5)}
    assert not torch.allclose(made(Encoder(space)(first)), made(Encoder(space)(first | {"b": torch.rand(3, 4, 5)})))


def test_a_seed_means_the_same_networks_with_all_kinds():
    config = PPOConfig(encoders=ALL, hidden_sizes=(8,), memory="gru", memory_size=4)
    before = torch.get_rng_state()
    a, b = (ActorCritic(SPACE, spaces.Discrete(3), config, CPU).state_dict() for _ in range(2))
    assert all(torch.equal(a[name], b[name]) for name in a) and torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("memory", ["none", pytest.param("lstm", marks=pytest.mark.full)])
def test_all_kinds_train_and_resume_to_the_bit(toy_env, memory):
    space = spaces.Dict(
        picture=spaces.Box(0, 255, (4, 4, 3), np.uint8), set=spaces.Box(-1, 1, (3, 2), np.float32),
        number=spaces.Box(0, 254, (2,), np.uint8),
    )  # fmt: skip
    config = PPOConfig(
        num_envs=6, num_steps=8, num_minibatches=2, total_steps=480, hidden_sizes=(8,),
        memory=memory, memory_size=8, encoders=("picture=conv", "set=attention", "number=embedding"),
    )  # fmt: skip

    def trainer():
        return Trainer(toy_env(6, space, spaces.Discrete(3)), config)

    before, after = (made.groups[0].learner.parameters for made in (trainer(), assert_goes_on_to_the_bit(trainer)))
    assert (before != after).float().mean() > 0.5  # rows of tables that nothing chose stay


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gird=conv", "encoders has 'gird=conv', but the observation has no part 'gird'; its parts are 'near'"),
        ("conv", "the observation is a dict: write name=kind; its parts are 'near'"),
        ("grid=cnn", "but a part is read as one of flat, conv, attention, embedding"),
        ("near=conv", "but conv takes [height, width] or [height, width, channels], not [2]"),
        ("near=attention", "but attention takes [entities, features], not [2]"),
        ("grid=conv:there", "but only attention takes a mask"),
        ("others=attention:near", "must be a part of shape [6], one for each entity, not [2]"),
        ("others=attention:their", "must be a part of shape [6], one for each entity, not no such part"),
        ("near=embedding", "but embedding takes integers with declared bounds, not float32"),
    ],
)
def test_what_does_not_fit_is_refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        readings([text], Encoder(SPACE))


def test_other_refusals():
    with pytest.raises(ValueError, match="'grid' was given before: conv"):
        readings(["grid=conv", "grid=flat"], Encoder(SPACE))
    with pytest.raises(ValueError, match=r"no part 'x'; it is one Box: write only the kind"):
        readings(["x=conv"], Encoder(GRID))
    many = spaces.Box(0, 100_000, (1,), np.int32)
    with pytest.raises(ValueError, match=r"100,001 values from low to high, of 65,536 that are allowed"):
        readings(["embedding"], Encoder(many))
    bytes_ = spaces.Box(0, 255, (1,), np.uint8)
    with pytest.raises(ValueError, match="integers with declared bounds, not uint8"):
        readings(["embedding"], Encoder(bytes_))
