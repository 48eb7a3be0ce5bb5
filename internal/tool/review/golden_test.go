package review

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"palyra"
	"palyra/internal/tool"
)

var update = flag.Bool("update", false, "write testdata/tools.golden.json anew")

// What models are told about the tools is part of the protocol: a change here is
// a change for everyone who has a prompt or a policy about them.
func TestSpecsGolden(t *testing.T) {
	set, err := tool.NewSet(All(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(set.Specs(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const file = "testdata/tools.golden.json"
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the tools differ from %s (%v); if that is meant, run the test with -update:\n%s", file, err, got)
	}
	for _, s := range set.Specs() {
		if s.Tier != palyra.TierBuiltin || s.MaxInput > 10<<20 || s.Title == "" {
			t.Errorf("%s: %+v", s.Name, s)
		}
	}
}
