package main

import "encoding/json"

// Calls that were judged and not held are told apart from those that passed the gate.

// observed reports whether an outcome says of itself that its call was not held.
func observed(text []byte) bool {
	var o struct {
		Outcome string `json:"outcome"`
	}
	return json.Unmarshal(text, &o) == nil && o.Outcome == "observed"
}

// watch tells calls that were held from those that were only observed.
type watch struct {
	ends map[string]string // what is said of a call: observed, or that it passed the gate
	n    int64
}

// hear takes in an entry. The journal that says both of one call says nothing that holds.
func (w *watch) hear(entry object) {
	id, kind := str(entry, "call_id"), str(entry, "kind")
	switch kind {
	case "call.observed":
		w.n++
	case "call.granted", "call.finished", "call.checked":
		kind = "gated"
	default:
		return
	}
	was := w.ends[id]
	must(was == "" || was == kind, "one call is said to have been held, and to have been observed only")
	w.ends[id] = kind
}

// observed is how many calls were only observed; nil where there is none.
func (w *watch) observed() any {
	if w.n == 0 {
		return nil
	}
	return w.n
}
