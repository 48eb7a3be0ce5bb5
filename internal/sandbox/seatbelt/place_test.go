package seatbelt

import (
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

func TestEnvironment(t *testing.T) {
	p := place{root: "/private/x", proxy: 4242}
	got := p.environment([]string{
		"HOME=/home/agent", "TMPDIR=/tmp", "PATH=/home/agent/bin:/usr/bin", "GOCACHE=/home/agent/.cache/go", "X=/home/agents",
		"Y=see /home/agent",
		"HTTP_PROXY=http://palyra:t0ken@198.18.0.1:3128", "ALL_PROXY=socks5h://palyra:t0ken@198.18.0.1:3128", "NO_PROXY=localhost", "EMPTY=",
		"https_proxy=http://elsewhere:3128", "OTHER=http://a@198.18.0.1:3128",
	}, "198.18.0.1:3128")
	want := []string{
		"HOME=/private/x/home", "TMPDIR=/private/x/tmp", "PATH=/private/x/home/bin:/usr/bin", "GOCACHE=/private/x/home/.cache/go",
		"X=/home/agents", "Y=see /home/agent",
		"HTTP_PROXY=http://palyra:t0ken@127.0.0.1:4242", "ALL_PROXY=socks5h://palyra:t0ken@127.0.0.1:4242", "NO_PROXY=localhost", "EMPTY=",
		"https_proxy=http://elsewhere:3128", "OTHER=http://a@198.18.0.1:3128",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestProxyDoor(t *testing.T) {
	j, _ := sample()
	if i, _ := proxyDoor(j); i != -1 {
		t.Errorf("a door that no variable leads to: %d", i)
	}
	j.Env = []string{"HTTP_PROXY=http://palyra:x@198.18.0.1:3128"}
	if i, at := proxyDoor(j); i != 0 || at != "198.18.0.1:3128" {
		t.Errorf("door %d at %s", i, at)
	}
	j.Doors[0].UDP = true
	if i, _ := proxyDoor(j); i != -1 {
		t.Errorf("a UDP door is the proxy: %d", i)
	}
}

func streams(t *testing.T, j *sandbox.Job) {
	t.Helper()
	for _, f := range []**os.File{&j.Stdin, &j.Stdout, &j.Stderr} {
		var err error
		if *f, err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { j.CloseFiles() })
}

func TestCheck(t *testing.T) {
	good, _ := sample()
	streams(t, &good)
	if err := check(good, 501); err != nil {
		t.Fatal(err)
	}
	if err := check(good, 0); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*sandbox.Job){
		"no stream":         func(j *sandbox.Job) { j.Stderr = nil },
		"relative program":  func(j *sandbox.Job) { j.Path = "make" },
		"unclean workspace": func(j *sandbox.Job) { j.Workspace += "/../x" },
		"everything":        func(j *sandbox.Job) { j.Workspace, j.Cwd = "/", "/" },
		"cwd outside":       func(j *sandbox.Job) { j.Cwd = "/Users/ada" },
		"cwd beside":        func(j *sandbox.Job) { j.Cwd = j.Workspace + "er" },
		"no argv":           func(j *sandbox.Job) { j.Argv = nil },
		"zero in argv":      func(j *sandbox.Job) { j.Argv = []string{"a\x00b"} },
		"zero in env":       func(j *sandbox.Job) { j.Env = []string{"a=\x00"} },
		"negative uid":      func(j *sandbox.Job) { j.UID = -1 },
		"somebody else":     func(j *sandbox.Job) { j.UID = 502 },
		"nobody behind":     func(j *sandbox.Job) { j.Open = nil },
		"agent's door":      func(j *sandbox.Job) { j.Doors = []cell.Listener{{}} },
		"mount elsewhere":   func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: "/a", Target: "/b"}} },
		"mount dots":        func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: "/a", Target: "/home/agent/../x"}} },
		"file elsewhere":    func(j *sandbox.Job) { j.Files = []palyra.RoomFile{{Target: "/etc/x"}} },
		"many mounts":       func(j *sandbox.Job) { j.Mounts = make([]palyra.Mount, maxMounts+1) },
	} {
		j := good
		if spoil(&j); check(j, 501) == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestCommand(t *testing.T) {
	j, p := sample()
	j.Argv = []string{"make", "a b", `$(rm -rf "$HOME")`, "'", "-x"}
	got := command(j, p)
	want := []string{"/usr/bin/sandbox-exec", "-f", p.root + "/profile.sb", "/bin/bash", "-p", "-c"}
	if !slices.Equal(got[:6], want) || !slices.Equal(got[7:], append([]string{"make", "/usr/bin/make"}, j.Argv[1:]...)) {
		t.Errorf("%q", got)
	}
	if strings.ContainsAny(got[6], "\n`") || strings.Contains(got[6], "rm ") {
		t.Errorf("the script has words of the call: %s", got[6])
	}
	j.Sealed = os.Stdin
	if c := command(j, p); c[8] != p.exe()+"/make" {
		t.Errorf("the copy is not what runs: %q", c[8])
	}
}

func TestLayOutLeavesNothing(t *testing.T) {
	for name, j := range map[string]sandbox.Job{
		"two things":   {Call: call, Files: []palyra.RoomFile{{Target: "/home/agent/a"}, {Target: "/home/agent/a"}}},
		"below a file": {Call: call, Files: []palyra.RoomFile{{Target: "/home/agent/a"}, {Target: "/home/agent/a/b"}}},
		"no source":    {Call: call, Mounts: []palyra.Mount{{Source: "/nonexistent/x", Target: "/nonexistent/x"}}},
		"through a link": {Call: call, Mounts: []palyra.Mount{
			{Source: "/usr", Target: "/home/agent/u"},
			{Source: "/usr", Target: "/home/agent/u/new"},
		}},
		"bad id": {Call: "../x"},
	} {
		dir := t.TempDir()
		if p, err := layOut(dir, j, false); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s leaves %v, %v", name, left, err)
		}
	}
}

// Nothing in an environment is lost or made, whatever it says.
func TestEnvironmentKeepsVariables(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		env := rapid.SliceOf(rapid.Custom(func(r *rapid.T) string {
			return rapid.StringMatching(`[A-Z_]{1,8}`).Draw(r, "name") + "=" + rapid.String().Draw(r, "value")
		})).Draw(r, "env")
		got := place{root: "/p", proxy: 1}.environment(env, "198.18.0.1:3128")
		if len(got) != len(env) {
			t.Fatalf("%d of %d", len(got), len(env))
		}
		for i := range env {
			a, av, _ := strings.Cut(env[i], "=")
			b, bv, _ := strings.Cut(got[i], "=")
			if a != b || (a != "TMPDIR" && av != bv && !strings.Contains(av, cell.RoomHome) && !strings.Contains(av, "198.18.0.1:3128")) {
				t.Errorf("%q became %q", env[i], got[i])
			}
		}
	})
}
