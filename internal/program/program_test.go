package program

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func shipped(t *testing.T) *Table {
	t.Helper()
	tab, err := Load(tableFiles)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestShipped(t *testing.T) {
	tab := shipped(t)
	if len(tab.Programs) < 590 || len(tab.Bindings) < 140 || len(tab.Refused) < 20 || len(tab.Harmless) < 20 || len(tab.Multicall) == 0 {
		t.Errorf("%d programs, %d bindings, %d refusals, %d harmless variables", len(tab.Programs), len(tab.Bindings), len(tab.Refused),
			len(tab.Harmless))
	}
	for name, b := range tab.Bindings {
		if !slices.Contains(b.Names, name) || b.Source == "" {
			t.Errorf("%s: %+v", name, b)
		}
		for letter, k := range b.Letters {
			if len(letter) != 1 || k == Pair {
				t.Errorf("%s: -%s is a letter of kind %d", name, letter, k)
			}
		}
	}
	for name, s := range tab.Programs {
		for o, n := range s.Arity {
			if n != 2 {
				t.Errorf("%s %s takes %d words, which nobody reads", name, o, n)
			}
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no json":           `{`,
		"unknown field":     `{"weird": 1}`,
		"no source":         `{"programs": [{"names": ["x"]}]}`,
		"no name":           `{"programs": [{"source": "x(1)"}]}`,
		"twice":             `{"programs": [{"names": ["x", "x"], "source": "x(1)"}]}`,
		"set":               `{"programs": [{"names": ["x"], "source": "x(1)", "use": ["y"]}]}`,
		"set of a part":     `{"programs": [{"names": ["x"], "source": "x(1)", "sub": {"y": {"use": ["z"]}}}]}`,
		"binding's source":  `{"bindings": [{"names": ["x"]}]}`,
		"binding's name":    `{"bindings": [{"source": "x(1)"}]}`,
		"bound twice":       `{"bindings": [{"names": ["x"], "source": "x(1)"}, {"names": ["x"], "source": "x(1)"}]}`,
		"two things":        `{"bindings": [{"names": ["x"], "source": "x(1)", "files": "-f", "values": "-f"}]}`,
		"variables' source": `{"refused": [{"why": "x", "names": "X"}]}`,
	} {
		if _, err := Load(fstest.MapFS{"table/x.json": {Data: []byte(text)}}); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
}

// A binding knows the options of its program, says of each what it is to it, and inherits how the
// command among the words is found.
func TestInherit(t *testing.T) {
	tab, err := Load(fstest.MapFS{
		"table/a.json": {Data: []byte(
			`{"bindings": [{"names": ["x", "y"], "source": "x(1)", "files": "-f", "live": true, "wraps": true, "follow": true}]}`)},
		"table/b.json": {Data: []byte(`{"sets": {"s": {"values": "--set"}}, "programs": [
			{"names": ["x"], "source": "x(1)", "use": ["s"], "flags": "-a --all", "values": "-v", "paths": "-f", "optional": "-j --jobs", "chdir": "-C", "arity": {"--pair": 2},
			 "raise": {"code": "-r"}, "wrap": {"kind": "command", "skip": 1, "assign": true}},
			{"names": ["z"], "source": "z(1)", "style": "word", "flags": "-a", "wrap": {"kind": "line"}}, {"names": ["w"], "source": "w(1)", "wrap": {"kind": "cmd"}}]}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	x, y, z := tab.Bindings["x"], tab.Bindings["y"], tab.Bindings["z"]
	if want := map[string]Kind{"a": Flag, "v": Value, "f": File, "j": Attached, "C": Dir}; !maps.Equal(x.Letters, want) {
		t.Errorf("letters %v", x.Letters)
	}
	if want := map[string]Kind{"all": Flag, "set": Value, "jobs": Attached, "pair": Pair}; !maps.Equal(x.Longs, want) {
		t.Errorf("words %v", x.Longs)
	}
	if x.Skip != 1 || !x.Assigns || !x.Follow || y == x || y.Skip != 0 || len(y.Letters) != 1 {
		t.Errorf("%+v, %+v", x, y)
	}
	if z == nil || !z.Wraps || !z.Live || z.Follow || !z.Word() || z.Longs["a"] != Flag || tab.Bindings["w"] != nil {
		t.Errorf("%+v", z)
	}
}

// takes reports whether an option takes the next word.
func takes(k Kind) bool { return k != Flag && k != Attached && k != Clear }

// What is said of an option twice would drift: rows say only what the Spec does not, and nothing that
// it denies.
func TestBindingsSayNothingTwice(t *testing.T) {
	tab := shipped(t)
	for name, b := range tab.Bindings {
		s := tab.Programs[name]
		if s == nil {
			continue
		}
		all, err := Binding{Style: b.Style}.with(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range []struct {
			options string
			kind    Kind
		}{
			{b.Flags, Flag},
			{b.Values, Value},
			{b.Text, Value},
			{b.Attach, Attached},
			{b.Dirs, Dir},
			{b.Files, File},
			{b.Inline, Inline},
			{b.Next, Next},
		} {
			for _, o := range words(list.options) {
				bare := strings.TrimLeft(o, "-")
				k, known := all.Longs[bare]
				if len(bare) == 1 && b.Style != StyleWord {
					k, known = all.Letters[bare]
				}
				switch {
				case !known:
				case k == list.kind && everywhere(tab, b, o):
					t.Errorf("%s %s is said twice", name, o)
				case takes(k) != takes(list.kind) && !(b.Plus && list.kind == Inline): // a shell's text is its first operand
					t.Errorf("%s %s takes a word to one and none to the other", name, o)
				}
			}
		}
	}
}

// everywhere reports whether the Specs of all names of a row know an option.
func everywhere(tab *Table, b *Binding, o string) bool {
	return !slices.ContainsFunc(b.Names, func(name string) bool {
		s := tab.Programs[name]
		return s == nil || s.Style == StyleNone || !slices.ContainsFunc(s.All(), func(all Options) bool {
			return slices.Contains(words(all.Flags, all.Values, all.Paths, all.Outputs, all.Scripts, all.Optional, all.Chdir), o)
		})
	})
}

// Whoever runs a command for somebody is known as that to both readers.
func TestWrappersAreKnownToBoth(t *testing.T) {
	tab := shipped(t)
	for name, s := range tab.Programs {
		if s.Wrap == nil || s.Wrap.Kind == WrapCmd {
			continue
		}
		switch b := tab.Bindings[name]; {
		case b == nil || !b.Live:
			t.Errorf("%s runs commands and is not bound", name)
		case !b.Wraps && !b.Script:
			t.Errorf("%s runs commands and is no wrapper to those who bind", name)
		case b.Wraps && (b.Skip != s.Wrap.Skip || b.Number != s.Wrap.Number):
			t.Errorf("%s skips %d words to one and %d to the other", name, b.Skip, s.Wrap.Skip)
		}
	}
	for name, b := range tab.Bindings {
		if s := tab.Programs[name]; b.Wraps && (s == nil || s.Wrap == nil) && !b.Applets {
			t.Errorf("%s is a wrapper only to those who bind", name)
		}
	}
}

// No variable is harmless and refused, but for those of which a single value is known to do nothing:
// the line of a shell may set them to that, a call cannot set them at all.
func TestVariablesAgree(t *testing.T) {
	tab := shipped(t)
	fixed := regexp.MustCompile(`^[a-z0-9]+$`)
	for name, expr := range tab.Harmless {
		for _, r := range tab.Refused {
			if slices.Contains(r.Except, name) || !slices.ContainsFunc(words(r.Names), func(p string) bool { return like(p, name) }) {
				continue
			}
			if !fixed.MatchString(expr) {
				t.Errorf("%s is refused (%s), and harmless with %s", name, r.Why, expr)
			}
		}
	}
}

func like(pattern, name string) bool {
	re := regexp.MustCompile("(?i)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
	return re.MatchString(name)
}

func FuzzLoad(f *testing.F) {
	f.Add(`{"programs": [{"names": ["x"], "source": "x(1)", "flags": "-a - --", "wrap": {"kind": "command"}}], "bindings": [{"names": ["x"], "source": "y", "files": "-f --"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		tab, err := Load(fstest.MapFS{"table/x.json": {Data: []byte(text)}})
		if err != nil {
			return
		}
		for name, b := range tab.Bindings {
			if b == nil || b.Letters == nil || b.Longs == nil {
				t.Errorf("%q: %+v", name, b)
			}
		}
	})
}

// Programs that reach beyond are known as programs, each once.
func TestBeyond(t *testing.T) {
	tab := shipped(t)
	seen := map[string]bool{}
	for _, name := range tab.Beyond {
		if tab.Programs[name] == nil || seen[name] {
			t.Errorf("%s is not known, or twice there", name)
		}
		seen[name] = true
	}
	if len(seen) < 40 {
		t.Errorf("%d programs reach beyond", len(seen))
	}
}
