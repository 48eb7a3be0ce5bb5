// The secret of the pages of this origin. The login page makes it, the daemon knows its digest with the session, and it
// goes with every request: a cookie goes to all ports of a name, what an origin keeps stays there.
const place = "palyra.page"; // as page/login.js has it

export function pageSecret(): string {
  return localStorage.getItem(place) ?? "";
}
