"""Made-up daemons, as `strata nodes --json` has them."""

GIB = 1 << 30


def resources(seed, memory_share=0.05):
    """Returns a daemon's resources: some full, some nearly empty."""
    return [
        {"name": "file descriptors", "used": 20 + seed % 17, "limit": 20000},
        {"name": "connections", "used": 2 + seed % 40, "limit": 1024},
        {"name": "largest frame bytes", "used": 65536, "limit": 16777216},
        {"name": "queued bytes", "used": (seed * 7919) % 900000, "limit": 536870912},
        {"name": "memory bytes", "used": int(memory_share * 0.7 * 12 * GIB), "limit": 12 * GIB},
        {"name": "promised memory bytes", "used": int(memory_share * 12 * GIB), "limit": 12 * GIB},
        {"name": "resident bytes", "used": 30000000 + seed * 1000, "limit": 0},
    ]


def _daemon(name, role, host, **changes):
    seed = sum(map(ord, name))
    daemon = {
        "name": name,
        "role": role,
        "address": host,
        "alive": True,
        "draining": False,
        "drained": False,
        "slots": 0,
        "slots_used": 0,
        "shard_ports": [],
        "jobs": [],
        "last_heartbeat_ms_ago": seed % 900,
        "resources": resources(seed),
        "refusals": {},
        "expected_refusals": {},
    }
    return {**daemon, **changes}


def server(name, host="10.0.0.1", shards=2, **changes):
    ports = [40000 + shard for shard in range(shards)]
    return _daemon(name, "server", host, **{"shard_ports": ports, **changes})


def worker(name, host="10.0.0.2", slots=4, used=0, **changes):
    own = {
        "stands_in": False,
        "slots": slots,
        "slots_used": used,
        "gpus": [],
        "gpu_slots": 0,
        "gpu_slots_used": 0,
        "peers": [],
    }
    return _daemon(name, "worker", host, **{**own, **changes})


def totals(daemons):
    """Sums over those alive, as cli/render/render_daemons.cc makes them."""
    found = {}
    for daemon in daemons:
        for one in daemon["resources"] if daemon["alive"] else []:
            name, used, limit = one["name"], one["used"], one["limit"]
            total = found.setdefault(
                name,
                {"name": name, "used": 0, "limit": 0, "fullest": "", "fullest_used": 0,
                 "fullest_limit": 0},
            )  # fmt: skip
            add = max if name.startswith("largest ") else int.__add__
            total["used"], total["limit"] = add(total["used"], used), add(total["limit"], limit)
            if limit and used * (total["fullest_limit"] or 1) >= total["fullest_used"] * limit:
                total.update(fullest=daemon["name"], fullest_used=used, fullest_limit=limit)
    return list(found.values())


def some_daemons():
    """Six, of which one is dead, one leaves and one has refused things."""
    peers = [
        {"address": "tcp://10.0.0.1:40000", "name": "s0", "error": ""},
        {"address": "tcp://10.0.0.5:40000", "name": "s1", "error": "connection refused"},
    ]
    gpu = {"index": 0, "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 80 * GIB}
    return [
        server("s0", "10.0.0.1", jobs=[3, 5], resources=resources(4, 0.81),
               refusals={"memory": 3, "frame too large": 1}),
        server("s1", "10.0.0.5", jobs=[3, 5], resources=resources(9, 0.95)),
        worker("w1", "10.0.0.2", used=4, jobs=[3], peers=peers[:1]),
        worker("w2", "10.0.0.3", used=4, jobs=[3, 5], peers=peers, gpus=[gpu], gpu_slots=1,
               gpu_slots_used=1),
        worker("w3", "10.0.0.4", used=2, jobs=[5], draining=True),
        worker("w4", "10.0.0.6", alive=False, last_heartbeat_ms_ago=341000),
    ]  # fmt: skip


def many_daemons(count):
    """So many, most of them well."""
    daemons = []
    for i in range(count):
        host = f"10.{i // 65536}.{i // 256 % 256}.{i % 256}"
        if i % 10 == 0:
            daemons.append(server(f"s{i // 10}", host, jobs=[i % 100 + 1]))
        else:
            changes = {"alive": False} if i == 777 else {"draining": True} if i == 555 else {}
            daemons.append(worker(f"w{i}", host, used=i % 5, jobs=[i % 100 + 1], **changes))
    return daemons
