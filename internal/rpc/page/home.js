"use strict";
const rows = [
  ["Version", "version"], ["State", "stateId"], ["Started", "startedAt"], ["Journal entries", "journalSize"],
  ["Waiting for an answer", "pendingApprovals"], ["Running", "runningCalls"], ["Approver separation", "approverSeparation"],
  ["Devices come in at", "remoteAddress"],
];
async function show() {
  const state = document.getElementById("state");
  try {
    const res = await fetch("/palyra.v1.StatusService/GetStatus", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: "{}", credentials: "same-origin",
    });
    const body = await res.json();
    if (!res.ok) {
      throw new Error(body.message || res.statusText);
    }
    const facts = document.getElementById("facts");
    facts.replaceChildren();
    for (const [label, key] of rows) {
      const dt = document.createElement("dt");
      const dd = document.createElement("dd");
      dt.textContent = label;
      dd.textContent = body.status[key] ?? "–";
      facts.append(dt, dd);
    }
    state.textContent = "The daemon serves.";
  } catch (e) {
    state.textContent = "The daemon did not answer: " + e.message;
  }
}
show();
setInterval(show, 5000);
