"use strict";

// Which view is shown, how old it is, and what is wrong with it.

const OLD_S = 10;     // until then a picture is live
const SILENT_S = 15;  // a server that is there says something within that time

function route() {
  const [kind, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  if (kind === "job") return { kind, id: Number(rest[0]), log: logOf(rest) };
  if (kind === "daemon") return { kind, name: nameIn(rest[0] || "") };
  if (kind === "compare") return { kind, ids: rest.map(Number) };
  return { kind: "cluster" };
}

// Whose log a job's page shows; null: no log.
function logOf([id, word, kind, rank]) {
  if (word !== "log") return null;
  const isRank = kind === "rank" && /^\d+$/.test(rank || "");
  const whose = isRank ? `:rank:${Number(rank)}` : kind === "aggregators" ? ":aggregators" : "";
  return `${Number(id)}${whose}`;
}

function nameIn(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// ---- around the views ----

function agePhrase() {
  const age = ageSeconds();
  return age === null ? "" : `${durationText(age)} old`;
}

const isSilent = () => feed.link === "open" && !feed.problem && ageSeconds() > SILENT_S;

function bannerText() {
  const age = agePhrase();
  const picture = age ? `; what is shown is ${age}` : "";
  if (feed.link === "lost" || isSilent()) {
    return `strata web at ${location.host} does not answer, trying again${picture}`;
  }
  return feed.problem ? `${feed.problem}${picture}` : "";
}

function showFreshness() {
  const age = ageSeconds();
  const [className, text] = feed.link === "locked" ? ["", "not logged in"]
    : feed.link === "starting" ? ["", "connecting…"]
      : feed.link === "lost" || isSilent() ? ["bad", `not connected${age === null ? "" : `, ${agePhrase()}`}`]
        : age === null ? ["open", "no answer yet"]
          : feed.problem || age > OLD_S ? ["open", agePhrase()] : ["good", `live, ${agePhrase()}`];
  const place = document.getElementById("freshness");
  place.className = className;
  patch(place, [element("span", "dot"), element("span", "", text)]);
  const banner = document.getElementById("banner");
  const said = bannerText();
  banner.className = feed.link === "lost" || isSilent() ? "bad" : "open";
  patch(banner, said ? [element("p", "", said)] : []);
}

function showAround(at) {
  const pages = [["#/", "Cluster", at.kind === "cluster"], ["#/compare", "Compare", at.kind === "compare"]];
  patch(document.getElementById("pages"), pages.map(([href, text, isHere]) => {
    const made = link(href, text);
    if (isHere) made.setAttribute("aria-current", "page");
    return made;
  }));
  const { cluster } = feed;
  patch(document.getElementById("foot"), cluster ? [element("span", "", [`Strata ${cluster.version}`,
    `coordinator ${cluster.coordinator}`, cluster.security, cluster.cluster_id
      ? `cluster ${cluster.cluster_id}` : ""].filter(Boolean).join(" · "))] : []);
  const jobs = cluster ? cluster.jobs : [];
  const stuck = waitsOf(jobs).filter(({ wait }) => wait.seconds >= STUCK_S).length;
  const name = at.kind === "job" ? `job ${at.id}` : at.kind === "daemon" ? at.name : at.kind;
  document.title = `${stuck ? `(${stuck} stuck) ` : ""}${name} · Strata`;
  const spoken = document.getElementById("spoken");
  if (spoken.textContent !== spokenText(jobs)) spoken.textContent = spokenText(jobs);
}

function lockedView() {
  return [section("locked", null, element("h1", "", "This dashboard needs a link of its own"),
    element("p", "", "Whoever started strata web sees a link in that terminal, such as"),
    box("p", "command", element("code", "", `${location.origin}/#token=…`)),
    element("p", "", "Open it once in this browser. A link works once; strata web then prints the next one."),
    feed.lockedText ? element("p", "reason bad", feed.lockedText) : null)];
}

function startingView() {
  return [element("p", "empty", feed.link === "lost" ? "" : "asking…")];
}

// ---- the view ----

let shownRoute = null;

function viewOf(at) {
  if (feed.link === "locked") return lockedView();
  if (!feed.cluster) return startingView();
  if (feed.takenAt === null) return [missing("The coordinator has not answered yet: nothing is known")];
  if (at.kind === "job") return jobView(at.id);
  if (at.kind === "daemon") return daemonView(at.name);
  if (at.kind === "compare") return compareView(idsToCompare(at.ids));
  return clusterView();
}

function forgetCharts() {
  for (const id of Object.keys(charts)) {
    charts[id].destroy();
    delete charts[id];
  }
}

// All that the view needs is there.
function isReady(at) {
  return feed.link === "locked" || Boolean(feed.cluster) && idsOf(at).every((id) => feed.jobs.has(id)) &&
    (!feed.log || feed.log.isTold || !feed.cluster.has_logs);
}

function drawView(at) {
  if (feed.link !== "locked" && feed.cluster && feed.takenAt !== null) {
    if (at.kind === "job") drawJob(at.id);
    if (at.kind === "compare") drawCompared(idsToCompare(at.ids));
  }
  document.body.dataset.charts = `${Object.keys(charts).length} drawn`;
  document.body.dataset.shown = isReady(at) ? location.hash : "";
}

// A chart whose frame has gone is no more.
function dropOrphans() {
  for (const id of Object.keys(charts)) {
    if (charts[id].canvas && charts[id].canvas.isConnected) continue;
    charts[id].destroy();
    delete charts[id];
  }
}

function show() {
  const at = route();
  showAround(at);
  if (document.hidden) return;
  showFreshness();
  patch(document.getElementById("view"), viewOf(at).filter(Boolean));
  dropOrphans();
  drawView(at);
}

function idsOf(at) {
  if (at.kind === "job") return [at.id];
  return at.kind === "compare" ? idsToCompare(at.ids) : [];
}

async function go() {
  if (location.hash.startsWith("#token=")) {
    await logIn(location.hash.slice("#token=".length));
  }
  const at = route();
  const place = JSON.stringify({ ...at, log: null });
  const isNew = place !== shownRoute;
  if (isNew && shownRoute !== null) {
    forgetCharts();
    document.getElementById("view").replaceChildren();
    window.scrollTo(0, 0);
    document.getElementById("view").focus({ preventScroll: true });
  }
  shownRoute = place;
  pointed.rank = null;
  if (chooseLog(at.log ?? null)) showLogFromItsEnd();
  show();
  await follow(idsOf(at), showNews);
}

// A comparison without names is of two jobs, and of these from then on.
function showNews(kind) {
  if (kind === "log" && showLog()) return;
  const at = route();
  const ids = idsOf(at);
  if (at.kind === "compare" && at.ids.length < 2 && ids.length === 2) {
    location.replace(`#/compare/${ids.join("/")}`);
  } else {
    show();
  }
}

function showAnew() {
  forgetCharts();
  document.getElementById("view").replaceChildren();
  show();
}

window.addEventListener("hashchange", go);
window.addEventListener("resize", show);
document.addEventListener("visibilitychange", () => {
  show();
  follow(feed.watched, showNews);
});
isDark.addEventListener("change", showAnew);
setInterval(showFreshness, 1000);
go();
