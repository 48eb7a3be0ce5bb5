// The console's service worker. It keeps nothing and fetches nothing. It leads whoever presses a notice to the question that the
// notice is about, and says that a question waits when the browser's push service brings that. A notice has nothing to decide with.
self.addEventListener("notificationclick", (e) => {
  e.notification.close();
  const id = String(e.notification.data ?? "");
  e.waitUntil(
    clients.matchAll({ type: "window", includeUncontrolled: true }).then(async (pages) => {
      const [page] = pages;
      if (!page) {
        await clients.openWindow(`/#/approvals/${encodeURIComponent(id)}`);
        return;
      }
      page.postMessage({ approval: id });
      await page.focus();
    }),
  );
});

const risks = ["low", "medium", "high", "critical"];

// said is what a message comes to. Whatever is not a number and a known word is not shown.
function said(data) {
  let m = {};
  try {
    m = data?.json() ?? {};
  } catch {
    // it says nothing
  }
  const count = Number.isInteger(m.waiting) && m.waiting > 0 && m.waiting < 100000 ? m.waiting : 0;
  const risk = risks.includes(m.risk) ? ` The highest risk is ${m.risk}.` : "";
  return count === 0 ? "A question waits." : `${count === 1 ? "1 question waits." : `${count} questions wait.`}${risk}`;
}

self.addEventListener("push", (e) => {
  e.waitUntil(
    self.registration.showNotification("Palyra: an answer is waited for", {
      tag: "push",
      renotify: true,
      body: said(e.data),
      data: "",
      icon: "/icon-192.png",
    }),
  );
});
