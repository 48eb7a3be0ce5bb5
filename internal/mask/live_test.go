package mask

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// watcher notes how much came when.
type watcher struct {
	bytes.Buffer
	began time.Time
	when  []string
}

func (w *watcher) Write(b []byte) (int, error) {
	w.when = append(w.when, fmt.Sprint(time.Since(w.began), " ", len(b)))
	return w.Buffer.Write(b)
}

const livePause = 50 * time.Millisecond

// watched writes pieces, each after some time, and returns what came when.
func watched(t *testing.T, m *Masker, wait time.Duration, pieces ...string) (w *watcher) {
	synctest.Test(t, func(*testing.T) {
		w = &watcher{began: time.Now()}
		l := m.Live(w, livePause)
		for _, p := range pieces {
			_, _ = l.Write([]byte(p))
			<-time.After(wait)
		}
		<-time.After(time.Second)
		if err := l.Flush(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// A guess that begins like a value comes when any other comes, however much of it is right, and however it is written. Only
// a whole value is told apart.
func TestLiveTellsNoBeginnings(t *testing.T) {
	const value = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	m := knowing(map[string]string{"token": value, "long": strings.Repeat("another value, which is longer ", 9)})
	for _, wait := range []time.Duration{0, 5 * time.Millisecond, livePause - 1, livePause + 1} {
		for n := range len(value) {
			for _, cut := range []int{1, n/2 + 1, n + 1} {
				right, wrong := "> "+value[:n], "> "+strings.Repeat("-", n)
				var seen [2]*watcher
				for i, s := range []string{right, wrong} {
					var pieces []string
					for p := range slices.Chunk([]byte(s), cut) {
						pieces = append(pieces, string(p))
					}
					seen[i] = watched(t, m, wait, append(pieces, ", or not\n")...)
				}
				if !slices.Equal(seen[0].when, seen[1].when) {
					t.Fatalf("%d right letters, in pieces of %d every %v: came\n%q, others\n%q", n, cut, wait, seen[0].when, seen[1].when)
				}
				if got := seen[0].String(); got != right+", or not\n" {
					t.Fatalf("%q became %q", right, got)
				}
			}
		}
	}
}

// What is printed in one go comes masked; of what comes with pauses the rest is masked once all of it was there; and nothing
// waits for longer than it may.
func TestLiveMasks(t *testing.T) {
	m := knowing(map[string]string{"token": "a value in pieces", "key": strings.Repeat("0123456789abcdef", 4096)})
	for _, c := range []struct {
		wait   time.Duration
		pieces []string
		want   string
	}{
		{0, []string{"it is a value in pieces.\n"}, "it is [secret token].\n"},
		{0, []string{"it is a val", "ue in", " pieces.\n"}, "it is [secret token].\n"},
		{20 * time.Millisecond, []string{"it is a val", "ue in", " pieces.\n"}, "it is [secret token].\n"},
		{60 * time.Millisecond, []string{"it is a val", "ue in", " pieces.\n"}, "it is a value in[secret token].\n"},
		{60 * time.Millisecond, []string{"a value in pieces", "a value in pieces"}, "[secret token][secret token]"},
	} {
		if got := watched(t, m, c.wait, c.pieces...); got.String() != c.want {
			t.Errorf("%q became %q", c.pieces, got.String())
		}
	}
	prompt := watched(t, m, time.Second, "Name: ", "x")
	if len(prompt.when) != 2 || prompt.when[0] != fmt.Sprint(livePause, " ", 6) {
		t.Errorf("a prompt came at %q", prompt.when)
	}
	drip := watched(t, m, 10*time.Millisecond, slices.Repeat([]string{"."}, 100)...)
	if len(drip.when) < 4 || drip.when[0] != fmt.Sprint(longestHold*livePause, " ", 21) {
		t.Errorf("drops came at %q", drip.when)
	}
}

// However it is cut, and whenever it comes: no whole form is in what comes out, and what has none comes as it is.
func TestLiveLetsNoFormThrough(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		value := drawValue(r)
		m := knowing(map[string]string{"s": value, "t": "-----BEGIN OPENSSH PRIVATE KEY-----\nbase64 of the key"})
		way := ways[rapid.SampledFrom([]string{"raw", "hex", "query", "JSON", "base64"}).Draw(r, "way")]
		text := rapid.String().Draw(r, "before") + way(value) + rapid.String().Draw(r, "after")
		if rapid.Bool().Draw(r, "none") {
			text = rapid.String().Draw(r, "text") + "-----BEGIN OPENSSH PRIVATE KEY-----\nbase64 of another"
		}
		wait := rapid.SampledFrom([]time.Duration{0, 10, 60}).Draw(r, "wait") * time.Millisecond
		var pieces []string
		for p := range slices.Chunk([]byte(text), rapid.SampledFrom([]int{1, 3, 11, 12, 13, 64, 1000}).Draw(r, "cut")) {
			pieces = append(pieces, string(p))
		}
		got := watched(t, m, wait, pieces...).String()
		if m.Has(got) {
			r.Fatalf("a form came through: %q", got)
		}
		if wait*time.Duration(len(pieces)) < livePause && got != m.String(text) || !m.Has(text) && got != text {
			r.Fatalf("%q became %q", text, got)
		}
	})
}
