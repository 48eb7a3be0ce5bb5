package main

import (
	"fmt"
	"slices"
	"strings"
)

// forTool reports whether a lease is for a tool: the one it names or, where it covers more than one
// plan, one of its list.
func forTool(t object, tool any) bool {
	list, _ := t["tools"].([]any)
	return t["tool"] == tool || t["plan_digest"] == nil && slices.Contains(list, tool)
}

// many reports whether the terms of a lease name no plan, and what they are for instead.
func many(t object) bool {
	return t["plan_digest"] == nil &&
		(t["path_root"] != nil || t["read_root"] != nil || t["group"] != nil || t["pages"] == true || t["branch"] != nil || t["remote"] != nil)
}

// widened reports whether the terms of a lease are those of an answer of that width.
func widened(t object, widen any) bool {
	if widen == "read_root" {
		return t["read_root"] != nil && t["path_root"] == nil
	}
	if widen == "host" {
		return t["pages"] == true && t["path_root"] == nil && t["read_root"] == nil && t["group"] == nil && t["branch"] == nil
	}
	if widen == "branch" {
		return t["branch"] != nil && t["signer"] != nil && t["remote"] == nil && t["path_root"] == nil &&
			t["read_root"] == nil && t["group"] == nil && t["pages"] == nil
	}
	if widen == "remote" || widen == "push" {
		return t["remote"] != nil && t["host_key"] != nil && t["signer"] != nil && (t["branch"] != nil) == (widen == "push") &&
			t["path_root"] == nil && t["read_root"] == nil && t["group"] == nil && t["pages"] == nil
	}
	if t["group"] != nil {
		return t["path_root"] == nil && t["read_root"] == nil && widen == "group:"+str(t, "group")+":"+str(t, "group_digest") && sameGroup(t)
	}
	return (widen == "path_root" || widen == "workspace") && t["path_root"] != nil && t["read_root"] == nil
}

// sameGroup reports whether the hosts of a lease are those that its group had by its digest.
func sameGroup(t object) bool {
	var hosts []string
	list, _ := t["hosts"].([]any)
	for _, h := range list {
		hosts = append(hosts, fmt.Sprint(h))
	}
	text := "palyra/host-group/v1\x00" + str(t, "group") + "\n" + strings.Join(hosts, "\n")
	return slices.IsSorted(hosts) && sum([]byte(text)) == t["group_digest"]
}
