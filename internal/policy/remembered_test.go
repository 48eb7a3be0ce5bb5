package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"palyra"
)

// What is remembered of callers, tools, labels, workspaces and contexts changes no answer: requests that share some of
// their names and differ in everything else are judged one after the other, as if each were the first.
func TestRememberingChangesNothing(t *testing.T) {
	files := defaults(t).Files()
	files["more.cedar"] = `
		@id("team") permit (principal in Team::"web", action in Action::"call", resource in ToolGroup::"mcp");
		@id("viewers") forbid (principal in Role::"viewer", action in Action::"call", resource);
		@id("owned") forbid (principal is Agent, action in Action::"call", resource)
			when { principal has owner && principal.owner in Role::"admin" && resource is Tool && resource.source == "skill" };
		@id("place") forbid (principal, action in Action::"call", resource)
			when { context has place && context.place in Workspace::"/w/a" && resource is Tool && resource.capabilities.contains("browser") };
		@id("labelled") forbid (principal, action in Action::"call", resource) when { context.session.labels.contains("secret-read") };`
	files[entitiesFile] = `[{"uid":{"type":"Agent","id":"a"},"parents":[{"type":"Team","id":"web"}]},
		{"uid":{"type":"User","id":"ada"},"parents":[{"type":"Role","id":"admin"}]}]`
	b, report := Check(files)
	if b == nil {
		t.Fatal(report.Problems)
	}
	e := engine(t, b)
	effects := map[palyra.Effect]int{}
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		role := rapid.SliceOfN(rapid.SampledFrom([]palyra.Role{palyra.RoleOwner, palyra.RoleViewer, palyra.RoleAdmin}), 0, 2)
		r.Standing = &palyra.Standing{Roles: role.Draw(t, "roles"), Owner: role.Draw(t, "owner's")}
		r.Principal = rapid.SampledFrom([]palyra.Principal{"agent:a", "user:ada", "device:d"}).Draw(t, "who")
		r.Session = rapid.SampledFrom([]palyra.SessionID{"s", "t"}).Draw(t, "session")
		r.Plan.Workspace.Path = rapid.SampledFrom([]string{"", "/w", "/w/a", "/w/a/b", "/w/a/"}).Draw(t, "place")
		r.At = time.Unix(1, 0)
		s := *e.live.Load() // allowlists change without anything else changing
		s.tools = newNames(rapid.SampledFrom([][]string{{"*"}, {"palyra.*"}, {"mcp.*"}}).Draw(t, "allowed"))
		e.live.Store(&s)
		first := s
		first.memory, first.contexts = nil, nil
		fresh := *b
		fresh.index = fresh.newIndex()
		first.bundle = &fresh
		c, err := first.newCall(r)
		if err != nil {
			t.Fatal(err)
		}
		want := c.judge()
		effects[want.Effect]++
		for range 2 {
			if diff := cmp.Diff(want, e.Judge(t.Context(), r), cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
	for _, effect := range []palyra.Effect{palyra.Deny, palyra.Ask} {
		if effects[effect] == 0 {
			t.Errorf("%v: that shows nothing", effects)
		}
	}
}
