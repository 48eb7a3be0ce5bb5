// The service worker of the console, and the one script's address that a page of it makes (Trusted Types).
const worker = "/sw.js";

// Factory is the part of Trusted Types that is used here; not every browser has them.
interface Factory {
  createPolicy(name: string, rules: { createScriptURL(s: string): string }): { createScriptURL(s: string): unknown };
}

const addresses = (window as { trustedTypes?: Factory }).trustedTypes?.createPolicy("worker", {
  createScriptURL: (s: string) => {
    if (s !== worker) {
      throw new TypeError("no other worker");
    }
    return s;
  },
});

export async function registered(): Promise<ServiceWorkerRegistration> {
  await navigator.serviceWorker.register((addresses?.createScriptURL(worker) ?? worker) as string);
  return navigator.serviceWorker.ready;
}
