"""Worlds in a Python of their own, for scripts whose pins leave no place for torch_batchsim: CleanRL's, for example.

A copy of this file beside the script takes no more than NumPy and the script's own gym or gymnasium, from Python 3.7
on. In CleanRL's ``ppo.py`` it takes the place of ``gym.vector.SyncVectorEnv([make_env(...), ...])``::

    envs = other_pins.make_vec(gym, "/path/of/venv/bin/python", "torch_batchsim/CartPole-v0", args.num_envs)

The other Python has torch_batchsim; options of the environment follow as keywords. Actions and results go through
pipes, so that a step costs some 0.1 ms beside the worlds' own time: take hundreds of worlds.
"""

import json
import os
import struct
import subprocess
import sys

import numpy as np

_RESET, _STEP = b"r", b"s"
_HEAD = struct.Struct("<cq")  # what to do, and the seed of a reset: -1 for none


# ---- in the script -------------------------------------------------------------------------------------------------


def make_vec(gym, python, env_id, num_envs, **options):
    """A vector environment in the manner of ``SyncVectorEnv`` around ``RecordEpisodeStatistics``.

    Args:
        gym: the script's module, ``gym`` (to 0.25) or ``gymnasium`` (to 0.29): it decides what ``reset`` and ``step``
            return, and what infos of episodes look like.
        python: of the environment in which torch_batchsim is installed.
        env_id: an id, or ``"module:id"``; observations are a Box, actions Discrete or a Box.
        num_envs: rows.
        options: the environment's own, as JSON has them.
    """
    return _Client(gym, python, env_id, num_envs, options)


class _Client:
    def __init__(self, gym, python, env_id, num_envs, options):
        command = [str(python), os.path.abspath(__file__), env_id, str(num_envs), json.dumps(options)]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        told = json.loads(self._read(struct.unpack("<q", self._read(8))[0]).decode())
        self._old = gym.__name__ == "gym"
        self.num_envs = num_envs
        self._dtype, self._shape = np.dtype(told["dtype"]), (num_envs, *told["shape"])
        low, high = (np.array(told[name], self._dtype).reshape(told["shape"]) for name in ("low", "high"))
        self.single_observation_space = gym.spaces.Box(low, high, dtype=self._dtype.type)
        if "choices" in told:
            self.single_action_space = gym.spaces.Discrete(told["choices"])
        else:
            least, most = (np.array(told[name], np.float32) for name in ("least", "most"))
            self.single_action_space = gym.spaces.Box(least, most, dtype=np.float32)
        batch_space = gym.vector.utils.batch_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._returns, self._lengths = np.zeros(num_envs, np.float32), np.zeros(num_envs, np.int32)

    def reset(self, seed=None, options=None):
        """Begin new episodes: observations ``[rows, ...]``, and an empty dict with gymnasium."""
        self._write(_HEAD.pack(_RESET, -1 if seed is None else seed))
        self._returns[:], self._lengths[:] = 0, 0
        observations = self._array(self._shape, self._dtype)
        return observations if self._old else (observations, {})

    def step(self, actions):
        """Step all rows; those that end begin anew at once."""
        space = self.single_action_space
        wanted = np.ascontiguousarray(actions, np.float32 if space.shape else np.int64)
        if wanted.shape != (self.num_envs, *space.shape):
            raise ValueError(f"actions must have shape {[self.num_envs, *space.shape]}, got {list(wanted.shape)}")
        self._write(_HEAD.pack(_STEP, -1) + wanted.tobytes())
        observations = self._array(self._shape, self._dtype)
        rewards = self._array((self.num_envs,), np.float32)
        terminated, truncated = self._array((self.num_envs,), bool), self._array((self.num_envs,), bool)
        ended = terminated | truncated
        final = self._array(self._shape, self._dtype) if ended.any() else None
        self._returns += rewards
        self._lengths += 1
        infos = self._infos(ended, truncated & ~terminated, final)
        self._returns[ended], self._lengths[ended] = 0, 0
        flags = (ended,) if self._old else (terminated, truncated)
        return (observations, rewards, *flags, infos)

    def close(self):
        """End the other process."""
        self._server.stdin.close()
        self._server.wait()

    def _infos(self, ended, timeouts, final):
        """As ``SyncVectorEnv`` gives them: a list of dicts (gym), or final values as arrays of objects (gymnasium)."""
        rows = [{} for _ in ended]
        for row in ended.nonzero()[0]:
            rows[row]["episode"] = {"r": self._returns[row].copy(), "l": self._lengths[row].copy()}
            if self._old:
                rows[row].update({"terminal_observation": final[row], "TimeLimit.truncated": bool(timeouts[row])})
        if self._old or final is None:
            return rows if self._old else {}
        infos = {name: np.full(len(ended), None, object) for name in ("final_observation", "final_info")}
        for row in ended.nonzero()[0]:
            infos["final_observation"][row], infos["final_info"][row] = final[row], rows[row]
        return {**infos, "_final_observation": ended.copy(), "_final_info": ended.copy()}

    def _array(self, shape, dtype):
        count = int(np.prod(shape))
        return np.frombuffer(self._read(count * np.dtype(dtype).itemsize), dtype, count).reshape(shape).copy()

    def _read(self, size):
        data = self._server.stdout.read(size)
        if len(data) != size:
            raise RuntimeError("the process with the worlds has ended; it has printed why")
        return data

    def _write(self, data):
        try:
            self._server.stdin.write(data)
            self._server.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError("the process with the worlds has ended; it has printed why") from None


# ---- in the other Python -------------------------------------------------------------------------------------------


def serve(env_id, num_envs, options):
    """Make the environment and do what comes through standard input, to its end."""
    out, commands = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)  # whatever else prints
    import torch_batchsim

    env = torch_batchsim.make_vec(env_id, num_envs, output="numpy", **options)
    seen, acts = env.single_observation_space, env.single_action_space
    bounds = {"low": seen.low.ravel().tolist(), "high": seen.high.ravel().tolist()}
    if acts.shape:
        kind = {"least": acts.low.tolist(), "most": acts.high.tolist()}
    elif acts.start == 0:
        kind = {"choices": int(acts.n)}
    else:
        raise ValueError(f"choices must count from 0, got {acts}")
    told = json.dumps({"dtype": seen.dtype.str, "shape": seen.shape, **bounds, **kind}).encode()
    out.write(struct.pack("<q", len(told)) + told)
    shape, dtype = (num_envs, *acts.shape), np.dtype(np.float32 if acts.shape else np.int64)
    while True:
        out.flush()
        head = commands.read(_HEAD.size)
        if len(head) < _HEAD.size:  # the script has ended
            return
        what, seed = _HEAD.unpack(head)
        if what == _RESET:
            out.write(env.reset(seed=None if seed < 0 else seed)[0].tobytes())
            continue
        actions = np.frombuffer(commands.read(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
        *results, infos = env.step(actions)
        for array in results:
            out.write(array.tobytes())
        if infos["_final_obs"].any():
            out.write(infos["final_obs"].tobytes())


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
