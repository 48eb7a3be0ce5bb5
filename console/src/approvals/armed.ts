import { useEffect, useState } from "react";

const reading = 700; // what is to be read is on the screen for so long before an answer can be given
const settling = 500; // after the first sign of a person: the press that was meant for another window is no answer

// touched reports whether an event is a person's, on this page: a pointer under which a window came up has not moved.
function touched(e: Event): boolean {
  return e.isTrusted && document.hasFocus() && (!(e instanceof MouseEvent) || e.type !== "mousemove" || e.movementX !== 0 || e.movementY !== 0);
}

const signs = ["mousemove", "pointerdown", "keydown", "wheel", "touchmove"];

// useArmed reports whether an answer can be given: what is asked has been on the screen for a moment, and since it came
// a person has touched this page while it had the focus. Losing the focus begins anew.
export function useArmed(): "reading" | "untouched" | "armed" {
  const [read, setRead] = useState(false);
  const [armed, setArmed] = useState(false);
  useEffect(() => {
    const t = setTimeout(() => setRead(true), reading);
    let later: ReturnType<typeof setTimeout> | undefined;
    const sign = (e: Event) => {
      if (later === undefined && touched(e)) {
        later = setTimeout(() => setArmed(true), settling);
      }
    };
    const away = () => {
      clearTimeout(later);
      later = undefined;
      setArmed(false);
    };
    for (const s of signs) {
      addEventListener(s, sign, { capture: true, passive: true });
    }
    addEventListener("blur", away);
    document.addEventListener("visibilitychange", away);
    return () => {
      clearTimeout(t);
      away();
      for (const s of signs) {
        removeEventListener(s, sign, { capture: true });
      }
      removeEventListener("blur", away);
      document.removeEventListener("visibilitychange", away);
    };
  }, []);
  return !read ? "reading" : armed ? "armed" : "untouched";
}
