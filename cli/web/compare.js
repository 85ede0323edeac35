"use strict";

// Two jobs, one upon the other.

function jobSelect(jobs, chosen, label, onChoice) {
  const select = box("select", "", jobs.map((job) => {
    const option = element("option", "", `${job.job_id}  ${job.name}  ${job.mode}`);
    option.value = `${job.job_id}`;
    return option;
  }));
  select.value = `${chosen}`;
  select.setAttribute("aria-label", label);
  select.onchange = (event) => onChoice(Number(event.target.value));
  return select;
}

const shareOfTime = (values) => {
  const known = values.filter((value) => value !== null);
  return known.length ? percentText(known.reduce((sum, one) => sum + one, 0) / known.length, 1) : "-";
};

// [name, what it is of a job]
const COMPARED = [
  ["state", (job) => stateBadge(job.status.state)],
  ["mode", (job) => job.status.mode],
  ["model", (job) => job.status.model],
  ["exchange", (job) => job.status.exchange],
  ["ranks", (job) => `${job.status.ranks}`],
  ["steps", (job) => stepsText(job.status.progress)],
  ["time so far", (job) => (job.status.started_ms
    ? durationText(((job.status.ended_ms || job.now_ms) - job.status.started_ms) / 1000) : "-")],
  ["loss", (job) => (hasLoss(job.status.progress) ? lossText(job.status.progress.loss) : "-")],
  ["test accuracy", (job) => accuracyText(job.status.progress)],
  ["samples/s", (job) => numberText(job.status.progress.samples_per_s)],
  ["bytes per step", (job) => bytesText(job.status.progress.bytes_per_step || 0)],
  ["waiting, on average", (job) => shareOfTime(job.course.waiting_share)],
  ["transfers hidden, on average", (job) => shareOfTime(job.course.hidden_share)],
];

const nameOfJob = (job) => `${job.status.job_id}  ${job.status.name}`;

function comparedFigures(both) {
  const keys = both.map((job, i) => [`${job.status.job_id} ${job.status.mode}`, i]);
  return box("div", "charts three", figure("both-loss", "Loss", keys),
    figure("both-accuracy", "Test accuracy", keys), figure("both-speed", "Samples/s", keys));
}

function comparedTable(both) {
  const columns = [["", "name"], ...both.map((job) => [`job ${job.status.job_id}`, ""])];
  return table("The two jobs", columns, COMPARED.map(([name, of]) => [name, [name, ...both.map(of)]]));
}

function comparedJobs(ids) {
  return ids.map((id) => feed.jobs.get(id)).filter((job) => job && !job.error);
}

function compareView(ids) {
  const { jobs } = feed.cluster;
  if (jobs.length < 2) {
    return [section("compare", "Compare", element("p", "empty", "There are not two jobs to compare yet."))];
  }
  const choose = (at) => (id) => {
    const next = [...ids];
    next[at] = id;
    location.hash = `#/compare/${next.join("/")}`;
  };
  const both = comparedJobs(ids);
  const gone = ids.filter((id) => (feed.jobs.get(id) || {}).error);
  return [
    section("compare", "Compare", box("div", "controls choices",
      jobSelect(jobs, ids[0], "First job", choose(0)), element("span", "", "with"),
      jobSelect(jobs, ids[1], "Second job", choose(1))),
    gone.map((id) => element("p", "reason open", feed.jobs.get(id).error))),
    both.length === 2 ? section("course", "Course of training", axisRadios(), comparedFigures(both)) : null,
    both.length === 2 ? section("compared", "Figures", comparedTable(both)) : null,
  ];
}

function drawCompared(ids) {
  const both = comparedJobs(ids);
  if (both.length !== 2) return;
  const lines = (values, more) => both.map((job, i) =>
    line(nameOfJob(job), i, xsOf(job), values(job.course), more));
  drawLines("both-loss", "loss of both jobs", lines((course) => course.loss),
    { title: "loss", format: plain });
  drawLines("both-accuracy", "test accuracy of both jobs",
    lines((course) => course.test_accuracy, { pointRadius: 3 }),
    accuracyAxis(...both.map((job) => job.course.test_accuracy)));
  drawLines("both-speed", "samples per second of both jobs", lines((course) => course.samples_per_s),
    { title: "samples/s", format: countText, more: { beginAtZero: true } });
}

// Those of the link, else the two newest that have trained.
function idsToCompare(wanted) {
  const jobs = feed.cluster ? feed.cluster.jobs : [];
  const trained = [...jobs].sort((one, other) => (other.progress.samples > 0) - (one.progress.samples > 0));
  const ids = wanted.filter((id) => id > 0);
  for (const { job_id } of trained) {
    if (ids.length < 2 && !ids.includes(job_id)) ids.push(job_id);
  }
  return ids;
}
