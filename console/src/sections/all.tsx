import type { FunctionComponent } from "react";
import { Changes } from "./changes";
import { Journal } from "./journal";
import { Leases } from "./leases";
import { Posture, Status, Vault } from "./machine";
import { Access, Agents, Devices } from "./people";
import { Policy } from "./policy";
import { Runs } from "./runs";

// Section is a page beside the approvals.
export interface Section {
  name: string;
  title: string;
  Page: FunctionComponent<{ id?: string }>;
}

// sections are all of them, in the order of the navigation.
export const sections: readonly Section[] = [
  { name: "runs", title: "Runs", Page: Runs },
  { name: "changes", title: "Changes", Page: Changes },
  { name: "leases", title: "Leases", Page: Leases },
  { name: "policy", title: "Policy", Page: Policy },
  { name: "journal", title: "Journal", Page: Journal },
  { name: "vault", title: "Vault", Page: Vault },
  { name: "devices", title: "Devices", Page: Devices },
  { name: "access", title: "Access", Page: Access },
  { name: "agents", title: "Agents", Page: Agents },
  { name: "posture", title: "Posture", Page: Posture },
  { name: "status", title: "Status", Page: Status },
];
