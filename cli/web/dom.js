"use strict";

// Views are built anew with each piece of news, and only what differs is changed in the page: the
// focus, selections and scrolled boxes stay where they are.

// An element with all that is inside of it; texts stay texts, null is left out.
function box(tag, className, ...inside) {
  const made = element(tag, className);
  made.append(...inside.flat().filter((one) => one !== null && one !== undefined));
  return made;
}

// The element that stands for the same thing in the next picture, too, wherever it will be.
function keyed(key, made) {
  made.key = key;
  return made;
}

// Insides of these are not the views'.
const isItsOwn = (have) => have.nodeName === "CANVAS";

function mergeAttributes(have, want) {
  for (const { name } of [...have.attributes]) {
    if (!want.hasAttribute(name) && name !== "open" && name !== "style") have.removeAttribute(name);
  }
  for (const { name, value } of want.attributes) {
    if (name !== "style" && have.getAttribute(name) !== value) have.setAttribute(name, value);
  }
  // Attributes with a style are refused by the policy, what scripts set is not.
  if (have.style.cssText !== want.style.cssText) have.style.cssText = want.style.cssText;
  have.onclick = want.onclick;
  have.onchange = want.onchange;
  have.oninput = want.oninput;
}

function merge(have, want) {
  if (have.nodeType === Node.TEXT_NODE) {
    if (have.data !== want.data) have.data = want.data;
    return;
  }
  if (isItsOwn(have)) return;
  mergeAttributes(have, want);
  patch(have, [...want.childNodes]);
  if (have.nodeName === "SELECT" && have !== document.activeElement) have.value = want.value;
}

// Makes what is inside of an element the same as these nodes.
function patch(parent, wanted) {
  const byKey = new Map();
  for (const child of parent.childNodes) if (child.key) byKey.set(child.key, child);
  let at = parent.firstChild;
  for (const want of wanted) {
    const candidate = want.key ? byKey.get(want.key) : at;
    const fits = candidate && candidate.nodeName === want.nodeName && candidate.key === want.key;
    if (!fits) {
      parent.insertBefore(want, at);
    } else {
      if (candidate === at) at = at.nextSibling;
      else parent.insertBefore(candidate, at);
      merge(candidate, want);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function link(href, text, className) {
  const made = element("a", className, text);
  made.href = href;
  return made;
}

const jobLink = (id, text) => link(`#/job/${id}`, text);
const daemonLink = (name) => link(`#/daemon/${encodeURIComponent(name)}`, name);

function button(text, onclick, className) {
  const made = element("button", className, text);
  made.type = "button";
  made.onclick = onclick;
  return made;
}

function badge(className, text) {
  return element("span", `badge ${className}`, text);
}

function svgElement(tag, attributes, ...inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

// ---- small pictures ----

// A bar that is so full; what it says stands beside it.
function bar(share, className) {
  const full = element("span", `full ${className || ""}`.trim());
  full.style.width = `${Math.min(Math.max(share, 0), 1) * 100}%`;
  const made = box("span", "bar", full);
  made.setAttribute("aria-hidden", "true");
  return made;
}

// Near a limit a bar changes its colour, and its text says so by its number.
const fullness = (share) => (share >= 0.9 ? "bad" : share >= 0.75 ? "open" : "");

function barCell(share, text, className) {
  return box("span", "barred", bar(share, className), element("span", "figure", text));
}

// The newest values as a line without axes.
function spark(values, label) {
  const [wide, high] = [120, 30];
  const least = Math.min(...values), most = Math.max(...values);
  const x = (i) => (values.length < 2 ? wide - 4 : 2 + i * (wide - 6) / (values.length - 1));
  const y = (value) => 3 + (high - 6) * (most > least ? (most - value) / (most - least) : 0.5);
  const points = values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`);
  const last = values.length - 1;
  return svgElement("svg", { class: "spark", viewBox: `0 0 ${wide} ${high}`, width: wide,
    height: high, role: "img", "aria-label": label },
  svgElement("polygon", { points: [`2,${high}`, ...points, `${x(last)},${high}`].join(" ") }),
  svgElement("polyline", { points: points.join(" ") }),
  svgElement("circle", { cx: x(last), cy: y(values[last]).toFixed(1), r: 2.6 }));
}

// ---- tables ----

// Columns: [title, class]; rows: [key, cells], a cell being a text, a node or a list of both. On
// narrow screens a row is a card, and each cell that says something says its column's title, too.
function table(label, columns, rows) {
  const head = box("tr", "", columns.map(([title, className]) => {
    const cell = element("th", className, title);
    cell.scope = "col";
    return cell;
  }));
  const body = rows.map(([key, cells]) => keyed(key, box("tr", "", cells.map((cell, i) => {
    const inside = box("div", "", cell);
    const isBlank = inside.textContent === "-";
    const made = box("td", `${columns[i][1]}${isBlank ? " blank" : ""}`.trim(), inside);
    made.dataset.label = columns[i][0];
    return made;
  }))));
  const made = box("table", "rows", box("thead", "", head), box("tbody", "", body));
  made.setAttribute("aria-label", label);
  const scroll = box("div", "scroll", made);
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", label);
  return scroll;
}

// A section with a title; `key` tells it apart from others of its view.
function section(key, title, ...inside) {
  return keyed(key, box("section", key, title ? element("h2", "", title) : null, ...inside));
}

// Facts, each a pair of name and value, in columns; null: not shown.
function facts(pairs) {
  return box("dl", "facts", pairs.filter(Boolean).map(([name, value]) =>
    box("div", "", element("dt", "", name), box("dd", "", value))));
}

// ---- words ----

function durationText(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const two = (value) => String(value).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
  const hours = Math.floor(whole / 3600);
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  return `${hours}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

// A moment, as this browser's clock has it.
function momentText(unix_ms) {
  const at = new Date(unix_ms);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

function counted(count, one, many) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many || `${one}s`}`;
}

// JSON has null for what is not finite.
const numberText = (value) => (value === null ? "-" : countText(value));

// A resource's name says whether it is counted in bytes.
const isBytes = (name) => name.endsWith(" bytes") || name === "bytes";
const amountText = (name, amount) => (isBytes(name) ? bytesText(amount) : countText(amount));
const resourceTitle = (name) => name.replace(/ bytes$/, "");
