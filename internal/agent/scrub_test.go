package agent

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"palyra"
)

// However a stream is cut into pieces, the key is not in what is read from it, and
// all the rest is.
func TestScrubbed(t *testing.T) {
	const key = "sk-aab-aab-c"
	key2 := func() palyra.Secret { return palyra.NewSecret([]byte(key)) }
	text := "x" + key + "sk-aab-" + key + key + "sk-aab-aab-d" + strings.Repeat("y", 9000) + key[:5]
	want := strings.ReplaceAll(text, key, scrubMark)
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
		"halves":       iotest.HalfReader(strings.NewReader(text)),
		"with its end": iotest.DataErrReader(strings.NewReader(text)),
	} {
		if got, err := io.ReadAll(scrubbed(io.NopCloser(r), key2())); err != nil || string(got) != want {
			t.Errorf("%s: %.100q %v", name, got, err)
		}
	}
	broken := errors.New("broken")
	got, err := io.ReadAll(scrubbed(io.NopCloser(io.MultiReader(strings.NewReader("a"+key[:4]), iotest.ErrReader(broken))), key2()))
	if !errors.Is(err, broken) || string(got) != "a"+key[:4] {
		t.Errorf("%q %v", got, err)
	}
	if got, err := io.ReadAll(scrubbed(io.NopCloser(strings.NewReader(text)), palyra.Secret{})); err != nil || string(got) != text {
		t.Errorf("without a key: %v", err)
	}
}

// What has come is read at once: a stream is not held up for what may follow.
func TestScrubbedDoesNotWait(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	s := scrubbed(r, palyra.NewSecret([]byte("sk-1234")))
	go func() { _, _ = w.Write([]byte("data: hello\n\nsk")) }()
	var got bytes.Buffer
	b := make([]byte, 3)
	for got.Len() < len("data: hello\n\n") {
		n, err := s.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(b[:n])
	}
	if got.String() != "data: hello\n\n" {
		t.Errorf("%q", got.String())
	}
}
