"use strict";

// Jobs in a table, and what is said of a job in a line.

const SHOWN_FIRST = 50;
const STATES = {
  running: ["running", "▶ running"],
  queued: ["open", "◷ queued"],
  finished: ["good", "✓ finished"],
  failed: ["bad", "✕ failed"],
  cancelled: ["", "⊘ cancelled"],
};

const stateBadge = (state) => badge(...(STATES[state] || ["", state]));
const hasEnded = (job) => job.ended_ms > 0;

function jobShare(progress) {
  return progress.total_steps > 0 ? progress.step / progress.total_steps : 0;
}

// Empty: nobody knows how much there is to do.
function shareText(progress) {
  if (!progress.total_steps) return "";
  const share = jobShare(progress);
  // 100 % is said of the end alone.
  return `${share >= 1 ? 100 : Math.min(99, Math.floor(share * 100))} %`;
}

function stepsText(progress) {
  const step = progress.step.toLocaleString("en");
  return progress.total_steps ? `${step} of ${progress.total_steps.toLocaleString("en")} steps`
    : `${step} steps`;
}

// [what it is, how long] of the time that a job still takes, has taken or has waited.
function timeOf(job, now_ms) {
  if (job.state === "queued") {
    return ["waiting for", durationText((now_ms - job.submitted_ms) / 1000)];
  }
  if (hasEnded(job)) {
    if (!job.started_ms) return ["never began", ""];
    return ["took", durationText((job.ended_ms - job.started_ms) / 1000)];
  }
  const eta = job.progress.eta_s;
  return eta === null ? ["ETA", "not known yet"] : ["ETA", durationText(eta)];
}

function progressCell(job) {
  const { progress } = job;
  if (job.state === "queued") return element("span", "quiet", job.reason || "in the queue");
  const barClass = job.state === "failed" ? "bad" : job.state === "finished" ? "good" : "";
  return [
    progress.total_steps ? barCell(jobShare(progress), shareText(progress), barClass) : null,
    element("small", "", stepsText(progress)),
    job.reason ? element("small", job.state === "failed" ? "bad-text" : "", job.reason) : null,
  ];
}

// A program that reports no loss has 0.
const hasLoss = ({ samples, loss }) => samples > 0 && loss !== 0;
const lossText = (loss) => (loss === null ? "not finite" : `${+loss.toPrecision(4)}`);

function lossCell(job) {
  if (!hasLoss(job.progress)) return "-";
  const last = element("span", "figure", lossText(job.progress.loss));
  if (job.spark.length < 2) return last;
  const label = `loss from ${lossText(job.spark[0])} to ${lossText(job.spark[job.spark.length - 1])}`;
  return box("span", "sparked", spark(job.spark, label), last);
}

function accuracyText(progress) {
  return progress.test_accuracy === null ? "-" : percentText(progress.test_accuracy, 1);
}

function whoseText(job) {
  return [job.owner, job.namespace].filter(Boolean).join(" · ");
}

function jobRow(job, now_ms) {
  const [what, how_long] = timeOf(job, now_ms);
  const whose = whoseText(job);
  return [`job ${job.job_id}`, [
    [jobLink(job.job_id, `${job.job_id}  ${job.name}`), whose ? element("small", "", whose) : null],
    stateBadge(job.state),
    [job.mode, element("small", "", `${job.model}, ${counted(job.ranks, "rank")}`)],
    progressCell(job),
    [element("span", "figure", how_long || "-"), element("small", "whole", what)],
    lossCell(job),
    accuracyText(job.progress),
    job.state === "running" ? numberText(job.progress.samples_per_s) : "-",
  ]];
}

const JOB_COLUMNS = [["Job", "name"], ["State", "left"], ["Mode", "left"], ["Progress", "left wide"],
  ["Time", ""], ["Loss", ""], ["Accuracy", ""], ["Samples/s", ""]];

// Stuck jobs come first, then those that run, wait and have ended; the newest first in each group.
function sortedJobs(jobs) {
  const order = (job) => {
    if (job.waits.some((wait) => wait.seconds >= STUCK_S)) return 0;
    return job.state === "running" ? 1 : job.state === "queued" ? 2 : 3;
  };
  return [...jobs].sort((one, other) => order(one) - order(other) || other.job_id - one.job_id);
}

function jobsSection(jobs, now_ms, title) {
  if (!jobs.length) {
    return section("jobs", title, element("p", "empty", "No job is here yet."),
      box("p", "note", "To submit one: ", element("code", "", "strata submit job.textproto")));
  }
  const all = sortedJobs(jobs);
  const shown = unfolded.has("jobs") ? all : all.slice(0, SHOWN_FIRST);
  return section("jobs", title, table(title, JOB_COLUMNS, shown.map((job) => jobRow(job, now_ms))),
    showAllButton("jobs", shown.length, all.length, "job"));
}
