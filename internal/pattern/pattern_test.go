package pattern

import (
	"context"
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestHeavyExpressionsAreRefused(t *testing.T) {
	for _, expr := range []string{
		strings.Repeat(".{0,1000}", 110) + "Q", "(a{100}){100}", "((a{10}){10}){100}", `(\pL{50}|x{900}){5}`,
		"(?i)" + strings.Repeat(`[^\x{100}-\x{10ffff}]*`, 40), strings.Repeat("a", 5000), strings.Repeat("[^a]{1,300}", 20),
	} {
		if _, err := Compile(expr); !errors.Is(err, ErrTooHeavy) && !errors.As(err, new(*syntax.Error)) {
			t.Errorf("%s: %v", expr, err)
		}
	}
	for _, expr := range []string{"", "TODO|FIXME", `\b[\w.+-]{1,64}@[\w-]+\.[a-z]{2,24}\b`, "(?i)func +[a-z]+", `^.{0,1000}$`} {
		if _, err := Compile(expr); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
	}
	if _, err := Compile("("); errors.Is(err, ErrTooHeavy) || err == nil {
		t.Errorf("%v", err)
	}
}

// The weight is at least in proportion to the machine that is built.
func TestWeightBoundsTheMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{
			"a", "[a-f0-9]", `\pL`, "(?i:k)", ".{0,30}", "(x|yy|z{3}){2,5}", `\d+`, "(?:a*)*",
			"[^\\x00-\\x{10ffff}]", "", "é{7}",
		})
		expr := strings.Join(rapid.SliceOfN(piece, 1, 30).Draw(t, "pieces"), rapid.SampledFrom([]string{"", "|"}).Draw(t, "by"))
		re, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			return
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		weight, err := Weight(expr)
		if err != nil || weight <= MaxWeight && len(prog.Inst) > 4*weight+8 {
			t.Fatalf("%s weighs %d and has %d instructions (%v)", expr, weight, len(prog.Inst), err)
		}
	})
}

// A search in steps finds what a search at once does.
func TestFindIsRegexps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expr := rapid.SampledFrom([]string{"ab+c", "(a|b){3,9}", "^x", "x$", `\bé`, ".{40}Z", "", "[^a-z]", `(?i)K\x{212a}`}).Draw(t, "expr")
		p, err := Compile(expr)
		if err != nil {
			t.Fatal(err)
		}
		b := []byte(strings.Join(
			rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "c", "x", " é", "\xff", "Z", "kK", strings.Repeat("y", 300)}), 0, 40).
				Draw(t, "text"), ""))
		want := regexp.MustCompile(expr).FindIndex(b)
		p.weight = rapid.SampledFrom([]int{1, atOnce}).Draw(t, "weight") // the second: in the smallest steps
		got, err := p.Find(b, func() error { return nil })
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%q in %q: %v %s", expr, b, err, diff)
		}
	})
}

// Whatever is searched, it is asked often enough whether it is still wanted.
func TestFindLooksUp(t *testing.T) {
	p, err := Compile(strings.Repeat(".{0,1000}", 2) + "Q")
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("a", 64<<10))
	asked := 0
	_, err = p.Find(text, func() error {
		if asked++; asked == 4 {
			return context.Canceled
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || asked != 4 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}
