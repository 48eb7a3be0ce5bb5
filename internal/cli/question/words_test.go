package question

import (
	"encoding/json"
	"testing"

	"palyra"
)

func TestNeed(t *testing.T) {
	for want, n := range map[string]palyra.Need{
		"1 person":                               {},
		"2 different people":                     {Votes: 2, Separation: palyra.SeparationNone},
		"1 person, separation device or better":  {Votes: 1, Separation: palyra.SeparationDevice},
		"1 person, not the agent's owner":        {Votes: 1, OtherPerson: true},
		"1 person, signed by a paired device":    {Votes: 1, Device: true},
		"1 person, for this call only":           {Votes: 1, Fresh: true},
		`1 person, separation \x1b or better`:    {Votes: 1, Separation: "\x1b"},
		"3 different people, for this call only": {Votes: 3, Fresh: true},
	} {
		if got := Need(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTiers(t *testing.T) {
	seen := map[string]bool{}
	for _, tier := range []palyra.Tier{palyra.TierBuiltin, palyra.TierA, palyra.TierB, palyra.TierC, palyra.TierNode, "z"} {
		text := TierText(tier)
		if text == "" || seen[text] {
			t.Errorf("%s: %q", tier, text)
		}
		seen[text] = true
	}
}

func TestLimits(t *testing.T) {
	if got := Limits(palyra.Limits{}); got != "those of the tier" {
		t.Error(got)
	}
	got := Limits(palyra.Limits{
		WallMS: 500, CPUMS: 2000, MemoryBytes: 1 << 20, Processes: 2, OpenFiles: 3, FileBytes: 4, OutputBytes: 5,
		EmittedBytes: 6, DiskBytes: 7,
	})
	if want := "time 500ms, CPU 2s, memory 1 MiB, processes 2, open files 3, file size 4 bytes, output 5 bytes, printed in all 6 " +
		"bytes, written to disk 7 bytes"; got != want {
		t.Error(got)
	}
}

func TestArguments(t *testing.T) {
	for in, want := range map[string]string{
		`{ "a" : "x\ty" }`:         `{"a":"x\ty"}`,
		`{"a":"` + "\u202e" + `"}`: `{"a":"\u202e"}`,
		`{"a":"\u001b\n\\n"}`:      `{"a":"\u001b\n\\n"}`,
		`{"a":"\\x1b\u200b"}`:      `{"a":"\\x1b\u200b"}`,
		"{\"a\":\"\u007f\"}":       `{"a":"\u007f"}`,
		"{\"a\":\"\xff\"}":         `{"a":"\xff"}`,
		`{"a":`:                    `{"a":`,
		"not\x1bjson":              `not\x1bjson`,
	} {
		if got := Arguments(json.RawMessage(in)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestReadable(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "", "a b": "", "tab\t": "", "caf\u00e9": "  reads: café", "\u202e": "", "文件 x": "  reads: 文件 x", "\xff": "",
	} {
		if got := Readable(in); got != want {
			t.Errorf("readable(%q) = %q, want %q", in, got, want)
		}
	}
}
