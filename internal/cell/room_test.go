package cell

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

// goodRoom is a Room with everything in it.
func goodRoom() Room {
	return Room{
		Version: Version, Workspace: "/home/me/work", Stage: "/run/stage",
		Repository: "/srv/main/.git", RepositoryStage: "/run/stage-repository",
		Private: []Private{
			{Path: "/tmp", Mode: 0o1777, Bytes: 1 << 30, Inodes: 1 << 17, Keep: []string{"/tmp/a", "/tmp/b/c"}},
			{Path: "/run", Mode: 0o755, Bytes: 1, Inodes: 1},
		},
		Seals: []Seal{
			{Path: ".git", Dev: 7, Ino: 8},
			{Path: ".git/hooks", ReadOnly: true, Dev: 7, Ino: 1 << 63},
			{Path: ".envrc", ReadOnly: true},
		},
		Listeners: []Listener{
			{Addr: netip.MustParseAddrPort("198.18.0.1:3128")},
			{UDP: true, Addr: netip.MustParseAddrPort("[::1]:53")},
			{Path: "/run/palyra/run/agent.sock"},
		},
		Hide: []string{"/proc/kcore"}, ReadOnly: []string{"/proc/sys"}, Held: true, Open: []string{"/home/me/work/out"},
		Watching: Watching{Instances: 16, Watches: 1 << 31 >> 1},
		Range:    "198.18.0.0/15", Rlimits: []Rlimit{{Resource: 10, Value: 1 << 60}}, Landlock: good().Landlock,
		Filter: []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}, Extra: []string{ExtraCounter, ExtraCounter, ExtraCounter, ExtraCounter},
		Copies: MaxCopies,
	}
}

func TestDecodeRoom(t *testing.T) {
	want := goodRoom()
	b := encodeRoom(&want)
	if got, err := DecodeRoom(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range b {
		if r, err := DecodeRoom(b[:n]); err == nil {
			t.Errorf("the first %d bytes: %+v", n, r)
		}
	}
	later := want
	later.Version++
	for name, text := range map[string]string{
		"JSON": "{}", "two": string(b) + string(b), "a byte behind it": string(b) + "\x00",
		"another version": string(encodeRoom(&later)), "too much": string(b) + strings.Repeat("\x00", MaxSpec),
		"an address that is none": strings.Replace(string(b), "198.18.0.1:3128", "198.18.0.1:3x28", 1),
	} {
		if r, err := DecodeRoom([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	s := good()
	if _, err := DecodeRoom(encodeSpec(&s)); err == nil {
		t.Error("a spec is a room")
	}
}

// Every field of a Room travels.
func TestEveryFieldOfARoomTravels(t *testing.T) {
	want := goodRoom()
	for v, i := reflect.ValueOf(want), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not in the test", v.Type().Field(i).Name)
		}
	}
	fill(reflect.ValueOf(&want.Seals).Elem(), 1)
	fill(reflect.ValueOf(&want.Private).Elem(), 1)
	want.Listeners = []Listener{{}, {UDP: true, Addr: netip.MustParseAddrPort("1.2.3.4:5")}}
	var got Room
	c := coder{reading: true, in: encodeRoom(&want)}
	c.room(&got)
	if c.err != nil || len(c.in) != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v, %v", got, want, c.err)
	}
}

// A Room that would protect less than it seems to, or name what is not in it, is
// refused before anything is tried.
func TestRoomCheck(t *testing.T) {
	addr := netip.MustParseAddrPort
	for name, change := range map[string]func(*Room){
		"another version":         func(r *Room) { r.Version++ },
		"no workspace":            func(r *Room) { r.Workspace = "" },
		"a repository in it":      func(r *Room) { r.Repository = r.Workspace + "/x" },
		"a relative repository":   func(r *Room) { r.Repository = "x" },
		"one without its stage":   func(r *Room) { r.RepositoryStage = "" },
		"a stage without one":     func(r *Room) { r.Repository = "" },
		"both on one stage":       func(r *Room) { r.RepositoryStage = r.Stage },
		"a relative workspace":    func(r *Room) { r.Workspace = "work" },
		"all as workspace":        func(r *Room) { r.Workspace = "/" },
		"an unclean workspace":    func(r *Room) { r.Workspace = "/a/../b" },
		"a workspace with a zero": func(r *Room) { r.Workspace = "/a\x00" },
		"no instances":            func(r *Room) { r.Watching.Instances = 0 },
		"no watches":              func(r *Room) { r.Watching.Watches = 0 },
		"instances below nothing": func(r *Room) { r.Watching.Instances = -1 },
		"endless watches":         func(r *Room) { r.Watching.Watches = 1 << 31 },
		"endless instances":       func(r *Room) { r.Watching.Instances = 1 << 31 },
		"too many private":        func(r *Room) { r.Private = make([]Private, maxPrivate+1) },
		"a private one nowhere":   func(r *Room) { r.Private[0].Path = "" },
		"all private":             func(r *Room) { r.Private[0].Path, r.Private[0].Keep = "/", nil },
		"unclean private":         func(r *Room) { r.Private[1].Path = "/run/" },
		"twice private":           func(r *Room) { r.Private[1].Path = "/tmp" },
		"private in private":      func(r *Room) { r.Private[1].Path = "/tmp/x" },
		"private around private":  func(r *Room) { r.Private[0].Path, r.Private[0].Keep = "/run/x", nil },
		"private with set-id":     func(r *Room) { r.Private[0].Mode = 0o4777 },
		"private of no mode":      func(r *Room) { r.Private[0].Mode = -1 },
		"private of no size":      func(r *Room) { r.Private[0].Bytes = 0 },
		"private without names":   func(r *Room) { r.Private[0].Inodes = -1 },
		"private without end":     func(r *Room) { r.Private[0].Bytes = mostBytes + 1 },
		"endless names":           func(r *Room) { r.Private[0].Inodes = mostInodes + 1 },
		"too many kept":           func(r *Room) { r.Private[0].Keep = make([]string, maxKeep+1) },
		"itself kept":             func(r *Room) { r.Private[0].Keep[0] = "/tmp" },
		"kept elsewhere":          func(r *Room) { r.Private[0].Keep[0] = "/tmpx/a" },
		"unclean kept":            func(r *Room) { r.Private[0].Keep[0] = "/tmp/../etc" },
		"kept twice":              func(r *Room) { r.Private[0].Keep[0] = "/tmp/b/c" },
		"kept in kept":            func(r *Room) { r.Private[0].Keep[0] = "/tmp/b" },
		"too many seals":          func(r *Room) { r.Seals = make([]Seal, maxSeals+1) },
		"an empty seal":           func(r *Room) { r.Seals[0].Path = "" },
		"the workspace as seal":   func(r *Room) { r.Seals[0].Path = "." },
		"an absolute seal":        func(r *Room) { r.Seals[0].Path = "/etc" },
		"a seal above":            func(r *Room) { r.Seals[0].Path = ".." },
		"a seal outside":          func(r *Room) { r.Seals[0].Path = "../x" },
		"a winding seal":          func(r *Room) { r.Seals[1].Path = ".git/../x" },
		"a seal with a slash":     func(r *Room) { r.Seals[0].Path = ".git/" },
		"a seal with a zero":      func(r *Room) { r.Seals[0].Path = "a\x00b" },
		"a seal twice":            func(r *Room) { r.Seals[2].Path = ".git" },
		"a seal without its way":  func(r *Room) { r.Seals = r.Seals[1:] },
		"a seal before its way":   func(r *Room) { r.Seals[0], r.Seals[1] = r.Seals[1], r.Seals[0] },
		"a very long seal":        func(r *Room) { r.Seals[0].Path = strings.Repeat("a", maxPath) },
		"too many doors":          func(r *Room) { r.Listeners = make([]Listener, MaxDoors+1) },
		"a door to nowhere":       func(r *Room) { r.Listeners[0].Addr = netip.AddrPort{} },
		"a door without port":     func(r *Room) { r.Listeners[0].Addr = addr("198.18.0.1:0") },
		"a door with a zone":      func(r *Room) { r.Listeners[0].Addr = addr("[fe80::1%lo]:80") },
		"a mapped door":           func(r *Room) { r.Listeners[0].Addr = addr("[::ffff:1.2.3.4]:80") },
		"a door twice":            func(r *Room) { r.Listeners[1] = r.Listeners[0] },
		"a path and an address":   func(r *Room) { r.Listeners[0].Path = "/run/a.sock" },
		"a path outside run":      func(r *Room) { r.Listeners[0] = Listener{Path: "/tmp/a.sock"} },
		"a path out of run":       func(r *Room) { r.Listeners[0] = Listener{Path: "/run/../tmp/a.sock"} },
		"a path that is too long": func(r *Room) { r.Listeners[0] = Listener{Path: "/run/" + strings.Repeat("x", 200)} },
		"a path by udp":           func(r *Room) { r.Listeners[0] = Listener{Path: "/run/a.sock", UDP: true} },
		"a path twice":            func(r *Room) { r.Listeners = []Listener{{Path: "/run/a.sock"}, {Path: "/run/a.sock"}} },
		"a range that is none":    func(r *Room) { r.Range = "198.18.0.0" },
		"a range with a rest":     func(r *Room) { r.Range = "198.18.0.1/15" },
		"a range of everything":   func(r *Room) { r.Range = "0.0.0.0/0" },
		"a range of the other":    func(r *Room) { r.Range = "2001:db8::/32" },
		"a relative mask":         func(r *Room) { r.Hide[0] = "proc" },
		"a mask of everything":    func(r *Room) { r.Hide[0] = "/" },
		"a mask with a zero":      func(r *Room) { r.ReadOnly[0] = "/a\x00" },
		"too many masks":          func(r *Room) { r.ReadOnly = make([]string, maxMasks+1) },
		"open but not held":       func(r *Room) { r.Held = false },
		"open elsewhere":          func(r *Room) { r.Open[0] = "/etc" },
		"open twice":              func(r *Room) { r.Open = append(r.Open, r.Open[0]) },
		"open by another way":     func(r *Room) { r.Open[0] = r.Workspace + "/a/.." },
		"half an instruction":     func(r *Room) { r.Filter = r.Filter[:4] },
		"too long a filter":       func(r *Room) { r.Filter = make([]byte, maxFilter+filterSize) },
		"no filter":               func(r *Room) { r.Filter = nil },
		"too many rlimits":        func(r *Room) { r.Rlimits = make([]Rlimit, maxRlimits+1) },
		"no ruleset":              func(r *Room) { r.Landlock.FS = 0 },
		"a rule without a path":   func(r *Room) { r.Landlock.Rules = []Rule{{Path: "x"}} },
		"an unknown extra":        func(r *Room) { r.Extra[0] = "root" },
		"a way into a cgroup":     func(r *Room) { r.Extra = []string{"tasks", "leave"} },
		"too many extras":         func(r *Room) { r.Extra = strings.Split(strings.Repeat(ExtraCounter+" ", MaxExtra)+ExtraCounter, " ") },
	} {
		r := goodRoom()
		change(&r)
		if err := r.Check(); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	if r := (Room{Version: Version, Workspace: "/w", Filter: goodRoom().Filter, Landlock: Landlock{FS: 1}}); r.Check() != nil {
		t.Error("the smallest room does not pass")
	}
}

func TestExtraPath(t *testing.T) {
	for i := range MaxExtra {
		if n, ok := ExtraIndex(ExtraPath(i)); !ok || n != i {
			t.Errorf("%d became %d, %v", i, n, ok)
		}
	}
	for _, p := range []string{
		"", "extra/", "extra/-1", "extra/+1", "extra/01", "extra/1x", "/extra/1", "extra/ 1", ExtraPath(MaxExtra),
		"extra/99999999999999999999",
	} {
		if _, ok := ExtraIndex(p); ok {
			t.Errorf("%q passes", p)
		}
	}
	s := good()
	s.Watch.Counters = Counters{OOM: ExtraPath(3)}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	s.Watch.Counters = Counters{OOM: ExtraPath(MaxExtra)}
	if err := s.Check(); err == nil {
		t.Error("an extra counter that no room can have passes")
	}
}

func TestCoverCheck(t *testing.T) {
	s := good()
	s.Cover = true
	if s.Check() == nil {
		t.Error("nothing to cover with passes")
	}
	s.Sealed = true
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	s.Path = ""
	if s.Check() == nil {
		t.Error("nothing to cover passes")
	}
}

// Whatever is decoded passes its own check, stays in its workspace, means the same
// when sent on, and is not larger than what came.
func FuzzRoom(f *testing.F) {
	r := goodRoom()
	f.Add(encodeRoom(&r))
	f.Add(encodeRoom(&Room{Version: Version, Workspace: "/w"}))
	f.Add([]byte{4, 2, '/', 'w', 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRoom(b)
		if err != nil {
			return
		}
		for _, s := range r.Seals {
			if s.Path == "" || s.Path[0] == '/' || s.Path == ".." || strings.HasPrefix(s.Path, "../") || strings.Contains(s.Path, "/../") ||
				strings.HasSuffix(s.Path, "/..") {
				t.Fatalf("%q passed", s.Path)
			}
		}
		back, err := DecodeRoom(encodeRoom(&r))
		if err != nil || !reflect.DeepEqual(back, r) {
			t.Fatalf("%+v became %+v, %v", r, back, err)
		}
		if len(r.Seals)+len(r.Listeners)+len(r.Hide)+len(r.Extra)+len(r.Filter) > len(b) {
			t.Fatalf("%d bytes became %+v", len(b), r)
		}
	})
}
