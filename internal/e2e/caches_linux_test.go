package e2e

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/client"
)

// eachCache does something in every cache of every toolchain.
const eachCache = `for c in "$GOCACHE" "$GOMODCACHE" "$NPM_CONFIG_CACHE" "$PIP_CACHE_DIR" "$CARGO_HOME"; do cd "$c"; `

// cacheRuns runs scripts: some that nobody is asked about, others by a person's yes.
type cacheRuns struct {
	unasked func(script string) palyra.Outcome
	live    func(script string) palyra.Outcome
	online  func(script string) palyra.Outcome // may reach a host
}

// roomForCaches ends a test where the disk is as full as where the daemon copies no caches: what is left of the test would
// look like a fault of theirs.
func (d *daemon) roomForCaches() {
	d.t.Helper()
	var disk unix.Statfs_t
	if err := unix.Statfs(d.home, &disk); err != nil {
		d.t.Fatal(err)
	}
	if disk.Bavail <= disk.Blocks/20 {
		d.t.Fatalf("the disk of %s is %d%% full: beyond 95%% no caches are copied, and this test is of copies; make room or set TMPDIR",
			d.home, 100-100*disk.Bavail/disk.Blocks)
	}
}

// apart has runs that nobody is asked about plant something in every cache: those that somebody is asked about neither
// find it nor use it, and what these left is there for the others.
func (r cacheRuns) apart(t *testing.T) {
	t.Helper()
	says := func(out palyra.Outcome, what, want string) {
		t.Helper()
		if out.Outcome != palyra.OutcomeFinished || strings.TrimSpace(out.Stdout+out.Stderr) != want {
			t.Errorf("%s: %s %s, said %q, want %q", what, out.Outcome, out.Reason, out.Stdout+out.Stderr, want)
		}
	}
	const look = eachCache + `cat f planted 2>/dev/null; done; "$GOPATH/bin/tool" 2>/dev/null || true`
	says(r.live(eachCache+"echo asked > f; mkdir -p ro; echo x > ro/x; chmod 555 ro; done"), "the first", "")
	says(r.unasked(eachCache+"cat f ro/x; done"), "what was asked about, by the others", strings.TrimSpace(strings.Repeat("asked\nx\n", 5)))
	says(r.unasked(eachCache+`echo evil > f; echo evil > planted; done
		mkdir -p "$GOPATH/bin"; printf '#!/bin/sh\necho EVIL\n' > "$GOPATH/bin/tool"; chmod +x "$GOPATH/bin/tool"`), "planting", "")
	says(r.unasked(look), "control: the next that nobody is asked about", strings.Repeat("evil\nevil\n", 5)+"EVIL")
	asked := strings.TrimSpace(strings.Repeat("asked\n", 5))
	says(r.live(look), "one that writes directly", asked)
	says(r.online(look), "one with a network", asked)
}

// TestCachesAreApart: no run that a person was asked about uses what one left in a cache that nobody was asked about,
// as root's daemon and as an ordinary user's.
func TestCachesAreApart(t *testing.T) {
	d := newDaemon(t)
	d.roomForCaches()
	d.ownWork()
	d.mustStart(shipped...)
	person := d.client(client.OperatorDoor)
	if _, err := person.AddWorkspace(t.Context(), d.work, ""); err != nil {
		t.Fatal(err)
	}
	asked := func(more map[string]any) func(string) palyra.Outcome {
		return func(script string) palyra.Outcome { return d.willing(d.inRoom(more, "sh", "-c", script)) }
	}
	r := cacheRuns{
		unasked: func(script string) palyra.Outcome {
			call := d.inRoom(nil, "sh", "-c", script)
			call.NoWait = true // whatever is asked is refused
			out, err := d.client(client.AgentDoor).Call(t.Context(), call, nil)
			if err != nil {
				t.Fatal(err)
			}
			return out
		},
		live: asked(map[string]any{"live": true}), online: asked(map[string]any{"egress": []string{"example.org:443"}}),
	}
	r.apart(t)
	d.poisonedBuild(t, r)
	d.verify()
}

// TestCachesOfAGroupAreApart: what runs leave in caches that an answer for a group of hosts covers is used by their like,
// and by runs that nobody is asked about; by no other.
func TestCachesOfAGroupAreApart(t *testing.T) {
	d := newDaemon(t)
	d.roomForCaches()
	d.ownWork()
	d.mustStart(shipped...)
	d.inWorkspace()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	run := func(script string, more map[string]any) client.CallRequest { return d.inRoom(more, "sh", "-c", script) }
	registry := map[string]any{"egress": []string{"registry.npmjs.org:443"}}
	a, _, ch, err := question(t.Context(), agent, person, run("true", registry))
	if err != nil {
		t.Fatal(err)
	}
	decide := d.palyra("approvals", "decide", string(a.ID), "allow-group", "--digest", string(a.PlanDigest))
	if out, err := decide.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if end := <-ch; end.err != nil || end.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%v %+v", end.err, end.out)
	}
	const look = eachCache + "cat f planted 2>/dev/null; done; true"
	asked, evil := strings.Repeat("asked\n", 5), strings.Repeat("evil\nevil\n", 5)
	for _, c := range []struct {
		what, script string
		more         map[string]any
		waits        bool // for a person's yes
		want         string
	}{
		{"one that writes directly", eachCache + "echo asked > f; done", map[string]any{"live": true}, true, ""},
		{"planting, unasked", eachCache + "echo evil > f; echo evil > planted; done", registry, false, ""},
		{"control: the next one of the group", look, registry, false, evil},
		{"one that writes directly, after it", look, map[string]any{"live": true}, true, asked},
		{"one with the group that writes directly", look, map[string]any{"live": true, "egress": registry["egress"]}, true, asked},
		{"one with another host", look, map[string]any{"egress": []string{"example.org:443"}}, true, asked},
		{"one with another host beside", look, map[string]any{"egress": []string{"registry.npmjs.org:443", "example.org:443"}}, true, asked},
	} {
		r := run(c.script, c.more)
		var out palyra.Outcome
		if c.waits {
			out = d.willing(r)
		} else {
			r.NoWait = true
			if out, err = agent.Call(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if out.Outcome != palyra.OutcomeFinished || out.Stdout+out.Stderr != c.want {
			t.Errorf("%s: %s %s, said %q, want %q", c.what, out.Outcome, out.Reason, out.Stdout+out.Stderr, c.want)
		}
	}
	offline := run(eachCache+"test -e planted || echo none; done", nil)
	offline.NoWait = true
	if out, err := agent.Call(t.Context(), offline, nil); err != nil || out.Outcome != palyra.OutcomeFinished || out.Stdout != "" {
		t.Errorf("what was downloaded, without a network: %v %s %s %q", err, out.Outcome, out.Reason, out.Stdout)
	}
	d.verify()
}

// poisonedBuild changes what Go has compiled, in the cache alone, and looks at what Go would link.
func (d *daemon) poisonedBuild(t *testing.T, r cacheRuns) {
	if _, err := os.Stat("/usr/local/go/bin/go"); err != nil {
		t.Fatal("go is needed at /usr/local/go/bin")
	}
	d.put("go.mod", "module m\n\ngo 1.20\n")
	d.put("m.go", "package m\n\nfunc Text() string { return \"honest\" }\n")
	const build = `export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
		grep -ao 'honest\|wicked' "$(go list -export -f '{{.Export}}' .)" | head -n 1`
	for i, c := range []struct {
		run  func(string) palyra.Outcome
		add  string
		want string
	}{
		{r.live, "", "honest"},
		{r.unasked, "; grep -rl honest $GOCACHE | xargs sed -i s/honest/wicked/g", "honest"},
		{r.unasked, "", "wicked"}, // control: it is used
		{r.live, "", "honest"},
		{r.online, "", "honest"},
	} {
		if out := c.run(build + c.add); strings.TrimSpace(out.Stdout+out.Stderr) != c.want {
			t.Errorf("%d: %s %s: %q, want %q", i, out.Outcome, out.Reason, out.Stdout+out.Stderr, c.want)
		}
	}
}

func TestCachesAreApartWithAnOrdinaryUsersDaemon(t *testing.T) {
	d := newDaemon(t)
	d.roomForCaches()
	u := user{d, d.ordinary(shipped...)}
	u.palyra(new(any), "workspace", "add", u.work)
	run := func(answers int, more ...string) func(string) palyra.Outcome {
		return func(script string) palyra.Outcome {
			yes := []palyra.Answer{palyra.AnswerAllow}[:answers]
			return u.execAnswered(u.work, yes, append(more, "--", "sh", "-c", script)...)
		}
	}
	cacheRuns{unasked: run(0), live: run(1, "--live"), online: run(1, "--egress", "example.org:443")}.apart(t)
}
