import { type ReactNode, useSyncExternalStore } from "react";
import { Approvals } from "./approvals/page";
import { useFeed } from "./approvals/feed";
import { Pairing } from "./device/pairing";
import { may, useRights } from "./device/rights";
import { Notices } from "./notices/notices";
import { sections } from "./sections/all";
import { Text } from "./ui/text";

// usePlace is where the address points: a section and what is chosen in it.
function usePlace(): [string, string | undefined] {
  const hash = useSyncExternalStore(
    (f) => {
      addEventListener("hashchange", f);
      return () => removeEventListener("hashchange", f);
    },
    () => location.hash,
  );
  const [, name, rest] = hash.split("/");
  return [name || "approvals", rest ? decodeURIComponent(rest) : undefined];
}

export function App() {
  const [name, id] = usePlace();
  const feed = useFeed();
  const rights = useRights();
  if (feed.signedOut) {
    return (
      <main className="alone">
        <h1>Palyra</h1>
        <p>
          This browser is not signed in any more. Run <code>palyra console</code> in a terminal and open the link that it prints.
        </p>
      </main>
    );
  }
  const section = sections.find((s) => s.name === name);
  const page: ReactNode = section ? <section.Page id={id} /> : <Approvals id={id} />;
  const here = section?.name ?? "approvals";
  return (
    <>
      <a className="skip" href="#main">
        To the content
      </a>
      <header>
        <a className="brand" href="#/approvals">
          Palyra
        </a>
        <nav aria-label="Sections">
          <a href="#/approvals" aria-current={here === "approvals" ? "page" : undefined}>
            Approvals{feed.pending.length > 0 && <span className="count">{feed.pending.length}</span>}
          </a>
          {sections.filter((s) => may(rights, s.needs)).map((s) => (
            <a key={s.name} href={`#/${s.name}`} aria-current={here === s.name ? "page" : undefined}>
              {s.title}
            </a>
          ))}
        </nav>
        <span className={feed.live ? "live on" : "live"} role="status">
          {feed.live ? "live" : "reconnecting…"}
        </span>
        <Notices />
        <form method="post" action="/logout">
          <button type="submit">Sign out</button>
        </form>
      </header>
      {!feed.live && feed.problem && (
        <p className="note warn">
          <Text of={feed.problem.message} />: <Text of={feed.problem.remedy} />
        </p>
      )}
      <Pairing />
      <main id="main" tabIndex={-1}>
        {page}
      </main>
    </>
  );
}
