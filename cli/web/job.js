"use strict";

// The page of a job.

function headOf(job) {
  const { status } = job;
  const { progress } = status;
  const [what, how_long] = timeOf(status, job.now_ms);
  const barClass = status.state === "failed" ? "bad" : status.state === "finished" ? "good" : "";
  const reasonClass = { failed: "bad", queued: "open" }[status.state] || "plain";
  return section("head", null,
    box("div", "headline", element("h1", "", `job ${status.job_id}  ${status.name}`),
      stateBadge(status.state), badge("", status.mode),
      box("p", "big", element("strong", "", shareText(progress)),
        element("span", "", how_long ? `${what} ${how_long}` : what))),
    progress.total_steps ? box("div", "thick", bar(jobShare(progress), barClass)) : null,
    box("p", "note", [stepsText(progress),
      progress.epochs ? `epoch ${progress.epoch.toFixed(1)} of ${progress.epochs}` : "",
      `${progress.samples.toLocaleString("en")} samples`].filter(Boolean).join(" · ")),
    status.reason ? element("p", `reason ${reasonClass}`, status.reason) : null);
}

function figuresOf(status) {
  const { progress } = status;
  const shown = [
    ["Loss", hasLoss(progress) ? lossText(progress.loss) : "-"],
    ["Test accuracy", accuracyText(progress)],
    ["Samples/s", status.state === "running" ? numberText(progress.samples_per_s) : "-"],
    ["Bytes per step", progress.bytes_per_step ? bytesText(progress.bytes_per_step) : "-"],
    ["Ranks", `${status.ranks}`],
    ...Object.entries(progress.values || {}).map(([name, value]) => [name, value === null ? "not finite" : plain(value)]),
  ];
  return keyed("figures", box("div", "tiles", shown.map(([name, value]) => tile(name, value, []))));
}

function copyButton(text) {
  return button("copy", async (event) => {
    const made = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text);
      made.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(made.previousElementSibling);
      made.textContent = "selected";
    }
  }, "copy");
}

function commandLine(text) {
  return box("p", "command", element("code", "", text), copyButton(text));
}

function compareLink(status) {
  const others = feed.cluster ? feed.cluster.jobs.filter((job) => job.job_id !== status.job_id) : [];
  if (!others.length) return null;
  const like = others.find((job) => job.model === status.model) || others[0];
  return box("p", "note", link(`#/compare/${status.job_id}/${like.job_id}`, "compare with another job", "action"));
}

// ---- tables ----

function memoryCell(used, limit) {
  if (!limit) return used ? bytesText(used) : "-";
  const share = used / limit;
  return barCell(share, `${bytesText(used)} of ${bytesText(limit)}`, fullness(share));
}

function nodesSection(status) {
  if (!status.nodes.length) return null;
  const hasGpu = status.nodes.some((node) => node.gpu_memory_limit_bytes);
  const columns = [["Node", "name"], ["Ranks", ""], ["Step", ""], ["Memory and its limit", "left"],
    ...(hasGpu ? [["GPU memory", "left"]] : [])];
  return section("nodes", "Nodes", table("Nodes", columns, status.nodes.map((node) => {
    const last = node.first_rank + node.ranks - 1;
    const ranks = node.ranks > 1 ? `${node.first_rank} to ${last}` : `${node.first_rank}`;
    const change = node.joins ? "joins" : node.leaves_at === null ? "" : `leaves at step ${node.leaves_at}`;
    return [`node ${node.node}`, [
      [`${node.node} at `, daemonLink(node.daemon), change ? element("small", "", change) : null],
      ranks, node.step.toLocaleString("en"),
      memoryCell(node.memory_bytes, node.memory_limit_bytes),
      ...(hasGpu ? [memoryCell(node.gpu_memory_bytes, node.gpu_memory_limit_bytes)] : []),
    ]];
  })));
}

function backupCell(shard) {
  if (shard.backup === null) return element("span", "quiet", "none");
  return [daemonLink(shard.backup), shard.backup_is_partial
    ? element("small", "open-text", "not whole yet") : element("small", "", "whole")];
}

const SHARD_COLUMNS = [["Shard", "name"], ["Chunks", ""], ["Pushes", ""], ["Received", ""],
  ["Sent", ""], ["Memory and its limit", "left"], ["Backup", ""], ["Refused", ""]];

function shardsSection(status) {
  if (!status.shards.length) return null;
  return section("shards", "Shards", table("Shards", SHARD_COLUMNS, status.shards.map((shard) => [
    `${shard.daemon} ${shard.shard}`, [
      [daemonLink(shard.daemon), ` shard ${shard.shard}`],
      shard.chunks.toLocaleString("en"),
      shard.pushes.toLocaleString("en"),
      bytesText(shard.bytes_received),
      bytesText(shard.bytes_sent),
      memoryCell(shard.memory_bytes, shard.memory_limit_bytes),
      backupCell(shard),
      shard.refused ? element("span", "open-text", shard.refused.toLocaleString("en")) : "0",
    ]])),
  status.placement ? element("p", "note", status.placement) : null);
}

function checkpointsSection(status) {
  const { checkpoints } = status;
  if (!checkpoints) return null;
  const { newest, writing, resumed, passed_over } = checkpoints;
  const writes = checkpoints.dir !== undefined;
  return section("checkpoints", "Checkpoints", facts([
    writes ? ["folder", checkpoints.dir] : null,
    writes ? ["complete", `${checkpoints.complete}`] : null,
    newest ? ["newest", `step ${newest.step.toLocaleString("en")}, ${bytesText(newest.bytes)}, ` +
      momentText(newest.written_ms)] : null,
    writing ? ["being written", `step ${writing.step.toLocaleString("en")}: ${writing.objects_written} ` +
      `of ${counted(writing.objects, "object")}`] : null,
    resumed ? ["goes on from", `step ${resumed.step.toLocaleString("en")} in ${resumed.dir}`] : null,
  ]),
  checkpoints.failed ? element("p", "reason open",
    `${checkpoints.failed} failed${checkpoints.problem ? `: ${checkpoints.problem}` : ""}`) : null,
  (passed_over || []).map((text) => element("p", "note", `passed over: ${text}`)));
}

// ---- events ----

const fromStep = (step) => (step ? `from step ${step.toLocaleString("en")}` : "from its beginning");

function changeText(change) {
  const nodes = (list) => `${list.length === 1 ? "node" : "nodes"} ${list.join(", ")}`;
  const parts = [`${fromStep(change.step)} on with ${counted(change.ranks, "rank")}`];
  if (change.joined.length) parts.push(`${nodes(change.joined)} joined`);
  if (change.left.length) {
    parts.push(`${nodes(change.left)} left${change.reason ? ` (${change.reason})` : ""}`);
  }
  return parts.join(": ").replace(/: (?=nodes? [^:]*left)/, (text, at) =>
    (change.joined.length && at > parts[0].length ? "; " : text));
}

// [unix ms, kind, words], the newest first.
function eventsOf(job) {
  const { status } = job;
  const events = [[status.ended_ms, { failed: "bad", finished: "good" }[status.state] || "",
    status.reason ? `${status.state}: ${status.reason}` : status.state],
  [status.started_ms, "", "began"], [status.submitted_ms, "", "submitted"]];
  for (const one of job.restarts || []) {
    events.push([one.failed_ms, "bad", `failed: ${one.reason}; goes on ${fromStep(one.step)}`]);
  }
  for (const one of job.replacements || []) {
    const where = one.to ? `goes on at ${one.to}` : "no other daemon has been found yet";
    const step = one.step ? `, ${fromStep(one.step)}` : "";
    events.push([one.lost_ms, one.to ? "open" : "bad",
      `node ${one.node} at ${one.from} was lost: ${one.reason}; ${where}${step}`]);
  }
  for (const one of job.nodes_changes || []) events.push([one.decided_ms, "", changeText(one)]);
  return events.filter(([at]) => at > 0).sort((one, other) => other[0] - one[0]);
}

function eventsSection(job) {
  return section("events", "Events", box("ol", "timeline", eventsOf(job).map(([at, kind, words]) =>
    box("li", kind, element("time", "", momentText(at)), element("span", "", words)))));
}

function settingsSection(status) {
  const whose = whoseText(status);
  return section("settings", "Job", facts([
    ["model", status.model],
    status.elements ? ["weights", `${status.elements.toLocaleString("en")} in ` +
      counted(status.chunks, "chunk")] : null,
    ["optimizer", status.optimizer],
    ["exchange", status.ring ? `${status.exchange}, ${status.ring.algorithm}` : status.exchange],
    ["encodings", `push ${status.push}, pull ${status.pull}`],
    ["device", status.device],
    ["protection", status.protection],
    whose ? ["owner", whose] : null,
    status.run_dir ? ["run's folder", status.run_dir] : null,
  ]), compareLink(status));
}

// ---- all of it ----

const hasCourse = (job) => Boolean(job && job.course && job.course.step.length);

function courseSection(job) {
  if (!hasCourse(job)) {
    return section("course", "Course of training", element("p", "empty", hasEnded(job.status)
      ? "Nobody watched this job while it ran; its run's folder has its metrics.jsonl."
      : "No window is complete yet."));
  }
  const from = job.watched_from_step;
  return section("course", "Course of training", axisRadios(), jobFigures(job), from ? element("p",
    "note", `Watched from step ${from.toLocaleString("en")} on; metrics.jsonl in the run's folder ` +
    "has all of it.") : null);
}

function jobView(id) {
  const job = feed.jobs.get(id);
  if (!job) return [element("p", "empty", "asking…")];
  if (job.error) return [missing(job.error)];
  const { status } = job;
  const isLive = status.state === "running";
  return [
    headOf(job),
    isLive ? stuckPanel([status], false) : null,
    figuresOf(status),
    courseSection(job),
    heatSection(id, job),
    nodesSection(status),
    shardsSection(status),
    checkpointsSection(status),
    logsSection(status),
    keyed("pair", box("div", "pair", settingsSection(status), eventsSection(job))),
  ];
}

function drawJob(id) {
  const job = feed.jobs.get(id);
  if (!job || job.error) return;
  if (hasCourse(job)) drawJobCharts(job);
  if (job.rank_windows.length) drawHeatMap(job);
  drawLog();
}
