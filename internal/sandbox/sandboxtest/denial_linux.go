package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// attemptResult is the probe's report of one attempt.
type attemptResult struct {
	Op, Errno, Error, Got string
}

// control is how an attempt is shown to be a real one.
type control int

const (
	works     control = iota // outside, as the same user, it succeeds
	worksRoot                // outside it succeeds for root, where the suite is root
	differs                  // outside, for the suite's user, it does not fail in this way
	differsRoot
	unshown // it cannot be shown; its row says why
)

// denial is an attempt that must fail inside.
type denial struct {
	what  string
	op    string // words of the probe
	errno string // how it must fail; empty: in any way. "EPERM|EACCES" is either
	control
}

// inside has the probe make attempts in the sandbox.
func (b *bench) inside(t *testing.T, attempts []string) []attemptResult {
	t.Helper()
	return b.insideAs(t, order{}, attempts)
}

// insideAs is inside in a run of a certain kind.
func (b *bench) insideAs(t *testing.T, o order, attempts []string) []attemptResult {
	t.Helper()
	o.argv = append([]string{b.probe, "try"}, attemptWords(attempts)...)
	e := b.run(t, o)
	if e.Code != 0 || e.Signal != "" {
		t.Errorf("probe inside: code %d, signal %q, limit %q: %s", e.Code, e.Signal, e.Limit, clip(e.stderr))
	}
	return verdicts(t, e.stdout, len(attempts))
}

// outsideAs has the probe make them without any sandbox.
func (b *bench) outsideAs(t *testing.T, who person, attempts []string) []attemptResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // cleanups try as well
	defer cancel()
	cmd := exec.CommandContext(ctx, b.tool, append([]string{"try"}, attemptWords(attempts)...)...)
	cmd.Dir, cmd.SysProcAttr, cmd.Env = b.ws, who.credential(), []string{
		"HOME=" + b.base + "/private-control/home",
		"TMPDIR=" + b.base + "/private-control/tmp",
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("probe outside: %v: %s", err, stderr.String())
	}
	return verdicts(t, string(out), len(attempts))
}

func attemptWords(attempts []string) []string {
	var words []string
	for i, a := range attempts {
		if i > 0 {
			words = append(words, "+")
		}
		words = append(words, strings.Split(a, " ")...)
	}
	return words
}

func verdicts(t *testing.T, text string, want int) []attemptResult {
	t.Helper()
	var all []attemptResult
	dec := json.NewDecoder(strings.NewReader(text))
	for dec.More() {
		var v attemptResult
		check(t, dec.Decode(&v))
		all = append(all, v)
	}
	if len(all) != want {
		t.Fatalf("%d verdicts of %d attempts: %s", len(all), want, clip(text))
	}
	return all
}

// deny checks that every attempt fails inside as it must, and its control.
func (b *bench) deny(t *testing.T, all []denial) {
	t.Helper()
	b.denyAs(t, order{}, all)
}

// denyAs is deny in a run of a certain kind.
func (b *bench) denyAs(t *testing.T, o order, all []denial) {
	t.Helper()
	ops := make([]string, len(all))
	for i, d := range all {
		ops[i] = d.op
	}
	for i, v := range b.insideAs(t, o, ops) {
		b.judge(t, all[i], v)
	}
	b.controls(t, all)
}

func (b *bench) judge(t *testing.T, d denial, v attemptResult) {
	t.Helper()
	if b.lacks(t, d.what) {
		if v.Errno != "" {
			t.Errorf("%s: the tier is said to lack this, but it fails inside with %s", d.what, v.Errno)
		}
		return
	}
	if v.Errno == "" {
		t.Errorf("%s: succeeds inside (%s), got %q", d.what, d.op, clip(v.Got))
	} else if !failsAs(v, d) {
		t.Errorf("%s: fails inside with %s, want %s (%s)", d.what, v.Errno, d.errno, d.op)
	}
}

func failsAs(v attemptResult, d denial) bool {
	if d.errno == "" {
		return v.Errno != ""
	}
	return slices.ContainsFunc(strings.Split(d.errno, "|"), func(e string) bool { return v.Errno == e })
}

// controls makes the same attempts outside.
func (b *bench) controls(t *testing.T, all []denial) {
	t.Helper()
	for _, d := range all {
		who, isRoot := b.who, os.Geteuid() == 0
		switch {
		case d.control == unshown, !isRoot && (d.control == worksRoot || d.control == differsRoot):
			continue
		case d.control != works:
			who = self()
		}
		v := b.outsideAs(t, who, []string{d.op})[0]
		switch d.control {
		case works, worksRoot:
			if v.Errno != "" {
				t.Errorf("control: %s: fails outside with %s (%s)", d.what, v.Error, d.op)
			}
		default:
			if failsAs(v, d) {
				t.Errorf("control: %s: fails outside with %s as well (%s)", d.what, v.Errno, d.op)
			}
		}
	}
}

// shown removes the control of an attempt that the suite's own user cannot make outside either.
func (b *bench) shown(t *testing.T, d denial) denial {
	t.Helper()
	if v := b.outsideAs(t, self(), []string{d.op})[0]; v.Errno != "" {
		d.control = unshown
		if os.Geteuid() == 0 {
			t.Logf("UNPROVEN HERE: %s: it fails outside as well: %s", d.what, v.Errno)
		}
	}
	return d
}

// allow checks that attempts succeed inside.
func (b *bench) allow(t *testing.T, ops ...string) []attemptResult {
	t.Helper()
	return b.allowAs(t, order{}, ops...)
}

// allowAs is allow in a run of a certain kind.
func (b *bench) allowAs(t *testing.T, o order, ops ...string) []attemptResult {
	t.Helper()
	all := b.insideAs(t, o, ops)
	for i, v := range all {
		if v.Errno != "" {
			t.Errorf("%s: fails inside with %s", ops[i], v.Error)
		}
	}
	return all
}
