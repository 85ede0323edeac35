"use strict";

// What a page in one file says, in C++'s words.
const report = JSON.parse(document.getElementById("data").textContent);
