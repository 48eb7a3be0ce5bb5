package seatbelt

import (
	"reflect"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/sandbox"
)

func TestRecord(t *testing.T) {
	r := record{
		Version: recordVersion, Call: call, Pid: 77, Start: 5, Workspace: "/Users/ada/w", Seals: []string{".git/"},
		Marks: []mark{{Path: ".git", Keep: true, Size: 3}},
	}
	b, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readRecord(b); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("%+v, %v", got, err)
	}
}

var badRecords = []string{
	``, `{}`, `[]`, `{"version":1}`, `{"version":2,"call":"a","workspace":"/w"}`, `{"version":1,"call":"../a","workspace":"/w"}`,
	`{"version":1,"call":"a","workspace":"w"}`,
	`{"version":1,"call":"a","workspace":"/"}`, `{"version":1,"call":"a","workspace":"/w","pid":1,"start":1}`,
	`{"version":1,"call":"a","workspace":"/w","pid":-5,"start":1}`,
	`{"version":1,"call":"a","workspace":"/w","pid":5}`, `{"version":1,"call":"a","workspace":"/w","start":5}`,
	`{"version":1,"call":"a","workspace":"/w","marks":[{"path":"../x"}]}`,
	`{"version":1,"call":"a","workspace":"/w","more":1}`, `{"version":1,"call":"a","workspace":"/w"}{}`,
}

func TestBadRecords(t *testing.T) {
	for _, b := range badRecords {
		if r, err := readRecord([]byte(b)); err == nil {
			t.Errorf("%s is %+v", b, r)
		}
	}
	if _, err := readRecord([]byte(strings.Repeat(" ", maxRecord+1))); err == nil {
		t.Error("a record that is too long")
	}
	if _, err := (record{Call: call, Workspace: "/" + strings.Repeat("w", maxRecord)}).encode(); err == nil {
		t.Error("a record that is too long was written")
	}
}

// No record names the first process, all of them, or a path outside the workspace.
func FuzzRecord(f *testing.F) {
	for _, b := range badRecords {
		f.Add([]byte(b))
	}
	f.Add([]byte(`{"version":1,"call":"a","workspace":"/w","pid":5,"start":9,"marks":[{"path":"a/.git","mode":1,"size":2,"time":3}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readRecord(b)
		if err != nil {
			return
		}
		if r.Pid < 0 || r.Pid == 1 || !clean(r.Workspace) || !plainID(string(r.Call)) {
			t.Errorf("%+v", r)
		}
		for _, m := range r.Marks {
			if strings.HasPrefix(m.Path, "/") || strings.HasPrefix(m.Path, "../") || m.Path == ".." {
				t.Errorf("%+v", m)
			}
		}
	})
}

func TestPromise(t *testing.T) {
	j, _ := sample()
	e := applied(j)
	if err := sandbox.CheckPromise(e, enforcement(j.Limits)); err != nil {
		t.Errorf("what is promised does not hold: %v", err)
	}
	if e.Limits["memory"] != "none" || e.Limits["processes"] != "polled" || e.Mode != "strict" {
		t.Errorf("%+v", e)
	}
	for name, more := range map[string]palyra.Enforcement{
		"mode":      {Mode: "none"},
		"mechanism": {Mechanisms: []string{"pid_namespace"}},
		"memory":    {Limits: map[string]palyra.Hold{"memory": "cgroup"}},
		"processes": {Limits: map[string]palyra.Hold{"processes": "cgroup"}},
	} {
		if err := sandbox.CheckPromise(e, more); palyra.AsError(err).Reason != palyra.ReasonWeakEnforcement {
			t.Errorf("%s: %v", name, err)
		}
	}
	j.Limits.Processes, j.UID, j.Unix = 1, 0, true
	if e := applied(j); e.Limits["processes"] != "profile" || !contains(e.Mechanisms, "root_workspace", "unix_sockets") ||
		contains(e.Mechanisms, "owner_uid") {
		t.Errorf("%+v", e)
	}
}

func contains(list []string, want ...string) bool {
	for _, w := range want {
		found := false
		for _, l := range list {
			found = found || l == w
		}
		if !found {
			return false
		}
	}
	return true
}
