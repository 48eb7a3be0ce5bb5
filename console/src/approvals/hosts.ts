// Hosts that are no public addresses: this machine, and those of its neighbourhood. As internal/cli/question has it.

// hostOf takes the port off.
function hostOf(hostPort: string): string {
  const bracket = /^\[(.*)\]:\d*$/.exec(hostPort);
  if (bracket) {
    return bracket[1] ?? "";
  }
  const at = hostPort.indexOf(":");
  return at >= 0 && at === hostPort.lastIndexOf(":") ? hostPort.slice(0, at) : hostPort;
}

// four reads an IPv4 address, as one number.
function four(s: string): number | undefined {
  const parts = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(s)?.slice(1);
  if (!parts || parts.some((p) => Number(p) > 255 || (p.length > 1 && p.startsWith("0")))) {
    return undefined;
  }
  return parts.reduce((n, p) => n * 256 + Number(p), 0);
}

const within = (n: number, net: string, bits: number) => Math.floor(n / 2 ** (32 - bits)) === Math.floor((four(net) ?? 0) / 2 ** (32 - bits));

const nets: readonly [string, number][] = [["10.0.0.0", 8], ["172.16.0.0", 12], ["192.168.0.0", 16], ["127.0.0.0", 8], ["169.254.0.0", 16], ["224.0.0.0", 4]];

// six reads an IPv6 address, as eight numbers.
function six(s: string): number[] | undefined {
  try {
    const [, inner = ""] = /^\[(.*)\]$/.exec(new URL(`http://[${s.replace(/%.*$/, "")}]/`).hostname) ?? [];
    const [left = "", right] = inner.split("::");
    const words = (t: string) => (t ? t.split(":").map((w) => Number.parseInt(w, 16)) : []);
    const [a, b] = [words(left), words(right ?? "")];
    return right === undefined ? a : [...a, ...Array<number>(8 - a.length - b.length).fill(0), ...b];
  } catch {
    return undefined;
  }
}

// notPublic reports whether a host of a plan is an address that is not public.
export function notPublic(hostPort: string): boolean {
  const host = hostOf(hostPort);
  if (host === "localhost" || host.endsWith(".localhost")) {
    return true;
  }
  let n = four(host);
  const words = n === undefined && host.includes(":") ? six(host) : undefined;
  if (words) {
    const [first = 0] = words;
    if (words.slice(0, 5).every((w) => w === 0) && words[5] === 0xffff) {
      n = (words[6] ?? 0) * 65536 + (words[7] ?? 0);
    } else {
      const small = words.slice(0, 7).every((w) => w === 0) && (words[7] ?? 0) <= 1;
      return small || (first & 0xfe00) === 0xfc00 || (first & 0xffc0) === 0xfe80 || (first & 0xff00) === 0xff00;
    }
  }
  return n !== undefined && (n === 0 || nets.some(([net, bits]) => within(n, net, bits)));
}
