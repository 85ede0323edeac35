"use strict";

// The page of the cluster.

function tile(title, figure, detail, className) {
  return box("div", `tile ${className || ""}`.trim(), element("span", "title", title),
    element("span", "value", figure), ...[detail].flat());
}

const ofText = (some, all) => `${some.toLocaleString("en")} of ${all.toLocaleString("en")}`;

function daemonsTile(daemons) {
  const dead = daemons.filter((daemon) => !daemon.alive).length;
  const leaving = daemons.filter((daemon) => daemon.alive && (daemon.draining || daemon.drained)).length;
  const parts = [dead ? `${dead} dead` : "", leaving ? `${leaving} draining` : ""].filter(Boolean);
  const servers = daemons.filter((daemon) => daemon.role === "server").length;
  return tile("Daemons alive", ofText(daemons.length - dead, daemons.length),
    element("small", dead ? "bad-text" : leaving ? "open-text" : "", parts.join(", ") ||
      `${counted(servers, "server")}, ${counted(daemons.length - servers, "worker")}`),
    dead ? "alert" : "");
}

function slotsTile(daemons) {
  const alive = daemons.filter((daemon) => daemon.alive);
  const all = alive.reduce((sum, daemon) => sum + daemon.slots, 0);
  const used = alive.reduce((sum, daemon) => sum + daemon.slots_used, 0);
  return tile("Slots in use", ofText(used, all), all ? bar(used / all) : element("small", "", "no worker"));
}

function limitTile(resources) {
  const limited = resources.filter((one) => one.fullest_limit > 0).map((one) =>
    ({ name: one.name, used: one.fullest_used, limit: one.fullest_limit, where: one.fullest }));
  const nearest = nearestLimit(limited);
  if (!nearest) return tile("Nearest limit", "-", element("small", "", "no daemon has a limit"));
  const share = nearest.used / nearest.limit;
  return tile("Nearest limit", limitText(share), [bar(share, fullness(share)),
    element("small", "", `${resourceTitle(nearest.name)} at ${nearest.where}`)]);
}

function tiles(cluster) {
  const { jobs, daemons } = cluster;
  const of = (state) => jobs.filter((job) => job.state === state);
  const speed = of("running").reduce((sum, job) => sum + job.progress.samples_per_s, 0);
  const failed = of("failed").length;
  return keyed("tiles", box("div", "tiles",
    tile("Jobs running", `${of("running").length}`, [element("small", "",
      `${of("queued").length} queued, ${of("finished").length} finished` +
      `${failed ? `, ${failed} failed` : ""}`)]),
    tile("Samples/s", countText(speed), element("small", "", "all running jobs")),
    slotsTile(daemons), daemonsTile(daemons), limitTile(cluster.resources)));
}

function clusterView() {
  const { cluster } = feed;
  return [
    stuckPanel(cluster.jobs, true),
    tiles(cluster),
    jobsSection(cluster.jobs, cluster.now_ms, "Jobs"),
    daemonsSection(cluster.daemons),
    limitsSection(cluster.resources),
  ];
}

function missing(text) {
  return section("missing", null, element("h1", "", text),
    feed.takenAt === null ? null : box("p", "", link("#/", "back to the cluster")));
}
