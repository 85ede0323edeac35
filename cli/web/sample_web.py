"""Made-up clusters and jobs, as `strata web` has them in JSON: whatever the page has to show.

SCENES: name -> a function that makes {"cluster": as /api/cluster, "jobs": id -> as /api/jobs/ID}.
"""

import math
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.abspath("compare/report"))
import sample_daemons  # noqa: E402
from page_case import HOSTILE  # noqa: E402

NOW_MS = 1795788700000
TOTAL_STEPS = 1170
LONG = "a-name-of-a-job-that-somebody-has-made-by-joining-all-its-settings-lr0.03-batch64-seed1"


def wait(seconds, doing, node=1, rank=3, daemon="w2", clock=57):
    who = f"node {node} ({daemon})" + (f" rank {rank}" if rank is not None else " aggregator")
    text = f"{who} at step {clock} for {int(seconds)} s: {doing}"
    return {"node": node, "rank": rank, "daemon": daemon, "clock": clock, "seconds": seconds,
            "doing": doing, "text": text}  # fmt: skip


def course(points, staleness_bins=3, pace=1.0):
    """A job's windows of ten steps."""
    draw = random.Random(7)
    steps = [10 * (i + 1) for i in range(points)]
    speed = [pace * (3900 + 350 * draw.random() - (1500 if 40 <= i < 46 else 0))
             for i in range(points)]
    waiting = [0.12 + 0.06 * draw.random() + (0.45 if 40 <= i < 46 else 0) for i in range(points)]
    pushes = [[90 - i // 2 - i % 3, 8 + i // 3 + i % 3, 2 + i // 6] for i in range(points)]
    accuracies = [0.9 - 0.6 * math.exp(-step / 250 / pace) for step in steps]
    return {
        "step": steps,
        "elapsed_s": [(0.65 * step / 10 + 0.2 * draw.random()) / pace for step in steps],
        "loss": [0.32 + 2.3 * math.exp(-step / 300 / pace) + 0.06 * draw.random()
                 for step in steps],
        "samples_per_s": speed,
        "waiting_share": waiting,
        "hidden_share": [0.7 + 0.2 * draw.random() for _ in steps],
        "test_accuracy": [one if i % 9 == 8 else None for i, one in enumerate(accuracies)],
        "lr": [0.03 * min(1, step / 120) * (0.5 + 0.5 * math.cos(step / 380)) for step in steps],
        "bytes_pushed": [9800000 + int(200000 * draw.random()) for _ in steps],
        "bytes_answered": [9300000 + int(200000 * draw.random()) for _ in steps],
        "staleness": [counts[:staleness_bins] for counts in pushes],
    }  # fmt: skip


def rank_windows(ranks, windows, slow=None, last_step=720):
    """Returns the ranks' windows. From the middle on, the others wait for `slow`."""
    draw = random.Random(11)
    made = []
    first = last_step - 10 * (windows - 1)
    for rank in range(ranks):
        shares = []
        for i in range(windows):
            held_up = slow is not None and i > windows / 2
            share = (0.03 if rank == slow else 0.55) if held_up else 0.12
            shares.append(share + 0.1 * draw.random())
        made.append({
            "rank": rank,
            "end_step": [first + 10 * i for i in range(windows)],
            "waiting_share": shares,
            "samples_per_s": [1000 * (1 - share) for share in shares],
        })  # fmt: skip
    return made


def progress(step, curve):
    known = [value for value in curve["test_accuracy"] if value is not None]
    return {
        "step": step,
        "total_steps": TOTAL_STEPS,
        "epoch": 5 * step / TOTAL_STEPS,
        "epochs": 5,
        "samples": 256 * step,
        "samples_per_s": curve["samples_per_s"][-1] if step else 0,
        "loss": curve["loss"][-1] if step else 0,
        "test_accuracy": known[-1] if known and step else None,
        "values": {},
        "bytes_per_step": 1.9e6 if step else 0,
        "eta_s": (TOTAL_STEPS - step) * 0.065 if step else None,
    }


def shards():
    made = []
    for i, daemon in enumerate(("s0", "s0", "s1", "s1")):
        made.append({
            "daemon": daemon, "shard": i % 2, "chunks": 2,
            "backup": "s1" if daemon == "s0" else None, "backup_is_partial": i == 1,
            "pushes": 2874 + i, "answers": 2870 + i, "duplicates": 0,
            "refused": 2 if i == 2 else 0, "bytes_received": 189000000 + i, "bytes_sent": 187000000,
            "memory_bytes": [393216, 950000, 1190000, 231504][i], "memory_limit_bytes": 1245184,
            "memory_parts": [],
        })  # fmt: skip
    return made


def nodes(ranks_each=2):
    return [
        {"node": i, "daemon": f"w{i + 1}", "first_rank": ranks_each * i, "ranks": ranks_each,
         "step": 722 - i, "joins": False, "leaves_at": 900 if i == 1 else None,
         "memory_bytes": 1008704, "memory_limit_bytes": 1749152, "memory_parts": [],
         "gpu_memory_bytes": 0, "gpu_memory_limit_bytes": 0, "gpu_memory_parts": []}
        for i in range(2)
    ]  # fmt: skip


def status(job_id, name, state="running", step=0, curve=None, **changes):
    """As `strata status JOB --json`."""
    began = NOW_MS - int(step * 65) - 4000
    made = {
        "job_id": job_id, "name": name, "state": state, "reason": "", "mode": "lazy(2)",
        "model": "lenet5", "optimizer": "momentum_sgd { momentum: 0.9 weight_decay: 0.0005 }",
        "exchange": "PARAMETER_SERVER", "protection": "PLAIN", "device": "CPU",
        "node_sum": "AGGREGATOR", "push": "fp32", "pull": "fp32", "ranks": 4,
        "nodes": nodes() if step else [], "shards": shards() if step else [],
        "node_memory": {"memory_bytes": 2017408, "memory_limit_bytes": 3498304},
        "shard_memory": {"memory_bytes": 624720, "memory_limit_bytes": 2352488},
        "placement": "ON_SERVERS (AUTO): its servers hold all" if step else "",
        "connections": 1, "hidden_share": 0.8,
        "progress": progress(step, curve or course(20)), "waits": [], "owner": "mira",
        "namespace": "vision", "submitted_ms": began - 3000, "started_ms": began,
        "ended_ms": 0 if state in ("running", "queued") else NOW_MS - 60000,
        "run_dir": f"/home/mira/strata-runs/2026-11-27/{name}-{job_id}", "elements": 61706,
        "chunks": 4, "chunk_elements": 16384,
    }  # fmt: skip
    if state == "queued":
        made.update(started_ms=0)
    return {**made, **changes}


def job(of_status, curve=None, windows=(), **changes):
    """As /api/jobs/ID."""
    empty = {name: [] for name in course(1)}
    return {
        "now_ms": NOW_MS,
        "taken_ms": NOW_MS - 400,
        "problem": "",
        "status": of_status,
        "restarts": [],
        "replacements": [],
        "nodes_changes": [],
        "watched_from_step": 0,
        "course": curve or empty,
        "rank_windows": list(windows),
        **changes,
    }


IN_CLUSTER = ("job_id", "name", "state", "reason", "mode", "model", "exchange", "ranks", "owner",
              "namespace", "submitted_ms", "started_ms", "ended_ms", "progress",
              "waits")  # fmt: skip


def scene(daemons, jobs, **changes):
    """All that a server answers, of these daemons and jobs."""
    short = [
        {**{name: one["status"][name] for name in IN_CLUSTER}, "spark": one["course"]["loss"][-40:]}
        for one in jobs
    ]
    cluster = {
        "version": "1.0.0",
        "now_ms": NOW_MS,
        "taken_ms": NOW_MS - 400,
        "coordinator": "10.0.0.1:7700",
        "problem": "",
        "security": "TLS with keys of the cluster",
        "cluster_id": "9d68133f06747279",
        "daemons": daemons,
        "coordinator_resources": sample_daemons.resources(3),
        "resources": sample_daemons.totals(daemons),
        "has_logs": True,
        "jobs": sorted(short, key=lambda one: -one["job_id"]),
        **changes,
    }
    return {"cluster": cluster, "jobs": {one["status"]["job_id"]: one for one in jobs}}


def _checkpoints():
    return {
        "dir": "/data/checkpoints/lenet", "complete": 7, "failed": 1,
        "problem": "step 600: /data: No space left on device",
        "newest": {"step": 700, "written_ms": NOW_MS - 9000, "bytes": 493648},
        "writing": {"step": 722, "objects_written": 3, "objects": 6},
        "resumed": {"dir": "/data/checkpoints/old", "step": 100}, "passed_over": [],
    }  # fmt: skip


def busy_jobs(waits):
    """A typical cluster: jobs in each state, one of them blocked."""
    curve, quick = course(72), course(50, staleness_bins=1, pace=0.7)
    lenet = status(3, "lenet", step=722, curve=curve, waits=waits, checkpoints=_checkpoints())
    cnn = status(5, "cnn-sync", step=500, curve=quick, mode="sync", model="cnn", ranks=4)
    cnn["progress"]["values"] = {"perplexity": 12.4}
    done = course(117)
    return [
        job(lenet, curve, rank_windows(4, 60, slow=3 if waits else None),
            restarts=[{"failed_ms": NOW_MS - 40000, "reason": "server s2 has died", "step": 100}],
            replacements=[{"lost_ms": NOW_MS - 30000, "node": 1, "from": "w9", "to": "w2",
                           "reason": "silent for 5 s", "step": 300}],
            nodes_changes=[{"decided_ms": NOW_MS - 20000, "step": 900, "joined": [2],
                            "left": [1], "ranks": 6, "reason": "w2 is drained"}]),
        job(cnn, quick, rank_windows(4, 50, last_step=500)),
        job(status(6, "resnet20", "queued", reason="waits for 8 slots, 2 are free", ranks=8)),
        job(status(4, "lenet-async", "failed", step=310, curve=course(31), mode="async",
                   reason="node 0 (w1) rank 1: loss is not finite at step 310"),
            course(31), rank_windows(4, 31, last_step=310)),
        job(status(2, "mlp", "finished", step=TOTAL_STEPS, curve=done, mode="sync", model="mlp"),
            done, rank_windows(4, 60, last_step=1170), watched_from_step=200),
        job(status(1, "mlp-probe", "cancelled", reason="cancelled by mira", ranks=2, step=12,
                   exchange="RING"), course(10, staleness_bins=0),
            rank_windows(2, 2, last_step=20)),
    ]  # fmt: skip


def log(choice, lines, **changes):
    """An event: what is read of a log, from its beginning."""
    return {"choice": choice, "anew": True, "passed_over": 0, "lines": lines, "problem": "",
            "ended": False, **changes}  # fmt: skip


def busy_logs():
    lines = [[f"{i % 4}", f"step {10 * i:5d}  loss {2.3 / (1 + i / 9):.4f}"] for i in range(40)]
    warning = ["2", "UserWarning: the loader has 2 workers, " + "and this host 64 cores; " * 6]
    gone = ["", "rank 3 at w2: its log is gone", True]
    logs = [
        log("3", [*lines, warning, gone]),
        *(log(f"3:rank:{rank}", [line for line in lines if line[0] == f"{rank}"])
          for rank in range(4)),
        log("3:aggregators", []),
        log("4", [["1", "RuntimeError: loss is not finite"]], ended=True),
        log("2", [], problem="job 2 is mira's: its owner may see its logs, and who operates the "
                             "cluster"),
    ]  # fmt: skip
    return {one["choice"]: one for one in logs}


def busy():
    waits = [wait(12.4, "stopped by a signal"), wait(4.2, "computing", 0, 1, "w1", 58)]
    made = scene(sample_daemons.some_daemons(), busy_jobs(waits))
    made["logs"] = busy_logs()
    return made


def calm():
    daemons = sample_daemons.some_daemons()[:1] + sample_daemons.some_daemons()[2:3]
    daemons[0].update(refusals={}, resources=sample_daemons.resources(1))
    return scene(daemons, busy_jobs([]))


def empty():
    return scene([], [])


def stale():
    made = busy()
    problem = "coordinator at 10.0.0.1:7700 cannot be reached: Connection refused"
    made["cluster"].update(problem=problem, taken_ms=NOW_MS - 42000)
    for one in made["jobs"].values():
        one.update(problem=problem, taken_ms=NOW_MS - 42000)
    return made


def never():
    """The coordinator has not answered yet."""
    made = empty()
    made["cluster"].update(
        taken_ms=None, version="1.0.0", security="", cluster_id="",
        problem="coordinator at 10.0.0.1:7700 cannot be reached: Connection refused")  # fmt: skip
    return made


def not_finite():
    """A busy cluster with values that JSON writes as null."""
    made = busy()
    diverged = made["jobs"][4]
    diverged["status"]["progress"].update(
        loss=None, samples_per_s=None, bytes_per_step=None, values={"norm": None}
    )
    diverged["course"]["loss"][-5:] = [None] * 5
    diverged["rank_windows"][0]["waiting_share"][-1] = None
    diverged["rank_windows"][0]["samples_per_s"][-1] = None
    return made


def quiet_and_stale():
    made = stale()
    for one in made["cluster"]["jobs"]:
        one["waits"] = []
    return made


def large():
    """1,000 daemons and 100 jobs; one of these has 256 ranks."""
    curve = course(72)
    jobs = [job(status(i, f"job-{i}", "running" if i > 60 else "finished", step=722, curve=curve,
                       waits=[wait(3 + i % 30, "computing", rank=i)] if i > 88 else []), curve)
            for i in range(1, 101)]  # fmt: skip
    jobs[99]["status"].update(ranks=256, nodes=nodes(128))
    jobs[99]["rank_windows"] = rank_windows(256, 60, slow=130)
    return scene(sample_daemons.many_daemons(1000), jobs)


def hostile():
    """Names that are HTML, and names without a place to break them."""
    bad = wait(31, HOSTILE, daemon=HOSTILE)
    names = status(3, HOSTILE, step=722, curve=course(72), waits=[bad], mode=HOSTILE, model=HOSTILE,
                   owner=HOSTILE, namespace=HOSTILE, optimizer=HOSTILE, run_dir=HOSTILE,
                   placement=HOSTILE, reason=HOSTILE,
                   checkpoints={**_checkpoints(), "dir": HOSTILE})
    names["progress"]["values"] = {HOSTILE: 1.0}
    names["nodes"][0]["daemon"] = names["shards"][0]["daemon"] = HOSTILE
    long = status(4, LONG, step=310, curve=course(31), mode="significance", model=f"/opt/{LONG}.py",
                  waits=[wait(7, f"connecting to tcp://{LONG}:40000", daemon=LONG[:60])])
    peers = [{"address": HOSTILE, "name": HOSTILE, "error": HOSTILE}]
    daemons = [
        sample_daemons.server(HOSTILE, HOSTILE, jobs=[3], refusals={HOSTILE: 12},
                              expected_refusals={HOSTILE: 3}),
        sample_daemons.worker(LONG, f"{LONG}.example.org", used=4, jobs=[3, 4], peers=peers),
    ]
    events = {"restarts": [{"failed_ms": NOW_MS, "reason": HOSTILE, "step": 0}]}
    made = scene(daemons, [job(names, course(72), rank_windows(4, 60), **events),
                           job(long, course(31), rank_windows(2, 31))],
                 coordinator=HOSTILE, version=HOSTILE, security=HOSTILE, cluster_id=HOSTILE,
                 )  # fmt: skip
    lines = [["1", HOSTILE], [HOSTILE, LONG * 8], ["", HOSTILE, True]] * 30
    made["logs"] = {"3": log("3", lines, problem=HOSTILE)}
    return made


SCENES = {
    "busy": busy,
    "calm": calm,
    "empty": empty,
    "stale": stale,
    "never": never,
    "not_finite": not_finite,
    "quiet_and_stale": quiet_and_stale,
    "large": large,
    "hostile": hostile,
}
