package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// A list of changes is the attested one or none, and what its lines say is what was counted.
func TestChanges(t *testing.T) {
	file := func(mode, size, digest string) string {
		if digest != "" {
			digest = `,"sha256":"sha256:` + digest + `"`
		}
		return `{"kind":"file","mode":` + mode + `,"size":` + size + digest + `}`
	}
	lines := []string{
		`{"path":"a","change":"mode","was":` + file("420", "3", "aa") + `,"now":` + file("384", "3", "aa") + `}`,
		`{"path":"b","change":"changed","was":` + file("420", "9", "") + `,"now":` + file("420", "9", "") + `}`, // beyond what is read
		`{"path":"s","change":"removed","was":{"kind":"socket","mode":493,"size":0}}`,
		`{"path":"n","change":"created","now":` + file("420", "5", "bb") + `}`,
	}
	attest := func(list, counts string) object {
		p, text := object{}, `{"changes":{`+counts+`,"link":0,"list_sha256":"`+sum([]byte(list))+`"}}`
		if reread([]byte(text), &p) == nil {
			t.Fatal(text)
		}
		return p
	}
	const counted = `"created":1,"changed":1,"removed":1,"mode":1,"bytes_was":12,"bytes_now":17`
	whole := strings.Join(lines, "\n") + "\n"
	if err := verifyChanges([]byte(whole), attest(whole, counted)); err != nil {
		t.Fatal(err)
	}
	few := lines[0] + "\n"
	if err := verifyChanges([]byte(few), attest(few, counted+`,"omitted":3`)); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct{ list, counts string }{
		"fewer lines":    {few, counted},
		"another count":  {whole, strings.Replace(counted, `"created":1`, `"created":2`, 1)},
		"other bytes":    {whole, strings.Replace(counted, `"bytes_now":17`, `"bytes_now":18`, 1)},
		"cut off":        {strings.TrimSuffix(whole, "\n"), counted},
		"no path":        {strings.Replace(whole, `"path":"a"`, `"path":""`, 1), counted},
		"another kind":   {strings.Replace(whole, `"change":"mode"`, `"change":"changed"`, 1), counted},
		"no change":      {`{"path":"a","change":"mode"}` + "\n", `"created":0,"changed":0,"removed":0,"mode":1,"bytes_was":0,"bytes_now":0`},
		"not JSON":       {"x\n", counted},
		"below nothing":  {strings.Replace(whole, `"size":5`, `"size":-5`, 1), counted},
		"a side is text": {strings.Replace(whole, `"was":{"kind":"socket","mode":493,"size":0}`, `"was":"x"`, 1), counted},
	} {
		if err := verifyChanges([]byte(c.list), attest(c.list, c.counts)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := verifyChanges([]byte(few), attest(whole, counted)); err == nil {
		t.Error("another list is taken")
	}
	if err := verifyChanges([]byte(few), object{"changes": json.Number("1")}); err == nil {
		t.Error("an attestation without changes has a list")
	}
}
