package skill

import (
	"fmt"
	"strings"
	"testing"
)

// Paths are held with what is below them, and by whole names; everything else only as it stands.
func TestPathsCoverWhatIsBelow(t *testing.T) {
	for _, c := range []struct {
		have, ask string
		missing   string
	}{
		{"read:.", "read:data read:data/x.csv", ""},
		{"read:data", "read:data/x read:database read:.", "read:. read:database"},
		{"write:out", "read:out/x write:out/y write:other", "write:other"},
		{"read:out", "write:out", "write:out"},
		{"hosts:a.example:443", "hosts:a.example:443 hosts:b.a.example:443", "hosts:b.a.example:443"},
		{"storage:a/", "storage:a/b/", "storage:a/b/"},
	} {
		have, err := CapabilitiesOf(strings.Fields(c.have))
		ask, err2 := CapabilitiesOf(strings.Fields(c.ask))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if got := strings.Join(ask.Missing(have), " "); got != c.missing {
			t.Errorf("%s of %s: %q, want %q", c.ask, c.have, got, c.missing)
		}
	}
}

// The least has no path twice, and never more than a manifest can have.
func TestLeast(t *testing.T) {
	c, _ := CapabilitiesOf(strings.Fields("read:a/b read:a/b/c read:out/x read:d write:out programs:sh"))
	if got := strings.Join(c.Least().Terms(), " "); got != "programs:sh read:a/b read:d write:out" {
		t.Error(got)
	}
	many := Capabilities{}
	for i := range 100 {
		many = many.Add("read", fmt.Sprintf("x/%d/deep/file", i%7*10+i/50), fmt.Sprintf("y/a/%d", i))
	}
	least := many.Least()
	if len(least.Read) > maxOfKind || len(many.Missing(least)) > 0 || least.Read[0] == "." {
		t.Error(least.Read)
	}
	wide := Capabilities{}
	for i := range 100 {
		wide = wide.Add("write", fmt.Sprintf("top%d/x", i))
	}
	if got := wide.Least(); len(got.Write) != 1 || got.Write[0] != "." {
		t.Error(got)
	}
}
