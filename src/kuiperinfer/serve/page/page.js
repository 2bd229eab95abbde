"use strict";
// The page: figures of the loaded models, asked for again and again while somebody looks, and pictures to try.

const REFRESH = 2000; // milliseconds
const [LEAST_PIXELS, MOST_PIXELS] = [800, 4096]; // of the longer side of what is drawn over a picture
const SMALL = 256; // a picture with less than half as many pixels a side is shown enlarged
const cards = new Map(); // "name version" -> its article
let token = "";
let wantsToken = false;

async function request(address, options = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  let response;
  try {
    response = await fetch(address, { ...options, headers });
  } catch {
    throw new Error("The server does not answer.");
  }
  if (response.status === 401) {
    wantsToken = true;
    document.getElementById("token-form").hidden = false;
  }
  if (!response.ok) {
    const content = await response.json().catch(() => ({}));
    throw new Error(content.error || `The server answered with status ${response.status}.`);
  }
  return response;
}

async function ask(address, options) {
  return (await request(address, options)).json();
}

function seconds(value) {
  if (value === undefined) return "–";
  return value >= 1 ? `${value.toFixed(2)} s` : `${(value * 1000).toFixed(value >= 0.1 ? 0 : 1)} ms`;
}

// ------------------------------------------------------------------------------------------- models

async function refresh() {
  const state = document.getElementById("state");
  try {
    const status = await ask("/status");
    const words = status.ready ? `ready, ${status.models.length} loaded` : "loading models…";
    state.textContent = `Version ${status.version} · ${words} · ${status.waiting} waiting`;
    show(status.models);
  } catch (error) {
    state.textContent = error.message;
  }
}

function show(models) {
  const keys = new Set(models.map((model) => `${model.name} ${model.version}`));
  for (const [key, card] of cards) {
    if (!keys.has(key)) { card.remove(); cards.delete(key); }
  }
  for (const model of models) {
    const key = `${model.name} ${model.version}`;
    if (!cards.has(key)) {
      cards.set(key, makeCard(model));
      document.getElementById("models").append(cards.get(key));
    }
    const figures = model.latency;
    const texts = { median: seconds(figures.median), p99: seconds(figures.p99), rate: figures.count ? figures.rate.toFixed(1) : "–" };
    for (const [name, text] of Object.entries(texts)) {
      cards.get(key).querySelector(`[data-figure="${name}"]`).textContent = text;
    }
  }
}

function makeCard(model) {
  const card = document.getElementById("model-template").content.firstElementChild.cloneNode(true);
  const version = document.createElement("small");
  version.textContent = ` version ${model.version}`;
  card.querySelector("h2").append(model.name, version);
  const rows = card.querySelector("tbody");
  for (const tensor of [...model.inputs, ...model.outputs]) {
    const row = rows.insertRow();
    for (const text of [tensor.name, tensor.datatype, tensor.shape.map((dim) => (dim < 0 ? "any" : dim)).join(" × ")]) {
      row.insertCell().textContent = text;
    }
  }
  if (model.job) preparePictures(card, model);
  return card;
}

// ------------------------------------------------------------------------------------------- pictures

function preparePictures(card, model) {
  card.querySelector(".try").hidden = false;
  const input = card.querySelector("input[type=file]");
  const drop = card.querySelector(".drop");
  const example = card.querySelector(".example");
  const address = `/pictures/${encodeURIComponent(model.name)}/versions/${encodeURIComponent(model.version)}`;

  const look = async (picture) => {
    example.disabled = true;
    try {
      const data = await picture();
      await showAnswer(card, data, await ask(address, { method: "POST", body: data }));
    } catch (error) {
      showMessage(card, error.message);
    } finally {
      example.disabled = false;
    }
  };
  input.addEventListener("change", () => {
    const file = input.files[0];
    if (file) look(async () => file);
    input.value = ""; // so that the same file can be chosen again
  });
  example.addEventListener("click", () => look(async () => (await fetch(`/page/example/${model.job}`)).blob()));
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    const file = event.dataTransfer.files[0];
    if (file) look(async () => file);
  });
}

function isDark(colour) { // "#rrggbb", by the weights of ITU-R BT.601
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}

function showMessage(card, text) {
  const message = card.querySelector(".message");
  message.textContent = text;
  message.hidden = false;
  card.querySelector("figure").hidden = true;
  card.querySelector(".results").replaceChildren();
}

async function showAnswer(card, data, answer) {
  card.querySelector(".message").hidden = true;
  const figure = card.querySelector("figure");
  const image = figure.querySelector("img");
  if (image.src.startsWith("blob:")) URL.revokeObjectURL(image.src);
  image.src = URL.createObjectURL(data);
  const known = await image.decode().then(() => true, () => false); // the server reads more formats than browsers do
  figure.querySelector(".stage").hidden = !known;
  const times = Math.floor(SMALL / Math.max(answer.width, answer.height));
  image.style.width = times > 1 ? `${times * answer.width}px` : "";
  image.classList.toggle("enlarged", times > 1);
  figure.querySelector("figcaption").textContent =
    `${answer.width} × ${answer.height} pixels, ${seconds(answer.seconds)}, of which the model took ${seconds(answer.model_seconds)}`;
  figure.hidden = false;
  await draw(figure.querySelector("canvas"), answer);
  const rows = answer.classes || answer.boxes || answer.areas;
  card.querySelector(".results").replaceChildren(...rows.map(resultRow));
  if (!rows.length) showNothing(card);
}

function showNothing(card) {
  const row = document.createElement("li");
  row.textContent = "Nothing was found.";
  card.querySelector(".results").append(row);
}

function resultRow(row) {
  const item = document.createElement("li");
  const [name, number, bar, filled] = ["b", "span", "div", "i"].map((tag) => document.createElement(tag));
  const share = row.probability ?? row.score ?? row.share;
  name.textContent = row.label;
  number.textContent = `${(share * 100).toFixed(1)} %`;
  bar.className = "bar";
  filled.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  if (row.colour) filled.style.background = row.colour;
  bar.append(filled);
  item.append(name, number, bar);
  return item;
}

// Boxes, in the picture's own pixels, or a mask.
async function draw(canvas, answer) {
  const longest = Math.max(answer.width, answer.height);
  const scale = Math.min(MOST_PIXELS, Math.max(LEAST_PIXELS, longest)) / longest; // there are limits to a canvas
  canvas.width = Math.round(answer.width * scale);
  canvas.height = Math.round(answer.height * scale);
  const pen = canvas.getContext("2d");
  if (answer.mask) {
    const mask = new Image();
    mask.src = answer.mask;
    await mask.decode();
    pen.imageSmoothingEnabled = false;
    pen.drawImage(mask, 0, 0, canvas.width, canvas.height);
  }
  const unit = (longest * scale) / (Math.max(canvas.clientWidth, canvas.clientHeight) || longest); // a pixel of the page
  pen.lineWidth = 2 * unit;
  pen.font = `${12 * unit}px system-ui, sans-serif`;
  pen.textBaseline = "top";
  for (const box of answer.boxes || []) {
    const [left, top, right, bottom] = box.box.map((value) => value * scale);
    pen.strokeStyle = pen.fillStyle = box.colour;
    pen.strokeRect(left, top, right - left, bottom - top);
    const text = `${box.label} ${(box.score * 100).toFixed(0)} %`;
    const above = top < 16 * unit ? top : top - 16 * unit; // the box, where there is room
    pen.fillRect(left, above, pen.measureText(text).width + 6 * unit, 16 * unit);
    pen.fillStyle = isDark(box.colour) ? "#fff" : "#000";
    pen.fillText(text, left + 3 * unit, above + 2 * unit);
  }
}

// a file that is dropped beside a zone must not take the page away
for (const what of ["dragover", "drop"]) window.addEventListener(what, (event) => event.preventDefault());

document.getElementById("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = document.getElementById("token").value;
  event.target.hidden = true;
  refresh();
});
// a link by itself would not show the token
for (const link of document.querySelectorAll("footer a")) {
  link.addEventListener("click", async (event) => {
    if (!wantsToken) return;
    event.preventDefault();
    const shown = document.getElementById("shown");
    try {
      shown.textContent = await (await request(link.href)).text();
    } catch (error) {
      shown.textContent = error.message;
    }
    shown.hidden = false;
    shown.scrollIntoView();
  });
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
setInterval(() => { if (!document.hidden) refresh(); }, REFRESH);
refresh();
