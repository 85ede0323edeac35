"use strict";

// Who is stuck: the first thing that is said of the cluster and of a job.

const STUCK_S = 10;  // until then it only waits; the same as strata top's kStuckSeconds
const STUCK_SHOWN = 8;
const unfolded = new Set();  // keys of lists that are shown to their end

// [{job, wait}] of these jobs, the longest first.
function waitsOf(jobs) {
  return jobs.flatMap((job) => job.waits.map((wait) => ({ job, wait })))
    .sort((one, other) => other.wait.seconds - one.wait.seconds);
}

const hasLog = (wait) => feed.cluster.has_logs && wait.rank !== null;

function waitRow({ job, wait }, withJob) {
  const isLong = wait.seconds >= STUCK_S;
  const links = [withJob ? jobLink(job.job_id, `job ${job.job_id} ${job.name}`) : null,
    hasLog(wait) ? link(logHref(job.job_id, `rank:${wait.rank}`), "its log") : null].filter(Boolean);
  const row = box("li", isLong ? "bad" : "open",
    element("span", "since", durationText(wait.seconds)),
    element("span", "how", isLong ? "stuck" : "waits"),
    box("span", "what", wait.text, links.length ? box("small", "", links) : null));
  return keyed(`${job.job_id} ${wait.node} ${wait.rank} ${wait.daemon} ${wait.doing}`, row);
}

function stuckList(waits, withJob, key) {
  const shown = unfolded.has(key) ? waits : waits.slice(0, STUCK_SHOWN);
  return [box("ul", "waits", shown.map((one) => waitRow(one, withJob))),
    showAllButton(key, shown.length, waits.length, "wait")];
}

// Null: all are shown.
function showAllButton(key, shown, all, what) {
  if (shown === all) return null;
  return button(`show all ${counted(all, what)}`, () => {
    unfolded.add(key);
    show();
  }, "more");
}

// The panel of these jobs; with the job of each wait where there may be several.
function stuckPanel(jobs, withJob) {
  const waits = waitsOf(jobs);
  const running = jobs.filter((job) => job.state === "running");
  if (!waits.length) {
    const ranks = running.reduce((sum, job) => sum + job.ranks, 0);
    const atWork = running.length
      ? `${counted(running.length, "job")} with ${counted(ranks, "rank")} at work`
      : "no job is running";
    // The coordinator's last answer may be out of date.
    const [className, words] = isLive() ? ["good", "Nothing is stuck"]
      : ["open", "Nothing was stuck then"];
    return section("stuck", "Who is stuck", box("p", `calm ${className}`,
      element("strong", "", words), element("span", "", atWork)));
  }
  return section("stuck", "Who is stuck", ...stuckList(waits, withJob, "waits"));
}

// Said aloud only when it changes, unlike the seconds.
function spokenText(jobs) {
  const stuck = waitsOf(jobs).filter(({ wait }) => wait.seconds >= STUCK_S);
  return stuck.length ? `${counted(stuck.length, "wait")} of ${STUCK_S} seconds and more` : "";
}
