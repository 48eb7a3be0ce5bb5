package main

import "slices"

// forTool reports whether a lease is for a tool: the one it names or, where it covers more than one
// plan, one of its list.
func forTool(t object, tool any) bool {
	list, _ := t["tools"].([]any)
	return t["tool"] == tool || t["plan_digest"] == nil && slices.Contains(list, tool)
}

// widened reports whether the terms of a lease are those of an answer of that width.
func widened(t object, widen any) bool {
	if widen == "read_root" {
		return t["read_root"] != nil && t["path_root"] == nil
	}
	return (widen == "path_root" || widen == "workspace") && t["path_root"] != nil && t["read_root"] == nil
}
