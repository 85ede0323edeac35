"use strict";

// Figures as text, as in the terminal's table.

function threeDigits(value) {
  const size = Math.abs(value);
  if (size > 0 && size < 0.0995) return `${+value.toPrecision(3)}`;
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

function percentText(share, digits) {
  const percent = share * 100;
  return `${digits === undefined ? +percent.toPrecision(4) : percent.toFixed(digits)} %`;
}

function pointsText(difference) {
  const points = (difference * 100).toFixed(2);
  return `${difference >= 0 || points === "-0.00" ? "+" : ""}${points.replace("-0.00", "0.00")}`;
}

// Writes a difference between two values of a metric, whose format is this one of FORMATS.
function differenceText(difference, format) {
  if (format === "percent") return pointsText(difference);
  return `${difference >= 0 ? "+" : ""}${+difference.toPrecision(3)}`;
}

function ratioText(ratio) {
  return `${ratio < 10 ? ratio.toFixed(2) : threeDigits(ratio)} ×`;
}

function secondsText(seconds) {
  return `${threeDigits(seconds)} s`;
}

function withPrefix(value, unit) {
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let power = 0;
  while (power < 5 && Math.abs(value) >= 999.5) {
    value /= 1000;
    ++power;
  }
  const digits = power === 0 ? `${+value.toPrecision(3)}` : `${+threeDigits(value)}`;
  return `${digits} ${prefixes[power]}${unit}`.trim();
}

function countText(count) {
  return withPrefix(count, "");
}

function bytesText(bytes) {
  return withPrefix(bytes, "B");
}

// "88.13 % (87.90 to 88.36)" or "88.13 % (2 seeds)": what is in brackets apart.
function splitCell(text) {
  const split = /^(.*) \(([^()]* to [^()]*|\d+ seeds?)\)$/.exec(text);
  return split ? [split[1], split[2]] : [text, ""];
}

// Numbers of an axis, by the name that report_charts.h gives their format.
const FORMATS = {
  count: countText,
  bytes: bytesText,
  seconds: (value) => `${+value.toPrecision(3)}`,
  percent: percentText,
  plain: (value) => `${+value.toPrecision(4)}`,
};
