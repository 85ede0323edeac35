"use strict";

// The logs of a job, as its processes write them.

let isAtLogsEnd = true;  // then it stays there as lines come
let isLogNew = false;    // it is not in sight yet

const logHref = (id, whose) => `#/job/${id}/log${whose ? `/${whose.replace(":", "/")}` : ""}`;

// The options that a select has for a job: [value, words].
function logChoices(status) {
  return [["", "all ranks"], ["aggregators", "aggregators"],
    ...Array.from({ length: status.ranks }, (_, rank) => [`rank:${rank}`, `rank ${rank}`])];
}

function logSelect(status, whose) {
  const select = box("select", "", logChoices(status).map(([value, words]) => {
    const option = element("option", "", words);
    option.value = value;
    return option;
  }));
  select.value = whose;
  select.setAttribute("aria-label", "Whose log");
  select.onchange = (event) => { location.hash = logHref(status.job_id, event.target.value); };
  return select;
}

function logCommand(id, whose) {
  const rank = whose.startsWith("rank:") ? ` --rank ${whose.slice("rank:".length)}` : "";
  return `strata logs ${id}${rank}${whose === "aggregators" ? " --aggregator" : ""} --follow`;
}

function logLine([number, process, text, isProblem]) {
  return keyed(`${number}`, box("div", isProblem ? "line bad" : "line",
    process ? element("span", "who", `[${process}]`) : null, element("span", "said", text)));
}

function logState(status) {
  const { lines, problem, ended, isTold } = feed.log;
  if (problem) return element("p", "reason open", problem);
  if (ended) return element("p", "note", lines.length ? "The job has ended: this is all." : "Nothing was written.");
  if (!isTold || hasEnded(status)) return element("p", "note", "asking…");
  return element("p", "note", lines.length ? "New lines come at the end." : "Nothing has been written yet.");
}

function logBox(id) {
  const made = box("div", "log", feed.log.lines.map(logLine));
  made.id = "log";
  made.tabIndex = 0;
  made.setAttribute("role", "region");
  made.setAttribute("aria-label", `Log of job ${id}`);
  made.onscroll = () => {
    isAtLogsEnd = made.scrollTop + made.clientHeight > made.scrollHeight - 24;
  };
  return made;
}

// As in a select.
const whoseLog = () => feed.log.choice.split(":").slice(1).join(":");

function openLog(status) {
  const whose = whoseLog();
  return [
    box("div", "controls choices", logSelect(status, whose),
      button("close", () => { location.hash = `#/job/${status.job_id}`; }, "more")),
    feed.log.lines.length ? logBox(status.job_id) : null,
    logState(status),
    element("h3", "", "The same in a terminal"), commandLine(logCommand(status.job_id, whose)),
  ];
}

function closedLog(status) {
  const { has_logs: hasLogs } = feed.cluster;
  const open = button("show what the ranks write", () => {
    location.hash = logHref(status.job_id, "");
  }, "more first");
  return [hasLogs ? open : element("p", "note", "Logs are shown here by strata web --logs."),
    element("h3", "", hasLogs ? "The same in a terminal" : "In a terminal"),
    commandLine(logCommand(status.job_id, ""))];
}

function logsSection(status) {
  const isOpen = feed.log && feed.cluster.has_logs;
  return section("logs", "Logs", isOpen ? openLog(status) : closedLog(status));
}

// Only the log anew, where it is shown already.
function showLog() {
  const shown = document.querySelector("section.logs");
  const job = feed.log && feed.jobs.get(Number(feed.log.choice.split(":")[0]));
  if (!shown || !document.getElementById("log") || !job || job.error) return false;
  merge(shown, logsSection(job.status));
  drawLog();
  return true;
}

function showLogFromItsEnd() {
  isAtLogsEnd = true;
  isLogNew = true;
  // Otherwise the focused element is left as it is.
  const select = document.querySelector(".logs select");
  if (select) select.value = whoseLog();
}

function drawLog() {
  const shown = document.getElementById("log");
  if (shown && isAtLogsEnd) shown.scrollTop = shown.scrollHeight;
  if (!isLogNew || !feed.log || !feed.log.isTold) return;
  isLogNew = false;
  document.querySelector("section.logs").scrollIntoView({ block: "nearest" });
}
