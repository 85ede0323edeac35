"use strict";

// All that comes from the job gets into the page as text or onto a canvas, never as HTML.

const palette = JSON.parse(document.getElementById("palette").textContent);
const isDark = window.matchMedia("(prefers-color-scheme: dark)");

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Puts `text` into an element, in which names of fields and modes may be broken at their joints:
// "push.|codec=|FP16", "sync|+ranks=|4". Numbers are not.
function addBreakable(made, text) {
  const joints = /(?<=[=_])|(?=\+[a-z])|(?<=[a-z]\.)(?=[a-z])/i;
  for (const piece of text.split(joints)) made.append(piece, document.createElement("wbr"));
  return made;
}

function breakable(tag, className, text) {
  return addBreakable(element(tag, className), text);
}

// A mode's or point's name: `settings`, if there are any, stand beneath.
function nameOf(index, name, settings) {
  const box = element("span", "mode-name");
  const line = element("span", "short");
  line.append(swatch(index), name);
  box.append(line);
  for (const setting of settings) box.append(breakable("small", "setting", setting));
  return box;
}

// Below each box that scrolls sideways now stands that it does.
function hintScrolls() {
  for (const box of document.querySelectorAll(".scroll")) {
    let hint = box.nextElementSibling;
    if (!hint || !hint.classList.contains("hint")) {
      hint = element("p", "hint", "The table goes on to the right: scroll it sideways →");
      box.after(hint);
    }
    hint.hidden = box.scrollWidth <= box.clientWidth + 1;
  }
}
function fill(id, children) {
  document.getElementById(id).replaceChildren(...children);
}

function styleOf(index) {
  const colours = isDark.matches ? palette.dark : palette.light;
  return {
    colour: colours[index % colours.length],
    dash: palette.dashes[(index + Math.floor(index / colours.length)) % palette.dashes.length],
    point: ["circle", "triangle", "rect", "rectRot", "crossRot", "star"][index % 6],
  };
}

// A piece of the mode's line.
function swatch(index) {
  const canvas = element("canvas", "swatch");
  const ratio = 2;
  canvas.width = 26 * ratio;
  canvas.height = 12 * ratio;
  canvas.style.width = "26px";
  canvas.style.height = "12px";
  const style = styleOf(index);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.strokeStyle = context.fillStyle = style.colour;
  context.lineWidth = 2.5;
  context.setLineDash(style.dash);
  context.beginPath();
  context.moveTo(0, 6);
  context.lineTo(26, 6);
  context.stroke();
  context.setLineDash([]);
  Chart.helpers.drawPoint(context, { pointStyle: style.point, radius: 4, borderWidth: 2 }, 13, 6);
  return canvas;
}

// ---- charts ----

// Each draws one canvas anew; `charts` holds what is there.
const charts = {};

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { text: of("--text"), muted: of("--muted"), line: of("--line"), card: of("--card") };
}

function translucent(colour, alpha) {
  const part = (at) => parseInt(colour.slice(at, at + 2), 16);
  return `rgba(${part(1)}, ${part(3)}, ${part(5)}, ${alpha})`;
}

function axis(title, format, more) {
  const { text, muted, line } = colours();
  return {
    title: { display: Boolean(title), text: title, color: muted },
    ticks: { color: text, callback: (value) => format(value), maxRotation: 0, autoSkipPadding: 14 },
    grid: { color: line, borderColor: muted },
    ...more,
  };
}

function draw(id, label, config) {
  if (charts[id]) charts[id].destroy();
  const canvas = document.getElementById(id);
  canvas.setAttribute("aria-label", label);
  config.options = {
    responsive: true,
    maintainAspectRatio: false,
    animation: false,
    ...config.options,
  };
  config.options.plugins = { legend: { display: false }, ...config.options.plugins };
  charts[id] = new Chart(canvas, config);
}

// A comparison that still runs writes its page again after each run.
const RELOAD_MS = 10000;

function showUnderWay() {
  const box = document.getElementById("under-way");
  box.textContent = report.under_way ? `So far: ${report.under_way}.` : "";
  box.hidden = !report.under_way;
  if (report.under_way) setTimeout(() => location.reload(), RELOAD_MS);
}
