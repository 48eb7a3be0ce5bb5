package main

import "strings"

// A browser that was paired over plain HTTP has a key that anybody on the way may have: it denies, and signs nothing
// else, for ever. Its pairing tells it from others, by where it was paired.

// denier holds the keys of such browsers that a journal told of.
type denier map[string]bool

// hear takes in an entry. A journal in which such a key signed anything but a deny says nothing that holds.
func (d denier) hear(entry object) {
	body, _ := entry["body"].(object)
	if entry["kind"] == "device.paired" {
		if device, _ := body["device"].(object); strings.HasPrefix(str(device, "address"), "http://") {
			d[string(unbase64(str(device, "public_key")))] = true
		}
	}
	if len(d) > 0 {
		d.look(body, str(entry, "seq"))
	}
}

// look goes through all that an entry holds, at any depth: answers stand in lists, too.
func (d denier) look(v any, seq string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			d.look(item, seq)
		}
	case object:
		s, _ := v["signature"].(object)
		if pub := str(s, "public_key"); pub != "" && d[string(unbase64(pub))] {
			must(denies(v, s), "entry "+seq+" has an invalid decision: "+
				"it is signed by the key of a browser that was paired over plain HTTP, which only denies")
		}
		for _, item := range v {
			d.look(item, seq)
		}
	}
}

// denies reports whether a signed answer is a deny: as it is told, and as it was signed.
func denies(answer, s object) bool {
	intent, _ := s["intent"].(object)
	fields, _ := s["fields"].(object)
	return answer["answer"] == "deny" && fields["answer"] == "deny" &&
		intent["method"] == "palyra.v1.ApprovalsService/DecideApproval" &&
		intent["body"] == sum(canon([]byte("palyra/intent-body/v1\x00"), fields))
}
