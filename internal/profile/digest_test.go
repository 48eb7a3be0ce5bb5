package profile

import (
	"testing"

	"palyra"
)

// A remembered digest is that of what it is given for: every field counts, and a caller's changes do not reach it.
func TestDigestsAreRemembered(t *testing.T) {
	base := func() Resolved {
		return Resolved{
			Name: "x", Mounts: []palyra.Mount{{Source: "/a", Target: "/b"}}, Files: []palyra.RoomFile{{Target: "/f", Text: "t"}},
			Seals: []string{"s"}, Env: []palyra.EnvVar{{Name: "N", Value: "v"}}, Path: []string{"/p"}, Egress: []string{"h:1"},
		}
	}
	var d digests
	first := base()
	if err := d.bind(&first); err != nil {
		t.Fatal(err)
	}
	first.Mounts[0].Source, first.Seals[0] = "/changed", "changed"
	for name, change := range map[string]func(*Resolved){
		"nothing": func(*Resolved) {},
		"notes":   func(r *Resolved) { r.Notes = []string{"n"} },
		"name":    func(r *Resolved) { r.Name = "y" },
		"mount":   func(r *Resolved) { r.Mounts[0].Writable = true },
		"mounts":  func(r *Resolved) { r.Mounts = nil },
		"file":    func(r *Resolved) { r.Files[0].Text = "u" },
		"seal":    func(r *Resolved) { r.Seals = append(r.Seals, "t") },
		"env":     func(r *Resolved) { r.Env[0].Secret = true },
		"path":    func(r *Resolved) { r.Path = []string{} },
		"egress":  func(r *Resolved) { r.Egress[0] = "h:2" },
		"sockets": func(r *Resolved) { r.UnixSockets = true },
		"asks":    func(r *Resolved) { r.Asks = true },
	} {
		got, want := base(), base()
		change(&got)
		change(&want)
		if err := d.bind(&got); err != nil {
			t.Fatal(err)
		}
		if err := want.digest(); err != nil {
			t.Fatal(err)
		}
		if got.Digest != want.Digest || (name == "nothing" || name == "notes") != (got.Digest == first.Digest) {
			t.Errorf("%s: %s, want %s", name, got.Digest, want.Digest)
		}
	}
}
