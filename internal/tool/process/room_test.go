package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cell"
)

// profiles are rooms by name. Commands have the profile of their own name.
type profiles map[string]Fittings

func (p profiles) For(command string) string {
	if _, ok := p[command]; ok {
		return command
	}
	if _, ok := p["dev"]; ok {
		return "dev"
	}
	return ""
}

func (p profiles) Resolve(name string, ws palyra.WorkspaceRef) (Fittings, error) {
	r, ok := p[name]
	if !ok {
		return Fittings{}, palyra.Errorf(palyra.NotFound, palyra.ReasonBadProfile, "there is no profile %s", name).WithRemedy("one of dev")
	}
	r.Name = name
	return r, nil
}

// allowed are Hosts that take what is in the list, in small letters.
type allowed []string

func (a allowed) Check(hosts []string) ([]string, error) {
	var out []string
	for _, h := range hosts {
		h = strings.ToLower(h)
		if !strings.Contains(h, ":") {
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s is not host:port", h).WithRemedy("host:port")
		}
		if !slices.Contains(a, h) {
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s is not allowed", h).WithRemedy("another")
		}
		out = append(out, h)
	}
	return out, nil
}

// full is a room with everything.
func full() Fittings {
	return Fittings{
		Mounts: []palyra.Mount{{Source: "/srv/z", Target: "/srv/z"}, {Source: "/var/c", Target: "/home/agent/.cache/go", Writable: true}},
		Files:  []palyra.RoomFile{{Target: "/home/agent/.gitconfig", Text: "[user]\n"}, {Target: "/home/agent/.a", Text: "b"}},
		Seals:  []string{".git/hooks", ".envrc", ".envrc"}, Env: []palyra.EnvVar{{Name: "GOROOT", Value: "/srv/z"}, {Name: "A", Value: "1"}},
		Path: []string{"/srv/z/bin"}, Egress: []string{"Proxy.example:443", "other.example:443"}, UnixSockets: true, Asks: true,
		Notes: []string{"a note"},
	}
}

func TestRoomIsInThePlan(t *testing.T) {
	d := driver(t, Config{
		Tiers: everywhere{}, Tier: palyra.TierC, Profiles: profiles{"go": full()}, Hosts: allowed{"proxy.example:443", "mine.example:80"},
		Seals: []string{".usual"},
	})
	p, err := filled(t, d, `{"command":"/somewhere/go","env":{"B":"2"},"egress":["MINE.example:80","mine.example:80"]}`)
	if err != nil {
		t.Fatal(err)
	}
	if p.Profile != "go" || !p.UnixSockets || !p.Asks || p.Tier != palyra.TierC {
		t.Errorf("%+v", p)
	}
	if p.Mounts[0].Target != "/home/agent/.cache/go" || !p.Mounts[0].Writable || p.Mounts[1].Source != "/srv/z" ||
		p.Files[0].Target != "/home/agent/.a" || len(p.Files) != 2 {
		t.Errorf("%+v %+v", p.Mounts, p.Files)
	}
	if !slices.Equal(p.Seals, []string{".envrc", ".git/hooks"}) || !slices.Equal(p.Egress, []string{"mine.example:80", "proxy.example:443"}) {
		t.Errorf("%q %q", p.Seals, p.Egress)
	}
	if !slices.Equal(p.Capabilities, []palyra.Capability{palyra.Network}) {
		t.Errorf("%q", p.Capabilities)
	}
	var env []string
	for _, v := range p.Env {
		env = append(env, v.Name+"="+v.Value)
		if v.Digest != palyra.SumBytes([]byte(v.Value)) {
			t.Errorf("%+v", v)
		}
	}
	if !slices.Equal(env, []string{"A=1", "B=2", "GOROOT=/srv/z", "PATH=/srv/z/bin:" + cell.SearchPath}) {
		t.Errorf("%q", env)
	}
	if notes := strings.Join(p.Detail.Notes, "\n"); !strings.Contains(notes, "a note") ||
		!strings.Contains(notes, "other.example:443, which this system does not allow") {
		t.Error(notes)
	}
	notes := strings.Join(surroundings(&p), "\n")
	for _, part := range []string{
		"profile go", "sees, read only: /srv/z\n", "keeps between runs of this workspace: /home/agent/.cache/go",
		"may reach: mine.example:80, proxy.example:443",
		"sealed stays as it is, at any depth: .envrc, .git/hooks", "unix sockets", "an answer for every run",
	} {
		if !strings.Contains(notes, part) {
			t.Errorf("%q is not said in\n%s", part, notes)
		}
	}
}

// Hosts that a command names are in its plan, unless the call has a list of its own: an
// empty one means none.
func TestAListOfHostsIsMeant(t *testing.T) {
	d := driver(t, Config{
		Tiers: everywhere{}, Tier: palyra.TierC, Hosts: allowed{"named.example:443", "mine.example:80"},
		Named: func([]string) []string { return []string{"named.example:443"} },
	})
	for args, want := range map[string][]string{
		`{"command":"x"}`:                              {"named.example:443"},
		`{"command":"x","egress":[]}`:                  nil,
		`{"command":"x","egress":["mine.example:80"]}`: {"mine.example:80"},
	} {
		if p, err := filled(t, d, args); err != nil || !slices.Equal(p.Egress, want) {
			t.Errorf("%s: %q, want %q, %v", args, p.Egress, want, err)
		}
	}
}

// Whoever wants no profile, or has none, is held to what is sealed everywhere.
func TestNoProfile(t *testing.T) {
	with := profiles{"go": full(), "dev": {Seals: []string{".dev"}}}
	for _, c := range []struct {
		profiles Profiles
		args     string
		profile  string
		seal     string
	}{
		{nil, `{"command":"go"}`, "", ".usual"},
		{with, `{"command":"go","profile":"none"}`, "", ".usual"},
		{profiles{}, `{"command":"go"}`, "", ".usual"},
		{with, `{"command":"other"}`, "dev", ".dev"},
		{with, `{"command":"go","profile":"dev"}`, "dev", ".dev"},
		{with, `{"script":"go"}`, "dev", ".dev"},
	} {
		d := driver(t, Config{Tiers: everywhere{}, Tier: palyra.TierC, Profiles: c.profiles, Seals: []string{".usual"}})
		p, err := filled(t, d, c.args)
		if err != nil || p.Profile != c.profile || !slices.Equal(p.Seals, []string{c.seal}) || p.Mounts != nil || p.Egress != nil ||
			len(p.Env) != 0 || p.Asks {
			t.Errorf("%s: %+v, %v", c.args, p, err)
		}
	}
	d := driver(t, Config{Tiers: everywhere{}, Tier: palyra.TierC})
	_, err := filled(t, d, `{"command":"x","profile":"go"}`)
	wants(t, "no profiles", err, palyra.ReasonBadProfile, "without")
	d = driver(t, Config{Tiers: everywhere{}, Tier: palyra.TierC, Profiles: with})
	_, err = filled(t, d, `{"command":"x","profile":"nope"}`)
	wants(t, "unknown profile", err, palyra.ReasonBadProfile, "one of")
}

// In tier B there is no room, whatever the configuration has.
func TestTierBHasNoRoom(t *testing.T) {
	d := driver(t, Config{Tiers: everywhere{}, Profiles: profiles{"go": full(), "dev": full()}, Seals: []string{".usual"}})
	for _, args := range []string{`{"command":"go"}`, `{"command":"go","profile":"none"}`, `{"command":"go","tier":"b"}`} {
		p, err := filled(t, d, args)
		if err != nil || p.Profile != "" || p.Seals != nil || p.Mounts != nil || p.Files != nil || p.Env != nil || p.Egress != nil ||
			p.UnixSockets || p.Asks {
			t.Errorf("%s: %+v, %v", args, p, err)
		}
		if surroundings(&p) != nil {
			t.Error(surroundings(&p))
		}
	}
	for _, args := range []string{`{"script":"x"}`, `{"script":"x","tier":"b"}`} {
		_, err := filled(t, d, args)
		wants(t, args, err, palyra.ReasonTierUnavailable, "tier c")
	}
}

func TestBadProfiles(t *testing.T) {
	many := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint("s", i))
		}
		return out
	}
	mount := func(source, target string) func(*Fittings) {
		return func(r *Fittings) { r.Mounts = append(r.Mounts, palyra.Mount{Source: source, Target: target}) }
	}
	env := func(name, value string) func(*Fittings) {
		return func(r *Fittings) { r.Env = append(r.Env, palyra.EnvVar{Name: name, Value: value}) }
	}
	for name, change := range map[string]func(*Fittings){
		"relative source": mount("x", "/x"), "relative target": mount("/x", "x"), "not clean": mount("/x/../y", "/x"),
		"not clean target": mount("/x", "/x/"), "root": mount("/x", "/"),
		"everything": mount("/", "/x"), "in the workspace": mount("/x", "/work/x"), "the workspace": mount("/x", "/work"),
		"twice": mount("/x", "/srv/z"), "NUL": mount("/x\x00", "/x"),
		"long": mount("/"+strings.Repeat("x", maxPath), "/x"), "a file's place": mount("/x", "/home/agent/.a"),
		"file in the workspace": func(r *Fittings) { r.Files[0].Target = "/work/.git/config" },
		"relative file":         func(r *Fittings) { r.Files[0].Target = "x" },
		"file over a mount":     func(r *Fittings) { r.Files[0].Target = "/srv/z" },
		"long files":            func(r *Fittings) { r.Files[0].Text = strings.Repeat("x", maxFileBytes) },
		"relative path":         func(r *Fittings) { r.Path = []string{"bin"} },
		"two in one path":       func(r *Fittings) { r.Path = []string{"/a:/b"} },
		"no seal":               func(r *Fittings) { r.Seals = []string{""} }, "many seals": func(r *Fittings) { r.Seals = many(maxSeals + 1) },
		"many mounts": func(r *Fittings) {
			for _, n := range many(maxMounts) {
				r.Mounts = append(r.Mounts, palyra.Mount{Source: "/" + n, Target: "/" + n})
			}
		},
		"many files": func(r *Fittings) {
			for _, n := range many(maxFiles) {
				r.Files = append(r.Files, palyra.RoomFile{Target: "/" + n})
			}
		},
		"PATH": env("PATH", "/x"), "HOME": env("HOME", "/x"), "PALYRA": env("PALYRA_X", "x"), "secret name": env("API_KEY", "x"),
		"bad name": env("a-b", "x"), "no name": env("", "x"),
		"NUL value": env("X", "\x00"), "long value": env("X", strings.Repeat("x", maxArg)), "twice in env": env("A", "2"),
		"secret":    func(r *Fittings) { r.Env[0].Secret = true },
		"many vars": func(r *Fittings) { r.Env = make([]palyra.EnvVar, maxEnv+1) },
		"bad host":  func(r *Fittings) { r.Egress = []string{"nonsense"} },
		"many hosts": func(r *Fittings) {
			r.Egress = nil
			for i := range maxHosts + 1 {
				r.Egress = append(r.Egress, fmt.Sprintf("h%d:1", i))
			}
		},
	} {
		r := full()
		change(&r)
		c := Config{Tiers: everywhere{}, Tier: palyra.TierC, Profiles: profiles{"go": r}}
		if name == "bad host" {
			c.Hosts = allowed{}
		}
		if name != "many hosts" && c.Hosts == nil {
			r.Egress = nil
			c.Profiles = profiles{"go": r}
		}
		_, err := filled(t, driver(t, c), `{"command":"go"}`)
		wants(t, name, err, palyra.ReasonBadProfile, "operator")
	}
}

// Callers may not set what only operators may, nor what the profile has set.
func TestCallersEnvironment(t *testing.T) {
	r := full()
	r.Egress = nil
	d := driver(t, Config{Tiers: everywhere{}, Tier: palyra.TierC, Profiles: profiles{"go": r}})
	for name, remedy := range map[string]string{
		"GOROOT": "another profile", "A": "another profile", "GOENV": "argument", "PATH": "argument",
		"LD_PRELOAD": "argument",
	} {
		_, err := filled(t, d, `{"command":"go","env":{"`+name+`":"x"}}`)
		wants(t, name, err, palyra.ReasonEnvDenied, remedy)
	}
}

// The same value is nothing else; names that callers may not set stay refused.
func TestCallersEnvironmentAgrees(t *testing.T) {
	r := full()
	r.Egress = nil
	d := driver(t, Config{Tiers: everywhere{}, Tier: palyra.TierC, Profiles: profiles{"go": r}})
	p, err := filled(t, d, `{"command":"go","env":{"A":"1"}}`)
	if err != nil || len(p.Env) != 3 || p.Env[0] != variable("A", "1") {
		t.Errorf("%+v %v", p.Env, err)
	}
	_, err = filled(t, d, `{"command":"go","env":{"GOROOT":"/srv/z"}}`)
	wants(t, "GOROOT", err, palyra.ReasonEnvDenied, "argument")
}

func TestHostsOfTheCall(t *testing.T) {
	d := driver(t, Config{Tiers: everywhere{}, Tier: palyra.TierC, Hosts: allowed{"a.example:1"}})
	_, err := filled(t, d, `{"command":"x","egress":["b.example:1"]}`)
	wants(t, "denied", err, palyra.ReasonEgressDenied, "another")
	_, err = filled(t, d, `{"command":"x","egress":["nonsense"]}`)
	wants(t, "malformed", err, palyra.ReasonMalformedInput, "host:port")
	if p, err := filled(t, d, `{"command":"x"}`); err != nil || p.Egress != nil || slices.Contains(p.Capabilities, palyra.Network) {
		t.Errorf("%+v %v", p, err)
	}
}

// fixed is a host with one answer about limits.
type fixed map[string]palyra.Hold

func (f fixed) Promise(context.Context, palyra.Tier, palyra.Limits) (palyra.Enforcement, error) {
	return palyra.Enforcement{Mode: "strict", Limits: f}, nil
}

func TestRequireLimits(t *testing.T) {
	for _, c := range []struct {
		memory, processes string
		held              bool
	}{
		{"cgroup", "cgroup", true},
		{"cgroup", "rlimit", true},
		{"cgroup", "rlimit+polled", true},
		{"cgroup", "polled", false},
		{"cgroup", "", false},
		{"polled", "cgroup", false},
		{"rlimit", "cgroup", false},
		{"none", "cgroup", false},
		{"", "", false},
		{"cgroup", "none", false},
		{"cgroups", "cgroup", false},
	} {
		d := driver(t, Config{Tiers: fixed{"memory": palyra.Hold(c.memory), "processes": palyra.Hold(c.processes)}})
		for _, tier := range []string{"b", "c"} {
			_, err := filled(t, d, `{"command":"x","require_limits":true,"tier":"`+tier+`"}`)
			if c.held {
				if err != nil {
					t.Errorf("%+v: %v", c, err)
				}
				continue
			}
			wants(t, fmt.Sprint(c), err, palyra.ReasonWeakEnforcement, "doctor")
		}
		if _, err := filled(t, d, `{"command":"x"}`); err != nil {
			t.Error(err)
		}
	}
}

// A script is one argument of the shell's, whole and as it is, whatever it looks
// like; a real shell runs it as one.
func TestScriptIsAnArgument(t *testing.T) {
	d := driver(t, Config{Tiers: everywhere{}, Tier: palyra.TierC})
	for script, prints := range map[string]string{
		"echo a b": "a b\n", "echo a\necho b\n": "a\nb\n", "-c 'x'; echo after": "after\n", "+x; echo after": "after\n",
		"--version; echo after": "after\n", "echo \"$0\" $#": "/bin/sh 0\n", "": "",
		"# nothing": "", "echo 'é\t漢'": "é\t漢\n",
	} {
		raw, _ := json.Marshal(script)
		p, err := filled(t, d, `{"script":`+string(raw)+`}`)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Argv) != 3 || p.Argv[0] != "/bin/sh" || p.Argv[1] != "-c" || strings.TrimPrefix(p.Argv[2], "\n") != script {
			t.Errorf("%q: %q", script, p.Argv)
		}
		out, err := exec.Command(p.Argv[0], p.Argv[1:]...).Output()
		if string(out) != prints {
			t.Errorf("%q prints %q (%v)", script, out, err)
		}
	}
	if _, err := filled(t, d, `{"script":"`+strings.Repeat("x", maxArg-1)+`"}`); err != nil {
		t.Error(err)
	}
	if _, err := filled(t, d, `{}`); !errors.As(err, new(*palyra.Error)) {
		t.Error(err)
	}
}

// A program that is an agent itself finds the command that speaks to Palyra, may
// use sockets, may be fed although it is an interpreter, and has the time of a run.
func TestAnAgentsPlan(t *testing.T) {
	d := driver(t, Config{
		Tiers: everywhere{}, Tier: palyra.TierC, Wall: 1000, AgentWall: 5000,
		Agent: []palyra.Mount{{Source: "/opt/p/palyra", Target: "/run/palyra/bin/palyra"}},
	})
	p, err := filled(t, d, `{"command":"sh","agent_socket":true,"stdin_live":true}`)
	if err != nil {
		t.Fatal(err)
	}
	if !p.AgentSocket || !p.UnixSockets || !slices.Contains(p.Mounts, d.Agent[0]) {
		t.Errorf("%+v", p)
	}
	if !slices.ContainsFunc(p.Env, func(v palyra.EnvVar) bool { return v.Name == "PATH" && strings.HasPrefix(v.Value, "/run/palyra/bin:") }) {
		t.Errorf("%+v", p.Env)
	}
	if p, err = filled(t, d, `{"command":"sh"}`); err != nil || p.AgentSocket || p.UnixSockets || len(p.Mounts) > 0 {
		t.Errorf("%v, %+v", err, p)
	}
	if _, err := filled(t, d, `{"command":"sh","agent_socket":true,"tier":"b"}`); palyra.AsError(err).Reason != palyra.ReasonTierUnavailable {
		t.Errorf("%v", err)
	}
}
