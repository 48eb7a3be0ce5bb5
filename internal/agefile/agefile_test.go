package agefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

const pass = "correct horse battery"

func sealed(t *testing.T, text string) []byte {
	t.Helper()
	Cheapen()
	defer func() { cost = Cost }()
	var out bytes.Buffer
	w, err := NewWriter(&out, []byte(pass))
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func opened(file []byte, passphrase string) (string, error) {
	r, err := NewReader(bytes.NewReader(file), int64(len(file)), []byte(passphrase))
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	return string(b), err
}

func TestSealAndOpen(t *testing.T) {
	file, err := Seal([]byte("a text"), []byte(pass))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(file[:80]), " 18\n") {
		t.Errorf("a guess costs %q", file[:80])
	}
	if b, err := Open(file, []byte(pass), 6); err != nil || string(b) != "a text" {
		t.Errorf("%q, %v", b, err)
	}
	file = sealed(t, "a text")
	if b, err := Open(file, []byte(pass), 5); err == nil || b != nil {
		t.Errorf("more than asked for: %q, %v", b, err)
	}
	if b, err := Open(file, []byte(pass+"x"), 6); !errors.Is(err, ErrPassphrase) || b != nil {
		t.Errorf("another passphrase: %q, %v", b, err)
	}
	if got, err := opened(file, pass); err != nil || got != "a text" {
		t.Errorf("%q, %v", got, err)
	}
}

// A file of any size is read piece by piece; where anything of it is changed, cut or added that is said, and no more
// is read than was written.
func TestFilesOfAnySize(t *testing.T) {
	for _, n := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 3 * 64 << 10, 200_000} {
		text := strings.Repeat("0123456789", n/10+1)[:n]
		file := sealed(t, text)
		if got, err := opened(file, pass); err != nil || got != text {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
		if _, err := opened(file, "another passphrase"); !errors.Is(err, ErrPassphrase) {
			t.Errorf("%d bytes: %v", n, err)
		}
		bad := func(what string, file []byte) {
			t.Helper()
			got, err := opened(file, pass)
			if !errors.Is(err, ErrChanged) && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrPassphrase) || !strings.HasPrefix(text, got) {
				t.Errorf("%d bytes, %s: %d bytes are read, %v", n, what, len(got), err)
			}
		}
		step := max(1, len(file)/60)
		for i := 0; i < len(file); i += step {
			changed := bytes.Clone(file)
			changed[i] ^= 0x10
			bad(fmt.Sprintf("byte %d changed", i), changed)
			bad(fmt.Sprintf("cut at %d", i), file[:i])
		}
		bad("longer", append(bytes.Clone(file), 'x'))
		bad("twice", append(bytes.Clone(file), file...))
	}
}

func TestWhatIsNoFileOfAge(t *testing.T) {
	for _, text := range []string{"", "a", "age-encryption.org/v2\n", strings.Repeat("x", 100)} {
		if _, err := opened([]byte(text), pass); !errors.Is(err, ErrForeign) {
			t.Errorf("%q: %v", text, err)
		}
	}
	costly := strings.Replace(string(sealed(t, "x")), " 2\n", " 30\n", 1)
	if _, err := opened([]byte(costly), pass); err == nil {
		t.Error("a file makes us work as long as it likes")
	}
}
