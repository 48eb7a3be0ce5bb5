package journal

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra/internal/canon"
)

// anyValue draws a value as canon knows them.
func anyValue(depth int) *rapid.Generator[any] {
	leaf := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.Float64Range(-1e30, 1e30), func(n float64) any { return n }),
		rapid.SampledFrom([]any{
			json.Number("1e22"), json.Number("0"), json.Number("-1.5"), json.Number("100000000000000000000"),
			"\u2028<&>\x00\"\\",
		}),
	}
	if depth == 0 {
		return rapid.OneOf(leaf...)
	}
	inner := anyValue(depth - 1)
	return rapid.OneOf(append(leaf,
		rapid.SliceOfN(inner, 0, 4).AsAny(), rapid.MapOfN(rapid.String(), inner, 0, 4).AsAny())...)
}

func TestWalkTakesWhatCanonWrites(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b, err := canon.Marshal(anyValue(3).Draw(rt, "value"))
		if err != nil {
			rt.Fatal(err)
		}
		if w := (walker{b: b}); !w.value(0) || w.i != len(b) {
			rt.Fatalf("refused %q", b)
		}
	})
}

func TestWalkDepth(t *testing.T) {
	for _, depth := range []int{canon.MaxDepth, canon.MaxDepth + 1} {
		b := []byte(strings.Repeat("l1:", depth) + "z")
		_, err := canon.Decode(b)
		if w := (walker{b: b}); w.value(0) != (err == nil) {
			t.Errorf("depth %d: canon says %v", depth, err)
		}
	}
}

// FuzzWalk: the walk accepts a value exactly when canon.Decode does. A byte that
// one of them lets through and the other does not is a second encoding.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{
		"z", "t", "f", "n1:0", "n2:-0", "n2:-1", "n2:01", "n22:1234567890123456789012", "n4:1e22", "n3:1e2", "n5:15e-1", "n0:", "n1:-",
		"s0:", "s1:a", "s01:a", "s2:a", "s1:\xff", "l0:", "l2:zt", "l1:", "l99999999999:", "m0:", "m1:s1:az", "m2:s1:bzs1:az", "m2:s1:azs1:az",
		"m1:n1:1z", "x", "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := canon.Decode(b)
		w := walker{b: b}
		if got := w.value(0) && w.i == len(b); got != (err == nil) {
			t.Errorf("%q: walk says %v, canon says %v", b, got, err)
		}
	})
}

// FuzzTranscode: where the fast way from JSON answers, its answer is canon's.
func FuzzTranscode(f *testing.F) {
	for _, s := range []string{
		`null`, `true`, `false`, `"a"`, `"\u00e9\n\"\\\/"`, `"\ud83d\ude00"`, `"\ud800"`, `"\uD83D"`, "\"\x01\"", `"a`, `"\q"`, `"\u12"`,
		`"\u00E9"`,
		`0`, `-0`, `01`, `1.5`, `1e3`, `-12`, `--1`, `1-`, `12345678901234567890123`,
		`[]`, `[1,"x",[null]]`, `[1,]`, `[ 1]`, `{}`, `{"b":1,"a":{"c":[]}}`, `{"a":1,"a":2}`, `{"a":1,}`, `{"a"}`, `{a:1}`, `{"":""}`,
		`{"a":1} `, `nul`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, wantErr := canon.FromJSON(raw)
		got, err := fromJSON(raw)
		if (err == nil) != (wantErr == nil) || string(got) != string(want) {
			t.Errorf("%q: %q %v, canon %q %v", raw, got, err, want, wantErr)
		}
	})
}

func TestTranscodeIsUsed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		raw, err := json.Marshal(anyValue(3).Draw(rt, "value"))
		if err != nil {
			rt.Fatal(err)
		}
		want, err := canon.FromJSON(raw)
		if err != nil {
			rt.Fatal(err)
		}
		if got, err := fromJSON(raw); err != nil || string(got) != string(want) {
			rt.Fatalf("%s: %q %v, canon %q", raw, got, err, want)
		}
	})
	raw, err := json.Marshal(event(1))
	if err != nil {
		t.Fatal(err)
	}
	x := transcoder{in: raw}
	if !x.value(0) || x.i != len(raw) {
		t.Errorf("an ordinary event takes the slow way: %s", raw)
	}
}

func TestParseEntry(t *testing.T) {
	const (
		body = "s4:bodym1:s1:an1:1"
		call = "s7:call_ids1:c"
		kind = "s4:kinds1:k"
		seq  = "s3:seqn2:12"
		when = "s4:times1:t"
	)
	got, err := parseEntry([]byte("m5:" + body + call + kind + seq + when))
	if err != nil || got.seq != 12 || string(got.kind) != "k" || string(got.call) != "c" || string(got.time) != "t" ||
		string(got.body) != "m1:s1:an1:1" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := parseEntry([]byte("m4:" + body + kind + seq + when)); err != nil || got.call != nil {
		t.Errorf("without a call: %+v, %v", got, err)
	}
	for _, bad := range []string{
		"", "m", "m4:", "l4:" + body + kind + seq + when, "m3:" + body + kind + seq, "m4:" + body + kind + seq + when + "z",
		"m4:" + kind + body + seq + when, "m5:" + body + kind + call + seq + when, "m5:" + body + "s7:call_ids0:" + kind + seq + when,
		"m4:" + body + kind + "s3:seqs2:12" + when, "m4:" + body + kind + "s3:seqn4:12e9" + when, "m4:" + body + kind + "s3:seqn2:+1" + when,
		"m4:" + body + kind + "s3:seqn2:01" + when, "m4:" + body + kind + "s3:seqn20:99999999999999999999" + when,
		"m4:s4:bodys1:x" + kind + seq + when, "m4:s4:bodym1:s1:a" + kind + seq + when, "m4:s4:bodyz" + kind + seq + when,
		"m4:" + body + "s4:kinds1:\xff" + seq + when, "m4:" + body + kind + seq + "s4:timen1:1", "m5:" + body + kind + seq + when + "s1:xz",
	} {
		if f, err := parseEntry([]byte(bad)); err == nil {
			t.Errorf("%q was taken: %+v", bad, f)
		}
	}
}

// What is taken for an entry is one that canon reads, with the same values.
func FuzzParseEntry(f *testing.F) {
	d, err := newCatalogue().draft(event(0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(d.lineAt(1, fixedTime).entry)
	f.Add([]byte("m4:s4:bodym0:s4:kinds1:ks3:seqn1:1s4:times1:t"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseEntry(b)
		if err != nil {
			return
		}
		e, err := decode(b)
		if err != nil {
			t.Fatalf("%q: canon refuses it: %v", b, err)
		}
		if e.Seq != got.seq || e.Kind != string(got.kind) || string(e.Call) != string(got.call) || e.Time != string(got.time) || e.Body == nil {
			t.Errorf("%q: %+v, canon %+v", b, got, e)
		}
	})
}

func TestLookup(t *testing.T) {
	b, err := canon.FromJSON([]byte(`{"a":{"call_id":"inner"},"call_id":"outer","z":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{string(b): "outer", "m0:": "", "l0:": "", "m1:s7:call_idn1:1": "", "m1:s7:call_i": "", "": ""} {
		if got := lookup([]byte(text), "call_id"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
