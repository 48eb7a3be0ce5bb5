package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// effectsShape lists the members of an attestation's effects.
const effectsShape = `created:i changed:i removed:i mode:i link:i bytes_was:i bytes_now:i list_sha256:s list_id?:s omitted?:i`

// verifyChanges checks a list of the paths that a run changed against the attestation: the digest
// is that of the list's bytes, and the counts are those of its lines. Of changes that the list
// leaves out, only the number is known.
func verifyChanges(list []byte, p object) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	attested, _ := p["changes"].(object)
	must(attested != nil, "the attestation knows of no changes")
	must(sum(list) == attested["list_sha256"], "the list of changes is not the attested one")
	must(len(list) == 0 || list[len(list)-1] == '\n', "the list of changes is cut off")
	counts, total := map[string]int64{}, int64(0)
	for line := range bytes.SplitSeq(bytes.TrimSuffix(list, []byte("\n")), []byte("\n")) {
		if len(list) == 0 {
			break
		}
		c := object{}
		must(reread(line, &c) != nil, "a line of the list of changes is not JSON")
		was, now := state(c["was"]), state(c["now"])
		must(str(c, "path") != "" && c["change"] == kindOf(was, now), "a line of the list of changes is no change")
		counts[str(c, "change")]++
		counts["bytes_was"] += number(was["size"])
		counts["bytes_now"] += number(now["size"])
		total++
	}
	omitted := number(attested["omitted"])
	for _, name := range []string{"created", "changed", "removed", "mode", "link", "bytes_was", "bytes_now"} {
		most := number(attested[name])
		must(counts[name] == most || omitted > 0 && counts[name] < most, name+" of the list of changes is not the attested one")
	}
	for _, name := range []string{"created", "changed", "removed", "mode", "link"} {
		omitted -= number(attested[name])
	}
	must(total+omitted == 0, "the list of changes has more or fewer lines than were counted")
	return nil
}

// state is one side of a change; nil: nothing was there.
func state(v any) object {
	s, ok := v.(object)
	must(ok || v == nil, "a line of the list of changes is no change")
	return s
}

// kindOf returns the kind of change.
func kindOf(was, now object) string {
	switch {
	case was == nil && now == nil:
		return ""
	case was == nil:
		return "created"
	case now == nil:
		return "removed"
	case was["kind"] == "link" || now["kind"] == "link":
		return "link"
	}
	same := object{}
	for k, v := range was {
		same[k] = v
	}
	same["mode"] = now["mode"]
	unread := was["kind"] == "file" && was["sha256"] == nil // without a digest it is not known whether the content is the same
	if reflect.DeepEqual(same, now) && !unread {
		return "mode"
	}
	return "changed"
}

// number is a whole number of a JSON text; 0 when it is missing.
func number(v any) int64 {
	if v == nil {
		return 0
	}
	n, ok := v.(json.Number)
	must(ok, "a number is none")
	i, err := n.Int64()
	must(err == nil && i >= 0, "a number is none")
	return i
}

var errNoAttestation = errors.New("--changes goes with an attestation, or an outcome with one")

// outcome compares the outcome that the agent got with the signed one.
func outcome(text, envelope []byte, p object) {
	o := object{}
	must(reread(text, &o) != nil && sum(bytes.TrimSuffix(text, envelope)) == p["outcome_sha256"], "the outcome is not the one that was signed")
	for _, name := range []string{
		"outcome", "tool", "call_id", "session_id", "grant_id", "plan_digest", "exit_code", "signal", "effects",
		"changes",
	} {
		must(reflect.DeepEqual(o[name], p[name]), name+" is not the attested one")
	}
	d, _ := p["decision"].(object)
	must(o["journal_position"] == p["granted"].(object)["seq"], "journal_position is not the attested one")
	must(o["approval_id"] == str(d, "approval_id") || d["reused"] == true && o["approval_id"] == "", "approval_id is not the attested one")
	for _, name := range []string{"stdout", "stderr"} {
		must(o[name] == "" || o[name+"_b64"] == "", name+" stands twice")
		b := append([]byte(str(o, name)), unbase64(str(o, name+"_b64"))...)
		must(o["truncated"] == true || sum(b) == p[name+"_digest"], name+" is not the attested one")
	}
}
