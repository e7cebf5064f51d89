"""A fault of each kind, ftrt and its peers by turns.

ftrt counts from the moment at which it sends the signal to the next committed iteration, by the clock
that both its processes share; a peer's script does the same from outside."""

import statistics

from harness.ftrt_faults import fault, percentile
from harness.tables import figure

TIMES = ["detect_ms", "park_ms", "spawn_ms", "join_ms", "first_step_ms"]
SPARE_TIME = 150  # iterations from one fault to the next, about a second: a new spare has warmed up
TIME = 60
STOP_PATIENCE_S = 120
SPARES = "supervision.spares"
MEMORY = "checkpoint.snapshot_every_iterations"


def _kinds(bench):
    """For each kind of fault: (its chaos entry in round `turn`, settings, iterations between two)."""
    ftrt, size = bench.ftrt, bench.size
    spares = ftrt.knows(SPARES, 1)
    none = {SPARES: 0} if spares else {}
    every = {"metrics.every_iterations": 1, "checkpoint.every_iterations": 0}
    memory = {MEMORY: 10} if ftrt.knows(MEMORY, 10) else {"checkpoint.every_iterations": 30}
    alone = lambda kind, gap: lambda turn: fault(kind, gap, size.faults, rank=turn % 2)
    kinds = {
        "SIGKILL, no spare": (alone("kill", TIME), {**every, **none}, TIME),
        "SIGKILL of all": (lambda turn: fault("kill", SPARE_TIME, size.faults, ranks="all"),
                           {**every, **memory}, SPARE_TIME),
        "SIGSTOP": (alone("stop", SPARE_TIME), every, SPARE_TIME),
    }
    if spares:
        kinds = {"SIGKILL, spare": (alone("kill", SPARE_TIME), {**every, SPARES: 1}, SPARE_TIME), **kinds}
    return kinds


def measure(bench):
    size, kinds = bench.size, _kinds(bench)

    def own(kind):
        chaos, settings, gap = kinds[kind]
        return lambda turn: bench.ftrt.run(gap * (size.faults + 1), settings, chaos=[chaos(turn)])

    def of_peer(peer):
        return lambda turn: bench.peers.measure(peer, "kill", size.peer_faults, size.peer_patience_s)

    measures = {kind: own(kind) for kind in kinds} | {peer.name: of_peer(peer) for peer in bench.peer_list}
    found = bench.by_turns(size.rounds, measures)
    _show_own(bench, {kind: found[kind] for kind in kinds})
    best = next(iter(kinds))  # with a spare, where the build has them
    stops = _stop_peers(bench)
    if bench.peers:
        _show_peers(bench, found, best, stops)
    return {"rounds": found, "peers_stopped": stops, "trouble": bench.peers.trouble if bench.peers else {}}


def _over_own(runs):
    """Milliseconds over an iteration's own time, of every fault."""
    return [r.resumed_ms - run.step_ms for run in runs for r in run.recoveries]


def _show_own(bench, found):
    rows, stretches = [], []
    for kind, runs in found.items():
        all_of = [r for run in runs for r in run.recoveries]
        if not all_of:
            continue
        resumed, over = [r.resumed_ms for r in all_of], _over_own(runs)
        sources = sorted({r.source.split(":")[0] for r in all_of})
        spares = sum(r.replacement == "spare" for r in all_of)
        rows.append([kind, str(len(all_of)), percentile([r.detected_ms for r in all_of], 0.5),
                     percentile(resumed, 0.5), percentile(resumed, 0.99), max(resumed),
                     statistics.median(run.step_ms for run in runs), percentile(over, 0.5),
                     percentile(over, 0.99), ", ".join(sources),
                     str(spares) if any(r.replacement for r in all_of) else "unknown",
                     str(max(r.lost_iterations for r in all_of))])
        if all(r.times for r in all_of):
            stretches.append([kind] + [percentile([r.times.get(t, 0.0) for r in all_of], 0.5) for t in TIMES])
    bench.report.table(
        "ftrt: from a fault to the next committed iteration, ms",
        ["fault", "faults", "found out", "median", "p99", "slowest", "an iteration", "median over it",
         "p99 over it", "state from", "by a spare", "iterations redone"], rows,
        "Two ranks, 1.3M parameters. The next iteration is one of all ranks: full membership. "
        "With fewer than 100 faults p99 is the slowest.")
    if stretches:
        bench.report.table("What the milliseconds went into, medians",
                           ["fault", "found out", "survivors parked", "replaced", "joined", "first iteration"],
                           stretches)
    _judge_own(bench, found)


def _judge_own(bench, found):
    say = bench.report
    what = "SIGKILL of one of two ranks, with a spare: 25 ms over an iteration's own time, p99 60 ms"
    if "SIGKILL, spare" in found:
        say.at_most(what, 25, "ms", _over_own(found["SIGKILL, spare"]), p99=60)
    else:
        say.aim(what, f"this build does not know {SPARES}", "not measured")
    say.at_most("the same without a spare: 100 ms", 100, "ms", _over_own(found["SIGKILL, no spare"]))
    runs = found["SIGKILL of all"]
    sources = {r.source.split(":")[0] for run in runs for r in run.recoveries}
    if sources == {"snapshot"}:
        say.at_most("all ranks killed, from shared memory: 250 ms", 250, "ms", _over_own(runs))
    else:
        say.aim("all ranks killed, from shared memory: 250 ms",
                f"median {figure(percentile(_over_own(runs) or [0], 0.5))} ms, from {', '.join(sorted(sources))}",
                "missed: not only from shared memory")
    say.at_most("SIGSTOP, default settings: 1 s", 1, "s",
                [r.resumed_ms for run in found["SIGSTOP"] for r in run.recoveries], scale=1e-3)


def _stop_peers(bench):
    found = {peer.name: [] for peer in bench.peer_list}
    for peer in bench.peer_list:
        for _ in range(bench.size.peer_stops):
            found[peer.name] += bench.peers.measure(peer, "stop", 1, STOP_PATIENCE_S)
    return found


def _show_peers(bench, found, best, stops):
    own = {turn: statistics.median(r.resumed_ms for r in run.recoveries) / 1e3
           for turn, run in enumerate(found[best]) if run.recoveries}
    rows = []
    notes = [f"What did not come within {bench.size.peer_patience_s:.0f} s (after SIGSTOP {STOP_PATIENCE_S} s) is "
             "said so, and is slower than all others in a median."]
    for peer in bench.peer_list:
        every = [f for of_round in found[peer.name] for f in of_round]
        if peer.name in bench.peers.trouble:
            notes.append(f"{peer.name} {bench.peers.trouble[peer.name]}.")
        if not every:
            _judge_peer(bench, peer, None, None)
            continue
        alone = _ratio(found[peer.name], own, "next_s")
        whole = _ratio(found[peer.name], own, "whole_s")
        rows.append([peer.name, str(len(every)), *_spread(every, "next_s"), *_spread(every, "whole_s"),
                     alone or "none", whole or "none", _words(stops.get(peer.name, []))])
        _judge_peer(bench, peer, alone, whole)
    bench.report.table(
        f"Peers, SIGKILL of one of two ranks, s; ratios to ftrt's \"{best}\" of the same round",
        ["peer", "faults", "next step", "from - to", "both ranks again", "from - to", "next step / ftrt",
         "both again / ftrt", "SIGSTOP: next step, both again"], rows, " ".join(notes))


def _judge_peer(bench, peer, alone, whole):
    why = "not measured: " + bench.peers.trouble.get(peer.name, "no fault came to an end")
    say = bench.report
    if "tuned" not in peer.name:
        what = f"full membership 100 times faster than {peer.name}"
        say.aim(what, f"{figure(whole)} times" if whole else "no figure", whole >= 100 if whole else why)
    if peer.name == "torchft, tuned":
        what = "15 times faster than torchft's tuned survivor goes on alone"
        say.aim(what, f"{figure(alone)} times" if alone else "no figure", alone >= 15 if alone else why)


def _ratio(rounds, own, key):
    """Median of the rounds' own ratios. A fault that never came to an end is slower than any other."""
    ratios = [percentile([f[key] or float("inf") for f in of_round], 0.5) / own[turn]
              for turn, of_round in enumerate(rounds) if of_round and turn in own]
    middle = percentile(ratios, 0.5) if ratios else None
    return None if middle == float("inf") else middle


def _spread(every, key):
    """(median, lowest to highest) as text, with how many never came."""
    values = [f[key] for f in every if f[key] is not None]
    never = len(every) - len(values)
    middle = percentile([f[key] or float("inf") for f in every], 0.5)
    text = f"{figure(min(values))} - {figure(max(values))}" if values else ""
    return ["did not come" if middle == float("inf") else middle, text + (f", {never} did not come" if never else "")]


def _words(stopped):
    say = lambda value: "did not come" if value is None else figure(value)
    return "; ".join(f"{say(f['next_s'])}, {say(f['whole_s'])}" for f in stopped) or "not measured"
