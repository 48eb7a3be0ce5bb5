package process

import (
	"os"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"palyra"
)

// scene is a world and a call in it: everything that decides what would happen,
// and one file that does not.
type scene struct {
	Tool     string // make, python3 or cat: which of the inputs counts
	Program  string
	Script   string // "" is missing
	Makefile string
	Args     []string
	Env      map[string]string
	Cwd      string
	Stdin    string
	Live     bool
	Memory   int64
	Timeout  int64
	Tier     string

	Noise string // content of a file that nothing binds
}

func draw(t *rapid.T, name string) scene {
	few := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name+" "+what) }
	s := scene{
		Tool: few("tool", "make", "python3", "cat"), Program: few("program", "1", "2"), Script: few("script", "", "a", "b"),
		Makefile: few("makefile", "", "a", "b"),
		Args:     rapid.SampledFrom([][]string{{"x"}, {"x", "y"}, {"xy"}, {"x", ""}}).Draw(t, name+" args"), Env: map[string]string{},
		Cwd: few("cwd", ".", "sub"), Stdin: few("stdin", "", "in", "other"), Noise: few("noise", "1", "2"), Tier: few("tier", "b", "c"),
		Memory:  rapid.SampledFrom([]int64{1 << 20, 1 << 21}).Draw(t, name+" memory"),
		Timeout: rapid.SampledFrom([]int64{1000, 2000}).Draw(t, name+" timeout"),
	}
	for _, v := range []string{"A", "B"} {
		if value := few(v, "none", "", "1"); value != "none" {
			s.Env[v] = value
		}
	}
	if s.Tool == "cat" { // no interpreter: it may be fed live, and its operands count for nothing
		s.Live = s.Stdin == "" && few("live", "yes", "no") == "yes"
	}
	return s
}

// bound is what of a scene its plan has to bind.
func (s scene) bound() scene {
	s.Noise = ""
	if s.Tool != "make" {
		s.Makefile = ""
	}
	if s.Tool != "python3" || s.Args[0] != "x" {
		s.Script = ""
	}
	return s
}

func (s scene) digest(b *box) palyra.Digest {
	for _, dir := range []string{".", "sub"} {
		for rel, content := range map[string]string{"Makefile": s.Makefile, "x": s.Script} {
			rel = dir + "/" + rel
			if content == "" {
				_ = os.Remove(b.path(rel))
				continue
			}
			b.put(rel, content, 0o644)
		}
	}
	b.put("noise", s.Noise, 0o644)
	b.put("bin/"+s.Tool, native(s.Program), 0o755)
	a := args{
		"command": b.path("bin/" + s.Tool), "args": s.Args, "env": s.Env, "cwd": s.Cwd, "tier": s.Tier,
		"limits": args{"memory_bytes": s.Memory}, "timeout_ms": s.Timeout,
	}
	if s.Stdin != "" {
		a["stdin"] = s.Stdin
	}
	if s.Live {
		a["stdin_live"] = true
	}
	return b.digest(a)
}

// Property: two scenes have one digest exactly when everything that decides what
// happens is the same in both.
func TestDigestIsOfTheScene(t *testing.T) {
	each(t, func(b *box) {
		b.d = driver(b, Config{Tiers: everywhere{}})
		b.mkdir("sub")
		rapid.Check(b.T, func(t *rapid.T) {
			one := draw(t, "one")
			two := one
			if rapid.Bool().Draw(t, "another") { // else only what does not count may differ
				two = draw(t, "two")
			}
			two.Noise = draw(t, "noise").Noise
			same := reflect.DeepEqual(one.bound(), two.bound())
			if d1, d2 := one.digest(b), two.digest(b); (d1 == d2) != same {
				t.Fatalf("one digest %v, same %v:\n%+v\n%+v", d1 == d2, same, one, two)
			}
		})
	})
}

// Each change by itself gives another digest, and taking it back the first.
func TestEveryPartIsBound(t *testing.T) {
	each(t, func(b *box) {
		b.d = driver(b, Config{Tiers: everywhere{}})
		b.mkdir("sub")
		base := scene{
			Tool: "make", Program: "1", Makefile: "a", Args: []string{"x"}, Env: map[string]string{"A": "1"}, Cwd: ".", Stdin: "in",
			Memory: 1 << 20, Timeout: 1000, Tier: "b", Noise: "1",
		}
		was := base.digest(b)
		for name, change := range map[string]func(*scene){
			"tool": func(s *scene) { s.Tool = "cat" }, "program": func(s *scene) { s.Program = "2" },
			"makefile":    func(s *scene) { s.Makefile = "b" },
			"no makefile": func(s *scene) { s.Makefile = "" }, "args": func(s *scene) { s.Args = []string{"x", ""} },
			"env value": func(s *scene) { s.Env = map[string]string{"A": ""} },
			"env name":  func(s *scene) { s.Env = map[string]string{"B": "1"} }, "no env": func(s *scene) { s.Env = nil },
			"cwd":   func(s *scene) { s.Cwd = "sub" },
			"stdin": func(s *scene) { s.Stdin = "In" }, "no stdin": func(s *scene) { s.Stdin = "" }, "memory": func(s *scene) { s.Memory-- },
			"timeout": func(s *scene) { s.Timeout-- }, "tier": func(s *scene) { s.Tier = "c" },
		} {
			s := base
			change(&s)
			if s.digest(b) == was {
				b.Errorf("%s is not bound", name)
			}
		}
		base.Noise = "2"
		if base.digest(b) != was {
			b.Error("something that decides nothing is bound")
		}
	})
}

func TestScriptBytesAreBound(t *testing.T) {
	each(t, func(b *box) {
		b.tools("python3")
		seen := map[palyra.Digest]string{}
		for _, content := range []string{"-", "a", "b", ""} {
			if content != "-" {
				b.put("x.py", content, 0o644)
			}
			d := b.digest(run("bin/python3 x.py"))
			if was, twice := seen[d]; twice {
				b.Errorf("%q and %q have one digest", was, content)
			}
			seen[d] = content
		}
		b.put("s", "#!./i\n", 0o755)
		b.put("i", native("1"), 0o755)
		one := b.digest(run("./s"))
		b.put("i", native("2"), 0o755)
		if b.digest(run("./s")) == one {
			b.Error("the interpreter is not bound")
		}
	})
}
