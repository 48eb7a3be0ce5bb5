// What the person at this browser may do: their role, as far as the key of this browser may use it. The daemon decides; this
// only keeps the page from offering what would be refused.
import { type DescMethod, getOption, hasOption } from "@bufbuild/protobuf";
import { useQuery } from "@tanstack/react-query";
import { access } from "../gen/palyra/v1/option_pb";
import { accesses, devices } from "../rpc";
import { onlyDenies } from "./beyond";
import { usePaired } from "./pairing";

export interface Rights {
  principal: string;
  role: string; // of the person, or of the key where that is less
  looks: ReadonlySet<string>; // without a signature
  signs: ReadonlySet<string>; // with one
}

async function ask(device: string | undefined): Promise<Rights> {
  const [{ me }, { roles }, key] = await Promise.all([
    accesses.whoAmI({}),
    accesses.listRoles({}),
    device ? devices.getDevice({ device }) : undefined,
  ]);
  const of = (role?: string) => new Set(roles.find((r) => r.role === role)?.permissions ?? []);
  const own = of(me?.role);
  const most = key?.device?.role;
  const held = most ? [...of(most)].filter((p) => own.has(p)) : [];
  const signs = new Set(onlyDenies ? held.filter((p) => p === "approvals.decide") : held);
  return { principal: me?.principal ?? "", role: most && held.length < own.size ? most : (me?.role ?? ""), looks: new Set(me?.permissions), signs };
}

// useRights is undefined as long as the daemon has not said.
export function useRights(): Rights | undefined {
  const paired = usePaired();
  return useQuery({
    queryKey: ["rights", paired?.device],
    enabled: paired !== undefined,
    queryFn: () => ask(paired?.device),
    staleTime: 30_000,
  }).data;
}

// may reports whether a method is open to a person; to one of whom nothing is known yet it is.
export function may(r: Rights | undefined, m: DescMethod): boolean {
  if (!r || !hasOption(m, access)) {
    return true;
  }
  const { permission, signed } = getOption(m, access);
  return (signed ? r.signs : r.looks).has(permission);
}
