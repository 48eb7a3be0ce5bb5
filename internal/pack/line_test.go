package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

// What is packed rests on the words and their order: they never change.
func TestTheWordsStay(t *testing.T) {
	const want = "3ef220319742e6b701a16e47e16af3f3bebc27ade5940f9694671ab63ca94bfb"
	if got := sha256.Sum256([]byte(wordList)); hex.EncodeToString(got[:]) != want {
		t.Errorf("the words of version %d are %x; others need another version", lineVersion, got)
	}
	if len(words) > 128+256 || len(wordIndex) != len(words) {
		t.Errorf("%d words, %d different ones: they have two numbers of a byte, and each has one", len(words), len(wordIndex))
	}
}

const goldenLine = "m5:s4:bodym4:s7:call_ids26:01M7J0W0FC543MB8K52PW33BK1s9:exit_coden2:-1s7:outcomes8:finisheds11:plan_digests71:sha256:" +
	"efad2addb5b803e31a1bb64e6901da519d4d8476393567233d7bd2bd2949eeb8s7:call_ids26:01M7J0W0FC543MB8K52PW33BK1" +
	"s4:kinds13:call.finisheds3:seqn3:515s4:times30:2026-11-16T11:11:25.681886295Z"

// A packed line from the first day can be read for ever.
func TestGoldenLine(t *testing.T) {
	raw, err := base64.StdEncoding.DecodeString(
		"AUWARIEIAaHkDgHsKQdFomUVuDGuYagFAi0xpsiQB++tKt21uAPjGhu2TmkB2lGdTYR2OTVnIz170r0pSe64gQwAgraDBIMEhAkY6IIWvS0kVw==")
	if err != nil {
		t.Fatal(err)
	}
	got, err := AppendLine([]byte("before "), raw)
	if err != nil || string(got) != "before "+goldenLine {
		t.Errorf("%q, %v; packed now: %s", got, err, base64.StdEncoding.EncodeToString(Line([]byte(goldenLine))))
	}
}

func TestLine(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, text := range map[string]string{
		"a line": goldenLine, "nothing": "", "values": "l5:ztfn1:0n3:1e9", "a word": "s4:body", "a later word": "s12:upstream.add",
		"a string": "s100:" + long, "empty": "s0:l0:m0:", "long containers": "l16:m20:", "other length": "s04:body", "no length": "s:",
		"cut":    "s5:abc",
		"no tag": "x1:a", "upper case": "s71:sha256:" + strings.Repeat("A", 64), "no id": "s26:81M7J0W0FC543MB8K52PW33BK1",
		"I in an id": "s26:01M7J0W0FC543MB8K52PW33BKI",
		"number":     "n20:18446744073709551616", "fraction": "n4:15e1", "other time": "s25:2026-11-16T11:11:25+00:00",
		"early time": "s20:0001-01-01T00:00:00Z", "late": "s20:2999-01-01T00:00:00Z",
		"nearly a time": "s21:2026-11-16T11:11:25.0Z", "bytes": "s3:\xff\x00\x01",
	} {
		packed := Line([]byte(text))
		got, err := AppendLine(nil, packed)
		if err != nil || string(got) != text || len(packed) > len(text) {
			t.Errorf("%s: %q of %q, %v", name, got, text, err)
		}
	}
	if n := len(Line([]byte(goldenLine))); n > len(goldenLine)/3 {
		t.Errorf("%d bytes of %d", n, len(goldenLine))
	}
}

// What a stranger wrote in the place of a packed line is refused, or is some line.
func FuzzLine(f *testing.F) {
	f.Add([]byte(goldenLine))
	f.Add(Line([]byte(goldenLine)))
	f.Add([]byte{lineVersion, tagSame, 0})
	f.Add(append([]byte{lineVersion, tagDigest}, bytes.Repeat([]byte{tagSame, 0}, 40)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := AppendLine(nil, b); err == nil && len(got) > mostLine+100+len(b) {
			t.Errorf("%d bytes stand for %d", len(b), len(got))
		}
		if len(b) > 0 && b[0] == lineVersion {
			return
		}
		if got, err := AppendLine(nil, Line(slices.Clone(b))); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%q became %q, %v", b, got, err)
		}
	})
}
