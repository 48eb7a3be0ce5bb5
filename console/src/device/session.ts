// A paired browser whose session is over, by time or because the daemon began anew, signs itself in with its key.
import { accesses } from "../rpc";
import { ownKey } from "./key";
import { pageSecret } from "./page";

export async function signInAgain(): Promise<boolean> {
  if (!(await ownKey())) {
    return false;
  }
  try {
    const { url } = await accesses.openConsole({});
    const code = new URL(url).searchParams.get("code") ?? "";
    await fetch("/login", {
      method: "POST",
      credentials: "same-origin",
      redirect: "manual", // the answer leads to a page; what counts is the cookie
      body: new URLSearchParams({ code, page: pageSecret() }),
    });
    return true;
  } catch {
    return false;
  }
}
