import type { FunctionComponent } from "react";

// Section is a page beside the approvals.
export interface Section {
  name: string;
  title: string;
  Page: FunctionComponent<{ id?: string }>;
}

// sections are all of them, in the order of the navigation.
export const sections: readonly Section[] = [];
