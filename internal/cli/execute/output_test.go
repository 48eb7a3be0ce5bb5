package execute

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

func newPrinted(w *bytes.Buffer, safe bool) *printed {
	return &printed{w: w, safe: safe, bare: !safe, sum: sha256.New()}
}

// However the output is cut into pieces: into a file it is the same bytes, and
// on a terminal it holds nothing that is obeyed and no character is torn.
func TestPiecesAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"abc", "\n", "é", "文", "😀", "\xff", "\xe6\x96", "\x1b[2J", "\r", "\t",
			" ", "\u202e",
		}), 0, 12).Draw(t, "parts"), "")
		given := rapid.IntRange(0, len(whole)).Draw(t, "given") // the rest comes with the outcome
		var file, screen bytes.Buffer
		raw, safe := newPrinted(&file, false), newPrinted(&screen, true)
		for at := 0; at < given; {
			n := rapid.IntRange(1, given-at).Draw(t, "n")
			for _, p := range []*printed{raw, safe} {
				p.chunk(palyra.Chunk{Offset: int64(at), Data: []byte(whole[at : at+n])})
			}
			at += n
		}
		for _, p := range []*printed{raw, safe} {
			if !p.rest([]byte(whole)) {
				t.Fatal("the outcome does not go on from the pieces")
			}
			p.flush()
		}
		if file.String() != whole {
			t.Fatalf("%q became %q", whole, file.String())
		}
		for _, r := range screen.String() {
			if !strings.ContainsRune("\n\r\t", r) && !unicode.IsPrint(r) || r == utf8.RuneError {
				t.Fatalf("%U in %q", r, screen.String())
			}
		}
		if want := show.Screen(whole); utf8.ValidString(whole) && screen.String() != want {
			t.Fatalf("a character or a line end was torn: %q, want %q", screen.String(), want)
		}
	})
}

func TestUnfinished(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "a": 0, "é": 0, "a\xc3": 1, "\xe6\x96": 2, "\xf0\x9f\x98": 3, "\xff": 0, "\x80\x80\x80": 0, "😀": 0, "\xe6a": 0,
	} {
		if got := unfinished([]byte(in)); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}

// What the outcome keeps is checked against what was printed.
func TestRestOfAnotherOutput(t *testing.T) {
	var out bytes.Buffer
	p := newPrinted(&out, false)
	p.chunk(palyra.Chunk{Data: []byte("abc")})
	if p.rest([]byte("abX and more")) || p.rest([]byte("ab")) || out.String() != "abc" {
		t.Errorf("%q", out.String())
	}
	p.chunk(palyra.Chunk{Offset: -1, Data: []byte("zz")})
	p.chunk(palyra.Chunk{Offset: 3, Data: []byte("d")})
	if out.String() != "abc" {
		t.Errorf("pieces after a gap: %q", out.String())
	}
	if !p.rest([]byte("abcd")) || out.String() != "abcd" {
		t.Errorf("%q", out.String())
	}
}

// What an outcome keeps of a long stream is put together with the pieces: a file
// gets what follows from them and nothing behind a gap, a screen gets the end too,
// and what is missing is known to the byte.
func TestEnd(t *testing.T) {
	const kept = "abcd\n… 10 bytes left out …\nopqrs" // of 19
	for pieces, want := range map[string]struct {
		file, screen    string
		missing, unseen int64
	}{
		"":                     {"abcd", "abcd\n… 10 bytes left out …\nopqrs", 15, 10},
		"ab":                   {"abcd", "abcd\n… 10 bytes left out …\nopqrs", 15, 10},
		"abcd":                 {"abcd", "abcd\n… 10 bytes left out …\nopqrs", 15, 10},
		"abcdefgh":             {"abcdefgh", "abcdefgh\n… 6 bytes left out …\nopqrs", 11, 6},
		"abcdefghijklmn":       {"abcdefghijklmnopqrs", "abcdefghijklmnopqrs", 0, 0},
		"abcdefghijklmnopq":    {"abcdefghijklmnopqrs", "abcdefghijklmnopqrs", 0, 0},
		"abcdefghijklmnopqrs":  {"abcdefghijklmnopqrs", "abcdefghijklmnopqrs", 0, 0},
		"aX":                   {"aX", "aX", -1, -1},
		"abcdefghijklmnopqrst": {"abcdefghijklmnopqrst", "abcdefghijklmnopqrst", -1, -1},
	} {
		var file, screen bytes.Buffer
		raw, safe := newPrinted(&file, false), newPrinted(&screen, true)
		for _, p := range []*printed{raw, safe} {
			p.chunk(palyra.Chunk{Data: []byte(pieces)})
		}
		if n := raw.end([]byte(kept)); n != want.missing || file.String() != want.file {
			t.Errorf("%q into a file: %d missing, %q", pieces, n, file.String())
		}
		if n := safe.end([]byte(kept)); n != want.unseen || screen.String() != want.screen {
			t.Errorf("%q on a screen: %d missing, %q", pieces, n, screen.String())
		}
	}
}

// A command that prints the line itself can make it uncertain what is missing, and
// never hide it.
func TestEndOfACommandThatPretends(t *testing.T) {
	const line = "\n… 3 bytes left out …\n"
	var out bytes.Buffer
	p := newPrinted(&out, false)
	p.chunk(palyra.Chunk{Data: []byte("ab" + line)})
	if n := p.end([]byte("ab" + line + "\n… 10 bytes left out …\nz")); n != -1 || out.String() != "ab"+line {
		t.Errorf("%d, %q", n, out.String())
	}
	if _, _, _, ok := parts([]byte("\n… 99999999999999999999 bytes left out …\n")); !ok { // no such line: too long
		t.Error("taken for a line")
	}
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestPrintedIntoNothing(t *testing.T) {
	p := &printed{w: closedPipe{}, sum: sha256.New()}
	p.chunk(palyra.Chunk{Data: []byte("abc")})
	p.chunk(palyra.Chunk{Offset: 3, Data: []byte("abc")})
	p.flush()
	p.freshLine()
	if p.broken == nil {
		t.Error("nobody noticed")
	}
}

func TestSpool(t *testing.T) {
	s := newSpool()
	var wg sync.WaitGroup
	var got strings.Builder
	wg.Go(func() {
		for c, ok := s.next(); ok; c, ok = s.next() {
			got.Write(c.Data)
		}
	})
	for _, b := range []string{"a", "b", "c"} {
		s.add(palyra.Chunk{Data: []byte(b)})
	}
	s.close()
	wg.Wait()
	if got.String() != "abc" {
		t.Errorf("%q", got.String())
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"1": 1, "512": 512, "64K": 64 << 10, "64k": 64 << 10, "512M": 512 << 20, "512MB": 512 << 20, "2GiB": 2 << 30, "1T": 1 << 40, "10B": 10,
		"8388607T": 8388607 << 40,
	} {
		if got, err := screen.ParseSize(in); err != nil || got != want {
			t.Errorf("%s: %d %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "0", "-1", "+1", "K", "1.5G", "1KK", "1i", "1iB", "1 G", "1P", "8388608T", "99999999999999999999",
		"0x10", "1BK",
	} {
		if got, err := screen.ParseSize(in); err == nil {
			t.Errorf("%s: %d", in, got)
		}
	}
	var f screen.SizeFlag
	if f.String() != "" || f.Set("1K") != nil || f.String() != "1024" || f.Type() != "size" {
		t.Error("sizeFlag")
	}
}
