package skill

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func TestVersionsInOrder(t *testing.T) {
	order := []string{
		"0.0.1-a", "0.0.1", "0.1.0", "0.2.0", "0.10.0",
		"1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-rc", "1.0.0-rc.1", "1.0.0", "2.0.0",
	}
	for i, a := range order {
		if !ValidVersion(a) {
			t.Errorf("%s is a version", a)
		}
		for j, b := range order {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := CompareVersions(a, b); got != want {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
	for _, bad := range []string{"", "1", "1.0", "01.0.0", "1.0.0-", "1.0.0+x", "v1.0.0", "1.0.0-A", "1.0.0 ", "9999999999.0.0"} {
		if ValidVersion(bad) {
			t.Errorf("%q is no version", bad)
		}
	}
}

func TestCapabilities(t *testing.T) {
	asked := Capabilities{Hosts: []string{"b:1", "a:1", "b:1"}, Read: []string{"src"}, Secrets: []string{}}
	if diff := cmp.Diff(Capabilities{Hosts: []string{"a:1", "b:1"}, Read: []string{"src"}}, asked.Tidy()); diff != "" {
		t.Error(diff)
	}
	if got := asked.Tidy().Missing(Capabilities{Hosts: []string{"a:1"}, Write: []string{"src"}}); !slices.Equal(got, []string{"hosts:b:1"}) {
		t.Error(got) // what may be written may be read
	}
	if got := asked.Within(Capabilities{Hosts: []string{"a:1", "c:1"}}); !slices.Equal(got.Hosts, []string{"a:1"}) || got.Read != nil {
		t.Errorf("%+v", got)
	}
	more := asked.Add("tools", "x")
	if !slices.Equal(more.Tools, []string{"x"}) || asked.Tools != nil || asked.Empty() || !(Capabilities{}).Empty() {
		t.Errorf("%+v", more)
	}
	if lines := asked.Tidy().Lines(); !slices.Equal(lines, []string{"hosts: a:1, b:1", "read: src"}) {
		t.Error(lines)
	}
}

// What the daemon asks people by is nothing for skills, nor are programs and other skills.
func TestMayCall(t *testing.T) {
	for tool, want := range map[string]bool{
		"palyra.fs.read": true, "palyra.http.fetch": false, "mcp.files.read": true,
		string(palyra.ToolAllowHost): false, string(palyra.ToolSign): false, string(palyra.ToolGitRemote): false,
		string(palyra.ToolPairDevice): false, "palyra.process.run": false, "palyra.process.start": false, "skill.other.do": false,
	} {
		if got := validValue("tools", tool); got != want {
			t.Errorf("%s: %v", tool, got)
		}
	}
}
