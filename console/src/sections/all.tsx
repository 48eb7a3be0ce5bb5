import type { DescMethod } from "@bufbuild/protobuf";
import type { FunctionComponent } from "react";
import { AccessService } from "../gen/palyra/v1/access_pb";
import { ApprovalsService } from "../gen/palyra/v1/approvals_pb";
import { ChangeService } from "../gen/palyra/v1/change_pb";
import { DeviceService } from "../gen/palyra/v1/device_pb";
import { JournalService } from "../gen/palyra/v1/journal_pb";
import { PolicyService } from "../gen/palyra/v1/policy_pb";
import { SandboxService } from "../gen/palyra/v1/sandbox_pb";
import { StatusService } from "../gen/palyra/v1/status_pb";
import { ToolService } from "../gen/palyra/v1/tool_pb";
import { VaultService } from "../gen/palyra/v1/vault_pb";
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
  needs: DescMethod; // what it asks first: who may not is not led there
  Page: FunctionComponent<{ id?: string }>;
}

// sections are all of them, in the order of the navigation.
export const sections: readonly Section[] = [
  { name: "runs", title: "Runs", needs: ToolService.method.listCalls, Page: Runs },
  { name: "changes", title: "Changes", needs: ChangeService.method.listUndo, Page: Changes },
  { name: "leases", title: "Leases", needs: ApprovalsService.method.listGrants, Page: Leases },
  { name: "policy", title: "Policy", needs: PolicyService.method.getPolicy, Page: Policy },
  { name: "journal", title: "Journal", needs: JournalService.method.getHead, Page: Journal },
  { name: "vault", title: "Vault", needs: VaultService.method.getVaultStatus, Page: Vault },
  { name: "devices", title: "Devices", needs: DeviceService.method.listDevices, Page: Devices },
  { name: "access", title: "Access", needs: AccessService.method.whoAmI, Page: Access },
  { name: "agents", title: "Agents", needs: AccessService.method.listAgents, Page: Agents },
  { name: "posture", title: "Posture", needs: SandboxService.method.getPosture, Page: Posture },
  { name: "status", title: "Status", needs: StatusService.method.getStatus, Page: Status },
];
