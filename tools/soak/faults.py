"""Draws the [[chaos]] of a soak: each kind as its share of all faults, at times of its own."""

import json

# How many of a hundred faults are of that kind.
KINDS = {
    "kill": 34,            # one rank
    "kill_all": 6,
    "stop": 8,
    "kill_actor": 28,
    "flip_bit": 6,
    "nan": 4,
    "slow": 8,
    "kill_zygote": 4,
    "clock_jump": 2,
    "kill_supervisor": 0,  # once, half-way: who resumes begins with fresh memory and descriptors
}
ACTORS = ["checkpoint", "metrics", "run_supervisor", "host_supervisor"]


def _entry(**values):
    return "[[chaos]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def _targets(kind, ranks):
    """What an entry of that kind says besides its time, one for each thing that it may strike."""
    each_rank = range(ranks)
    if kind == "kill":
        return [{"kind": "kill", "rank": rank} for rank in each_rank]
    if kind == "kill_all":
        return [{"kind": "kill", "ranks": "all"}]
    if kind == "kill_actor":
        actors = ACTORS + [f"trainer:{rank}" for rank in each_rank]
        return [{"kind": "kill_actor", "actor": actor} for actor in actors]
    if kind == "flip_bit":
        return [{"kind": "flip_bit", "rank": rank, "target": target}
                for rank in each_rank for target in ("parameter", "gradient")]
    if kind == "nan":
        return [{"kind": "nan", "rank": rank, "target": "parameter"} for rank in each_rank]
    if kind == "slow":
        return [{"kind": "slow", "rank": rank, "delay": "20ms", "iterations": 10} for rank in each_rank]
    if kind == "clock_jump":
        return [{"kind": "clock_jump", "by": by} for by in ("8h", "-8h")]
    return [{"kind": kind, "rank": rank} for rank in each_rank] if kind == "stop" else [{"kind": kind}]


def draw(random, kinds, ranks, iterations, mtbf_s):
    """TOML. The mean time between two faults of all kinds together is `mtbf_s`."""
    total = sum(KINDS[kind] for kind in kinds) or 1
    text = ""
    for kind in kinds:
        if kind == "kill_supervisor":
            text += _entry(kind=kind, at_iteration=iterations // 2)
            continue
        targets = _targets(kind, ranks)
        mean_ms = round(1000 * mtbf_s * total / KINDS[kind] * len(targets))
        for target in targets:
            text += _entry(**target, mtbf=f"{mean_ms}ms", seed=random.randrange(2**31))
    return text
