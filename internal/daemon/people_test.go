package daemon

import (
	"testing"

	"palyra"
	"palyra/internal/enrol"
)

// Nobody is bound to a workspace that does not exist.
func TestBoundToRegisteredWorkspacesOnly(t *testing.T) {
	d, err := open(t, home(t))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	p := enrol.People{Registry: d.access, Workspaces: d.work}
	sig := palyra.Signature{}
	_, uerr := p.AddUser(t.Context(), palyra.User{Principal: "user:bob", Role: palyra.RoleViewer, Workspaces: []string{"/srv/nothing"}}, sig)
	_, cerr := p.ChangeUser(t.Context(), palyra.User{Principal: "user:bob", Role: palyra.RoleViewer, Workspaces: []string{"/srv/nothing"}},
		sig)
	_, _, terr := p.AddToken(t.Context(), palyra.Token{Name: "x", Workspaces: []string{"/srv/nothing"}}, 0, sig)
	for _, err := range []error{uerr, cerr, terr} {
		if e := palyra.AsError(err); e.Reason != palyra.ReasonNotFound || e.Remedy == "" {
			t.Errorf("%v", err)
		}
	}
}
