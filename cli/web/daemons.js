"use strict";

// Daemons in a table, and the page of one.

const search = { daemons: "" };

// The resource that is nearest to its limit, or null.
function nearestLimit(resources) {
  const limited = resources.filter((resource) => resource.limit > 0);
  const share = ({ used, limit }) => used / limit;
  return limited.reduce((most, one) => (most && share(most) >= share(one) ? most : one), null);
}

const refusalCount = (daemon) => Object.values(daemon.refusals).reduce((sum, n) => sum + n, 0);
const unreached = (daemon) => (daemon.peers || []).filter((peer) => peer.error);

function daemonBadge(daemon) {
  if (!daemon.alive) return badge("bad", "✕ dead");
  if (daemon.drained) return badge("open", "⊘ drained");
  if (daemon.draining) return badge("open", "◷ draining");
  return badge("good", "✓ alive");
}

// Daemons that need attention come first.
function troubleOf(daemon) {
  if (!daemon.alive) return 0;
  if (unreached(daemon).length) return 1;
  if (refusalCount(daemon)) return 2;
  if (daemon.draining || daemon.drained) return 3;
  const nearest = nearestLimit(daemon.resources);
  return nearest && nearest.used / nearest.limit >= 0.9 ? 4 : 5;
}

const limitText = (share) => (share > 0 && share < 0.01 ? "< 1 %" : percentText(share, 0));

function limitCell(resources) {
  const nearest = nearestLimit(resources);
  if (!nearest) return "-";
  const share = nearest.used / nearest.limit;
  return [barCell(share, limitText(share), fullness(share)),
    element("small", "", resourceTitle(nearest.name))];
}

function slotsCell(used, all) {
  if (!all) return "-";
  return barCell(used / all, `${used} of ${all}`);
}

function troubleCell(daemon) {
  const lines = unreached(daemon).map((peer) =>
    element("small", "bad-text", `cannot reach ${peer.name || peer.address}: ${peer.error}`));
  for (const [cause, count] of Object.entries(daemon.refusals)) {
    lines.push(element("small", "open-text", `refused ${count.toLocaleString("en")}: ${cause}`));
  }
  // They follow from something planned, and ask for nobody's eyes.
  for (const [cause, count] of Object.entries(daemon.expected_refusals || {})) {
    lines.push(element("small", "quiet",
      `turned away as planned ${count.toLocaleString("en")}: ${cause}`));
  }
  return lines.length ? lines : "-";
}

function jobsCell(daemon) {
  if (!daemon.jobs.length) return "-";
  const few = daemon.jobs.slice(0, 6);
  const links = few.flatMap((id, i) => (i ? [", ", jobLink(id, `${id}`)] : [jobLink(id, `${id}`)]));
  if (few.length < daemon.jobs.length) links.push(` and ${daemon.jobs.length - few.length} more`);
  return links;
}

function heardText(daemon) {
  return daemon.last_heartbeat_ms_ago < 1000 ? "now"
    : `${durationText(daemon.last_heartbeat_ms_ago / 1000)} ago`;
}

const DAEMON_COLUMNS = [["Daemon", "name"], ["State", "left"], ["Slots", "left"], ["Shards", ""],
  ["Jobs", ""], ["Nearest limit", "left"], ["Heard", ""], ["Refusals", "left wide"]];

function daemonRow(daemon) {
  const gpus = daemon.gpu_slots ? element("small", "",
    `${daemon.gpu_slots_used} of ${counted(daemon.gpu_slots, "GPU slot")}`) : null;
  return [`daemon ${daemon.name}`, [
    [daemonLink(daemon.name), element("small", "", `${daemon.role} at ${daemon.address}`)],
    daemonBadge(daemon),
    [slotsCell(daemon.slots_used, daemon.slots), gpus],
    daemon.shard_ports.length ? `${daemon.shard_ports.length}` : "-",
    jobsCell(daemon),
    limitCell(daemon.resources),
    heardText(daemon),
    troubleCell(daemon),
  ]];
}

function searchBox(key, label) {
  const input = element("input");
  input.type = "search";
  input.placeholder = label;
  input.setAttribute("aria-label", label);
  input.oninput = (event) => {
    search[key] = event.target.value;
    show();
  };
  return input;
}

function daemonsSection(daemons) {
  if (!daemons.length) {
    return section("daemons", "Daemons", element("p", "empty", "No server or worker is here yet."),
      box("p", "note", "To start one: ", element("code", "", "strata worker --coordinator HOST:PORT")));
  }
  const all = [...daemons].sort((one, other) => troubleOf(one) - troubleOf(other) ||
    one.name.localeCompare(other.name, "en", { numeric: true }));
  const found = all.filter((daemon) => `${daemon.name} ${daemon.address} ${daemon.role}`
    .toLowerCase().includes(search.daemons.toLowerCase()));
  const shown = unfolded.has("daemons") ? found : found.slice(0, SHOWN_FIRST);
  return section("daemons", "Daemons",
    daemons.length > 10 ? box("p", "controls", searchBox("daemons", "daemons by name or address"),
      element("span", "quiet", `${shown.length} of ${counted(daemons.length, "daemon")} shown`)) : null,
    table("Daemons", DAEMON_COLUMNS, shown.map(daemonRow)),
    showAllButton("daemons", shown.length, found.length, "daemon"));
}

// ---- limits ----

const RESOURCE_COLUMNS = [["Resource", "name"], ["Used", ""], ["Limit", ""], ["Share", "left wide"]];

function resourceRow(resource) {
  const { name, used, limit } = resource;
  return [name, [resourceTitle(name), amountText(name, used),
    limit ? amountText(name, limit) : "none",
    limit ? barCell(used / limit, percentText(used / limit, 1), fullness(used / limit)) : "-"]];
}

const TOTAL_COLUMNS = [["Resource", "name"], ["Used", ""], ["Limit", ""], ["Nearest to it", "left wide"],
  ["Share", "left wide"]];

// Resources of all daemons together, each with the one that is nearest to its limit.
function limitsSection(resources) {
  if (!resources.length) return null;
  return section("limits", "Limits of all daemons",
    table("Limits of all daemons", TOTAL_COLUMNS, resources.map((resource) => {
      const { name, used, limit, fullest, fullest_used, fullest_limit } = resource;
      const share = fullest_limit ? fullest_used / fullest_limit : 0;
      return [name, [resourceTitle(name), amountText(name, used),
        limit ? amountText(name, limit) : "none",
        fullest === "coordinator" || !fullest ? fullest || "-" : daemonLink(fullest),
        fullest_limit ? barCell(share, percentText(share, 1), fullness(share)) : "-"]];
    })));
}

// ---- the page of one ----

function daemonView(name) {
  const { cluster } = feed;
  const daemon = cluster.daemons.find((one) => one.name === name);
  if (!daemon) return [missing(`there is no daemon ${name}`)];
  const jobs = cluster.jobs.filter((job) => daemon.jobs.includes(job.job_id));
  const head = box("div", "headline", element("h1", "", daemon.name), daemonBadge(daemon),
    daemon.stands_in ? badge("", "stands in") : null);
  const gpus = (daemon.gpus || []).map((gpu) =>
    `${gpu.index}: ${gpu.name}, ${bytesText(gpu.memory_bytes)}`).join("; ");
  return [
    section("head", null, head, facts([
      ["role", daemon.role],
      ["address", daemon.address],
      ["heard", heardText(daemon)],
      daemon.slots ? ["slots in use", `${daemon.slots_used} of ${daemon.slots}`] : null,
      daemon.gpu_slots ? ["GPU slots in use", `${daemon.gpu_slots_used} of ${daemon.gpu_slots}`] : null,
      gpus ? ["GPUs", gpus] : null,
      daemon.shard_ports.length ? ["shards at ports", daemon.shard_ports.join(", ")] : null,
    ])),
    jobs.length ? stuckPanel(jobs, true) : null,
    troubleOf(daemon) === 1 || refusalCount(daemon)
      ? section("trouble", "Refused and not reached", box("div", "lines", troubleCell(daemon))) : null,
    jobs.length ? jobsSection(jobs, cluster.now_ms, "Jobs that run here") : null,
    section("limits", "Limits", daemon.resources.length
      ? table("Limits", RESOURCE_COLUMNS, daemon.resources.map(resourceRow))
      : element("p", "empty", "It has not said yet what it uses.")),
    (daemon.peers || []).length ? section("peers", "Shards that it reaches",
      table("Shards that it reaches", [["Shard", "name"], ["Address", "left"], ["State", "left wide"]],
        daemon.peers.map((peer) => [peer.address, [peer.name || "-", peer.address,
          peer.error ? element("span", "bad-text", peer.error) : badge("good", "✓ reached")]]))) : null,
  ];
}
