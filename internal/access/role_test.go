package access

import (
	"slices"
	"testing"

	"palyra"
)

var everyRole = []palyra.Role{
	palyra.RoleOwner, palyra.RoleAdmin, palyra.RoleOperator, palyra.RoleApprover,
	palyra.RoleAuditor, palyra.RoleViewer, palyra.RoleAgent, palyra.RoleNode,
}

func TestRolesHoldKnownPermissionsOnly(t *testing.T) {
	all := everyPermission()
	if slices.Sort(all); len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Error("a permission stands twice")
	}
	for _, r := range everyRole {
		if _, ok := roles[r]; !ok {
			t.Errorf("%s is not in the table", r)
		}
		for _, p := range roles[r] {
			if !slices.Contains(all, p) {
				t.Errorf("%s holds %q, which nobody asks for", r, p)
			}
		}
	}
	if len(roles) != len(everyRole) {
		t.Error("a role is in the table only")
	}
}

func TestUnsignedPeopleOnlyLook(t *testing.T) {
	var r *Registry
	for _, role := range everyRole {
		if role == palyra.RoleAgent {
			continue
		}
		for _, p := range acts {
			if r.Permits(role, p, false) {
				t.Errorf("%s may %s without a signature", role, p)
			}
		}
	}
	if !r.Permits(palyra.RoleOwner, "journal.read", false) || !r.Permits(palyra.RoleOwner, "approvals.decide", true) {
		t.Error("an owner is held back")
	}
}

func TestAgentsNeverHoldMore(t *testing.T) {
	var r *Registry
	allowed := []palyra.Permission{"status.view", "tools.list", "runs.start", "runs.view", "runs.cancel"}
	for _, p := range everyPermission() {
		for _, signed := range []bool{true, false} {
			if got, want := r.Permits(palyra.RoleAgent, p, signed), slices.Contains(allowed, p); got != want {
				t.Errorf("agent %s (signed %v): %v", p, signed, got)
			}
			if r.Permits(palyra.RoleNode, p, signed) || r.Permits("", p, signed) || r.Permits("root", p, signed) {
				t.Errorf("a role without permissions may %s", p)
			}
		}
	}
	if r.Permits(palyra.RoleOwner, "everything", true) {
		t.Error("an unknown permission is held")
	}
}

func TestWhoMayDecide(t *testing.T) {
	var r *Registry
	for role, want := range map[palyra.Role]bool{
		palyra.RoleOwner: true, palyra.RoleAdmin: true, palyra.RoleOperator: true, palyra.RoleApprover: true,
		palyra.RoleAuditor: false, palyra.RoleViewer: false, palyra.RoleAgent: false, palyra.RoleNode: false,
	} {
		if r.Permits(role, "approvals.decide", true) != want {
			t.Errorf("%s: not %v", role, want)
		}
	}
}

func TestLesser(t *testing.T) {
	var r *Registry
	for _, c := range []struct{ a, b, want palyra.Role }{
		{palyra.RoleOwner, palyra.RoleApprover, palyra.RoleApprover},
		{palyra.RoleAdmin, palyra.RoleOwner, palyra.RoleAdmin},
		{palyra.RoleViewer, palyra.RoleViewer, palyra.RoleViewer},
		{palyra.RoleAuditor, palyra.RoleApprover, ""},
	} {
		if got, back := r.Lesser(c.a, c.b), r.Lesser(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%s and %s: %q and %q", c.a, c.b, got, back)
		}
	}
}

// everyPermission lists every permission there is.
func everyPermission() []palyra.Permission { return append(slices.Clone(views), acts...) }
