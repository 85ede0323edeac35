"use strict";

// The data of a page in one file, as C++ wrote it.
const report = JSON.parse(document.getElementById("data").textContent);
