// The console's service worker. It keeps nothing, fetches nothing and shows nothing by itself; it only leads whoever presses a
// notice to the question that the notice is about. A notice has nothing to decide with.
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
