package main

import (
	"bytes"
	"strings"
)

// A browser that was paired over plain HTTP has a key that anybody on the way may have: it denies, and signs nothing
// else, for ever. Its pairing tells it from others, by where it was paired.

// denier holds the keys of such browsers that a journal told of, and where other keys signed something else than a deny: no
// key may have done so before it is told that it is one of them. Both go by the key itself and by its id.
type denier struct{ only, others map[string]string }

func newDenier() denier { return denier{map[string]string{}, map[string]string{}} }

const denyOnly = "it is signed by the key of a browser that was paired over plain HTTP, which only denies"

// hear takes in an entry. A journal in which such a key signed anything but a deny says nothing that holds.
func (d denier) hear(entry object) {
	body, _ := entry["body"].(object)
	seq := str(entry, "seq")
	if entry["kind"] == "device.paired" {
		device, _ := body["device"].(object)
		scheme, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(str(device, "address"))), "://")
		if scheme == "http" {
			for _, name := range keyNames(str(device, "public_key"), str(device, "key_id")) {
				before := d.others[name]
				must(before == "", "entry "+before+" has an invalid decision: "+denyOnly+" (entry "+seq+")")
				d.only[name] = seq
			}
		}
	}
	d.look(body, seq)
}

// keyNames are what a key goes by: its bytes, in whatever form they are written, and its id.
func keyNames(public, id string) (names []string) {
	pkix := []byte("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00") // of an Ed25519 key
	if key := bytes.TrimPrefix(unbase64(public), pkix); len(key) > 0 {
		names = append(names, "key "+string(key))
	}
	if id != "" {
		names = append(names, "id "+id)
	}
	return names
}

// look goes through all that an entry holds, at any depth: answers stand in lists, too.
func (d denier) look(v any, seq string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			d.look(item, seq)
		}
	case object:
		if s, ok := v["signature"].(object); ok {
			d.signed(v, s, seq)
		}
		votes, _ := v["votes"].([]any)
		for _, item := range votes { // what they settled is no more than they are
			vote, _ := item.(object)
			s, _ := vote["signature"].(object)
			must(str(v, "answer") == "deny" || !d.plain(s), "entry "+seq+" has an invalid decision: "+denyOnly)
		}
		for _, item := range v {
			d.look(item, seq)
		}
	}
}

// plain reports whether a signature is by the key of such a browser.
func (d denier) plain(s object) bool {
	for _, name := range signer(s) {
		if d.only[name] != "" {
			return true
		}
	}
	return false
}

func (d denier) signed(what, s object, seq string) {
	switch {
	case denies(what, s):
	case d.plain(s):
		must(false, "entry "+seq+" has an invalid decision: "+denyOnly)
	default:
		for _, name := range signer(s) {
			if d.others[name] == "" {
				d.others[name] = seq
			}
		}
	}
}

func signer(s object) []string {
	intent, _ := s["intent"].(object)
	return keyNames(str(s, "public_key"), str(intent, "key_id"))
}

// denies reports whether a signed answer is a deny: as it is told, and as it was signed.
func denies(answer, s object) bool {
	intent, _ := s["intent"].(object)
	fields, _ := s["fields"].(object)
	return answer["answer"] == "deny" && fields["answer"] == "deny" &&
		intent["method"] == "palyra.v1.ApprovalsService/DecideApproval" &&
		intent["body"] == sum(canon([]byte("palyra/intent-body/v1\x00"), fields))
}
