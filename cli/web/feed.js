"use strict";

// Receives news from `strata web`: the cluster, and the jobs and the log that a view asks for.

const RETRY_MS = 2000;
const HIDDEN_MS = 15000;
const LOG_LINES = 500;
const feed = {
  link: "starting",  // "open", "lost", "locked"
  cluster: null,     // as /api/cluster has it
  jobs: new Map(),   // id -> as /api/jobs/ID has it, or {error}
  takenAt: null,     // when the coordinator last answered, in performance.now()
  problem: "",
  lockedText: "",
  log: null,         // {choice, lines: [[number, process, text, is a problem]], ...} as "log" events have it
  watched: [],
};
let source = null;
let retry = 0;

// When the picture is from: what the server's clock says of its age, and what has passed here since.
function take(news) {
  feed.problem = news.problem;
  feed.takenAt = news.taken_ms === null ? null
    : performance.now() - Math.max(0, news.now_ms - news.taken_ms);
}

function ageSeconds() {
  return feed.takenAt === null ? null : (performance.now() - feed.takenAt) / 1000;
}

const isLive = () => feed.link !== "lost" && !feed.problem;

function takeCluster(cluster) {
  take(cluster);
  feed.cluster = cluster;
}

function takeJob(id, job) {
  if (!job.error) take(job);
  feed.jobs.set(id, job);
}

// As listen asks for it; null: none. Returns whether it is another one than before.
function chooseLog(choice) {
  if (choice === (feed.log ? feed.log.choice : null)) return false;
  feed.log = choice === null ? null
    : { choice, lines: [], next: 0, problem: "", ended: false, isTold: false };
  return feed.log !== null;
}

// Lines are numbered, so that the page knows those that it has.
function takeLog(news) {
  if (!feed.log || news.choice !== feed.log.choice) return;
  const { lines } = news.anew ? { lines: [] } : feed.log;
  const numbered = (line) => [feed.log.next++, ...line];
  if (news.passed_over) {
    lines.push(numbered(["", `${counted(news.passed_over, "line")} came too fast to be shown`, true]));
  }
  lines.push(...news.lines.map(numbered));
  feed.log = { ...feed.log, lines: lines.slice(-LOG_LINES), problem: news.problem, ended: news.ended,
    isTold: true };
}

// Null: no session, or nobody answered; feed.link says which.
async function ask(path) {
  try {
    const answer = await fetch(path, { cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) {
      lock();
      return null;
    }
    const json = await answer.json();
    return answer.ok || answer.status === 404 ? json : null;
  } catch {
    feed.link = "lost";
    return null;
  }
}

function lock() {
  feed.link = "locked";
  if (source) source.close();
  source = null;
}

// The token works once; it is out of the address bar before anything else is done. Who has a session
// already does not need it.
async function logIn(token) {
  history.replaceState(null, "", `${location.pathname}#/`);
  try {
    const answer = await fetch("/login", {
      method: "POST",
      headers: { "Content-Type": "text/plain" },
      body: token,
    });
    feed.link = "starting";
    feed.lockedText = answer.ok ? "" : (await answer.text()).slice(0, 300);
  } catch {
    feed.link = "lost";
  }
}

// Follows the cluster, these jobs and the chosen log, whoever was followed before.
async function follow(wanted, onNews) {
  const ids = [...wanted];  // tells this call from others
  clearTimeout(retry);
  if (source) source.close();
  source = null;
  feed.watched = ids;
  // Asked for once: unlike a stream, an answer says that there is no session.
  const cluster = await ask("/api/cluster");
  if (cluster) takeCluster(cluster);
  for (const id of cluster ? ids : []) {
    const isThere = cluster.jobs.some((job) => job.job_id === id);
    const job = isThere ? await ask(`/api/jobs/${id}`) : { error: `there is no job ${id}` };
    if (job) takeJob(id, job);
  }
  if (feed.watched !== ids) return;
  if (feed.link !== "locked") feed.link = cluster ? "open" : "lost";
  onNews();
  if (feed.link === "locked") return;
  if (!cluster) {
    retry = setTimeout(() => follow(ids, onNews), RETRY_MS);
    return;
  }
  // Browsers give a server six connections: tabs that nobody sees leave them to others.
  if (document.hidden) retry = setTimeout(() => follow(ids, onNews), HIDDEN_MS);
  else listen(ids, onNews);
}

function listen(ids, onNews) {
  const known = ids.filter((id) => !(feed.jobs.get(id) || { error: "" }).error);
  const query = known.map((id) => `job=${id}`);
  if (feed.log) query.push(`log=${encodeURIComponent(feed.log.choice)}`);
  const stream = new EventSource(`/api/events${query.length ? `?${query.join("&")}` : ""}`);
  source = stream;
  const onEvent = (takeNews) => (event) => {
    if (source !== stream) return;
    feed.link = "open";
    takeNews(JSON.parse(event.data));
    onNews(event.type);
  };
  stream.addEventListener("cluster", onEvent(takeCluster));
  stream.addEventListener("cluster", () => {
    if (source !== stream) return;
    // A job has come that was not there, or has gone.
    const isHere = (id) => feed.cluster.jobs.some((job) => job.job_id === id);
    if (ids.some((id) => known.includes(id) !== isHere(id))) follow(ids, onNews);
  });
  stream.addEventListener("job", onEvent((job) => takeJob(job.status.job_id, job)));
  stream.addEventListener("log", onEvent(takeLog));
  stream.onerror = () => {
    stream.close();
    if (source !== stream) return;
    feed.link = "lost";
    onNews();
    retry = setTimeout(() => follow(ids, onNews), RETRY_MS);
  };
}
